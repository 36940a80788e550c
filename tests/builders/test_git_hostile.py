"""Repositories, servers and addresses that mean harm: each is refused, calls nothing and runs nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from ipaddress import ip_address

import pytest

from tests.builders.repositories import git as plain_git
from tests.builders.repositories import plain_files
from windlass.builders.git import GitSource, Limits
from windlass.builders.git.messages import explained

# {port} is a listener on loopback that must not be called, {canary} a file that must not be written.
NO_ADDRESS = [
    "",
    "-",
    "--upload-pack=touch {canary}",
    "-oProxyCommand=touch {canary}",
    "-u./payload",
    "/etc/passwd",
    "./repository",
    "ext::sh -c touch% {canary}",
    "ext::sh -c touch${{IFS}}{canary}",
    "fd::17",
    "http::http://127.0.0.1:{port}/x",
    "https::ext::sh -c touch% {canary}",
    "testgit::/tmp/x",
    "git://127.0.0.1:{port}/x",
    "ftp://127.0.0.1:{port}/x",
    "gopher://127.0.0.1:{port}/_x",
    "file:etc",
    "file://",
    "file://127.0.0.1:{port}/x",
    "file:///etc/../etc/",
    "git+ssh://git@127.0.0.1:{port}/x",
    "ssh://-oProxyCommand=touch%20{canary}/x",
    "ssh://-oProxyCommand=touch${{IFS}}{canary}@127.0.0.1:{port}/x",
    "ssh://git@-oProxyCommand=x/x",
    "ssh://git:secret@127.0.0.1:{port}/x",
    "ssh://git@127.0.0.1:{port}",
    "git@127.0.0.1:--upload-pack=touch {canary}",
    "git@-oProxyCommand=touch${{IFS}}{canary}:x",
    "-git@127.0.0.1:x",
    "git@host::x",
    "git@[127.0.0.1:{port}]:x",
    "127.0.0.1:x",
    "https://",
    "https:///x",
    "https://host",
    "https://host/",
    "https://user:secret@127.0.0.1:{port}/x",
    "https://good.example\\@127.0.0.1:{port}/x",
    "https://good.example#@127.0.0.1:{port}/x",
    "https://good.example?@127.0.0.1:{port}/x",
    "https://a@b@127.0.0.1:{port}/x",
    "https://127.0.0.1:{port}/x\nHost: other",
    "https://127.0.0.1:{port}/x\n",
    "\nhttps://127.0.0.1:{port}/x",
    " https://127.0.0.1:{port}/x",
    "https://127.0.0.1:{port}/x\0y",
    "https://127.0.0.1:{port}/x%0ay",
    "https://127.0.0.1:{port}/x%0D%0ay",
    "https://127.0.0.1:{port}/x%00y",
    "https://127.0.0.1:{port}/x%zz",
    "https://127.0.0.1:{port}/../x",
    "https://127.0.0.1:{port}/a/%2e%2e/x",
    "https://127.0.0.1:{port}/a%2f..%2fx",
    "https://127.0.0.1:{port}/x?service=git-receive-pack",
    "https://127.0.0.1:{port}/x#y",
    "https://127.0.0.1:{port}/x y",
    "https://127.0.0.1:{port}/x`touch {canary}`",
    'https://127.0.0.1:{port}/x"y',
    "https://127.0.0.1:{port}/é",
    "https://127.0.0.1:0/x",
    "https://127.0.0.1:65536/x",
    "https://127.0.0.1:{port}:{port}/x",
    "https://127.0.0.1:99999999999/x",
    "https://%31%32%37.0.0.1:{port}/x",
    "https://127.0.0.1%00.example:{port}/x",
    "https://127。0。0。1:{port}/x",
    "https://①②⑦.0.0.1:{port}/x",
    "https://lｏcalhost:{port}/x",
    "https://ex\u00adample.com/x",
    "https://-a.example/x",
    "https://a..example/x",
    "https://.example/x",
    f"https://{'a' * 64}.example/x",
    f"https://{'a.' * 130}example/x",
    f"https://host/{'x' * 3000}",
    # Numbers that the C library reads as an address, and we do not.
    "http://127.1:{port}/x",
    "http://127.0.1:{port}/x",
    "http://2130706433:{port}/x",
    "http://0x7f000001:{port}/x",
    "http://0x7f.0.0.1:{port}/x",
    "http://0177.0.0.1:{port}/x",
    "http://017700000001:{port}/x",
    "http://127.0.0.01:{port}/x",
    "http://127.0.0.1.:{port}/x",
    "http://0:{port}/x",
    "http://127.0.0.256:{port}/x",
    "https://example.0x7f:{port}/x",
    "http://[::1%25lo]:{port}/x",
    "http://[::1]]:{port}/x",
    "http://[127.0.0.1]:{port}/x",
    "http://::1:{port}/x",
    "git@2130706433:x",
    "ssh://git@0x7f.1:{port}/x",
]

NOT_PUBLIC = [
    "https://127.0.0.1:{port}/x",
    "http://127.0.0.1:{port}/x",
    "https://127.255.255.254:{port}/x",
    "HTTPS://127.0.0.1:{port}/x",
    "https://good.example@127.0.0.1:{port}/x",
    "https://@127.0.0.1:{port}/x",
    "https://localhost:{port}/x",
    "https://LOCALHOST.:{port}/x",
    "ssh://git@localhost:{port}/x",
    "ssh://localhost:{port}/x",
    "git@localhost:x",
    "git@127.0.0.1:x",
    "https://0.0.0.0:{port}/x",
    "https://[::]:{port}/x",
    "https://[::1]:{port}/x",
    "https://[0:0:0:0:0:0:0:1]:{port}/x",
    "https://[::ffff:127.0.0.1]:{port}/x",
    "https://[::ffff:7f00:1]:{port}/x",
    "https://[::127.0.0.1]:{port}/x",
    "https://[64:ff9b::7f00:1]:{port}/x",
    "https://[64:ff9b:1::7f00:1]:{port}/x",
    "https://[2002:7f00:1::]:{port}/x",
    "https://[2001:0:0:0:0:0:80ff:fffe]:{port}/x",
    "https://[fe80::1]:{port}/x",
    "https://[fd00:ec2::254]/x",
    "https://[ff02::1]:{port}/x",
    "https://[2001:db8::1]:{port}/x",
    "https://169.254.169.254/latest/meta-data",
    "https://100.100.100.200/x",
    "https://168.63.129.16/x",
    "https://10.0.0.1/x",
    "https://172.31.255.255/x",
    "https://192.168.0.1/x",
    "https://192.0.0.192/x",
    "https://198.18.0.1/x",
    "https://203.0.113.7/x",
    "https://224.0.0.1/x",
    "https://255.255.255.255/x",
    "http://github.invalid@[::1]:{port}/x",
    "file:///etc",
    "file://localhost/etc",
    "FILE:///etc",
]

BRANCHES = [
    "",
    "-",
    "--upload-pack=touch {canary}",
    "--output={canary}",
    "-c",
    "a b",
    "a\nb",
    "a\0b",
    "a..b",
    "a:b",
    "main:refs/heads/other",
    "^main",
    "main~1",
    "main^{commit}",
    "ma*n",
    "ma?n",
    "[m]ain",
    "@",
    "main@{1}",
    "a\\b",
    "/main",
    "main/",
    "a//b",
    ".main",
    "a/.b",
    "main.lock",
    "a.lock/b",
    "main.",
    "\ud800",
    "x" * 256,
]
COMMITS = [
    "HEAD",
    "main",
    "-0123456",
    "0123456 ",
    "0123456\n",
    "01234",
    "g" * 40,
    "0" * 65,
    "0123456^",
    "$(id)0123456",
]


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "canary"


@pytest.fixture
def harmless(listener, canary):
    """Puts the listener and the canary into a hostile text; afterwards neither may have noticed."""
    yield (
        lambda text: (
            text.replace("{{", "{")
            .replace("}}", "}")
            .replace("{port}", str(listener.port))
            .replace("{canary}", str(canary))
        )
    )
    assert listener.heard == []
    assert not canary.exists()


async def test_an_address_by_another_grammar_is_refused_also_where_local_ones_are_allowed(
    make_git, harmless, refused
):
    for text in NO_ADDRESS:
        for allow_local in (True, False):
            url = harmless(text)
            said = await refused(make_git(allow_local=allow_local), GitSource(url))
            assert "address of the repository" in said, url


async def test_an_address_that_is_not_public_is_refused(make_git, harmless, refused):
    git = make_git(allow_local=False)
    for text in NOT_PUBLIC:
        said = await refused(git, GitSource(harmless(text)))
        assert "has no public address" in said or "git_allow_local" in said, text


@pytest.mark.parametrize(
    "found",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["140.82.112.3", "127.0.0.1"],
    ],
)
async def test_a_name_that_leads_to_an_address_that_is_not_public_is_refused(
    make_git, listener, refused, found
):
    async def resolve(name, port):
        return [ip_address(each) for each in found]

    git = make_git(allow_local=False, resolve=resolve)
    for url in (f"https://git.example:{listener.port}/x", f"ssh://git@git.example:{listener.port}/x"):
        assert "git.example has no public address" in await refused(git, GitSource(url))
    assert listener.heard == []


async def test_the_operator_can_allow_a_network(make_git, repository, server, into):
    head = repository.commit()
    git = make_git(allow_local=False, outbound_allow=["127.0.0.0/8"])
    assert (await git.fetch(GitSource(server.url("shop.git")), into)).id == head


async def test_plain_http_goes_to_allowed_networks_only(make_git, refused):
    async def resolve(name, port):
        return [ip_address("140.82.112.3")]

    said = await refused(make_git(resolve=resolve), GitSource("http://git.example/x"))
    assert "use https://" in said


async def test_a_branch_that_git_would_read_as_something_else_is_refused(git, repository, harmless, refused):
    repository.commit()
    for text in BRANCHES:
        said = await refused(git, GitSource(repository.url, branch=harmless(text)))
        assert said == "The branch has a name that git does not allow.", text


async def test_a_branch_may_begin_with_a_sign_that_means_force_elsewhere(git, repository, into):
    commit = repository.commit()
    repository.git("branch", "+main")
    fetched = await git.fetch(GitSource(repository.url, branch="+main"), into)
    assert fetched.id == commit


async def test_a_commit_that_is_not_hexadecimal_is_refused(git, repository, refused):
    repository.commit()
    for text in COMMITS:
        said = await refused(git, GitSource(repository.url, commit=text))
        assert said == "A commit is named by 7 to 64 hexadecimal digits.", text


def test_words_of_git_that_we_do_not_know_are_shown_without_paths_of_this_machine():
    said = explained(
        "remote: fatal: /no/matter\nfatal: odd thing in '/srv/x/y': /a b\n", "https://h/x", has_token=False
    )
    assert str(said) == "git could not fetch https://h/x: odd thing in '…': … b"
    url = "https://h/certificate-redirect"
    assert "cannot be reached" in str(explained(f"fatal: '{url}': Failed to connect", url, has_token=False))
    assert str(explained("", "https://h/x", has_token=False)).endswith("it gave no reason")


async def test_the_listener_and_the_canary_would_notice(git, listener, canary, tmp_path, refused):
    """The control of everything above."""
    await refused(git, GitSource(f"http://127.0.0.1:{listener.port}/x"))
    assert listener.heard[0].startswith(b"GET /x/info/refs")
    with pytest.raises(subprocess.CalledProcessError):
        plain_git(tmp_path, "-c", "protocol.ext.allow=always", "ls-remote", f"ext::sh -c touch% {canary}")
    assert canary.exists()


HOSTILE_SETTINGS = {
    "core.hooksPath": "{hooks}",
    "core.fsmonitor": "{run}",
    "filter.evil.smudge": "{run}",
    "filter.evil.process": "{run}",
    "filter.evil.required": "true",
    "core.sshCommand": "{run}",
    "core.askPass": "{run}",
    "core.alternateRefsCommand": "{run}",
    "credential.helper": "!{run}",
    "uploadpack.packObjectsHook": "{run}",
    "gpg.program": "{run}",
    "log.showSignature": "true",
    "core.attributesFile": "{attributes}",
}


@pytest.fixture
def trap(tmp_path, canary):
    """Settings under which any git of this user runs a program that leaves a canary."""
    run = tmp_path / "trap" / "post-checkout"
    run.parent.mkdir()
    run.write_text(f"#!/bin/sh\ntouch '{canary}'\ncat\n")
    run.chmod(0o755)
    attributes = tmp_path / "trap" / "attributes"
    attributes.write_text("* filter=evil\n")
    for name in ("reference-transaction", "post-index-change", "post-merge", "pre-auto-gc"):
        shutil.copy(run, run.with_name(name))
    places = {"hooks": run.parent, "run": run, "attributes": attributes}
    return {key: value.format(**places) for key, value in HOSTILE_SETTINGS.items()}


def as_environment(settings):
    numbered = enumerate(settings.items())
    pairs = [
        (f"GIT_CONFIG_{part}_{place}", text)
        for place, pair in numbered
        for part, text in zip(("KEY", "VALUE"), pair, strict=True)
    ]
    return {"GIT_CONFIG_COUNT": str(len(settings)), **dict(pairs)}


async def test_hooks_filters_and_helpers_of_this_user_do_not_run(
    git, repository, into, home, trap, canary, tmp_path, monkeypatch
):
    repository.put({"app": "x", ".gitattributes": "* filter=evil\n"}).commit()
    home.mkdir()
    for name in (".gitconfig", ".config/git/config"):
        path = tmp_path / "user" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_file(trap))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for name, value in as_environment(trap).items():
        monkeypatch.setenv(name, value)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    for name in ("GIT_TRACE", "GIT_TRACE_PACKET", "GIT_TRACE2"):
        monkeypatch.setenv(name, str(canary))
    monkeypatch.setenv("GIT_SSH_COMMAND", trap["core.sshCommand"])

    await git.fetch(GitSource(repository.url), into)
    await git.commits(GitSource(repository.url))
    await git.head(GitSource(repository.url))
    assert (into / "app").read_text() == "x"
    assert not canary.exists()


async def test_the_trap_would_catch_a_plain_git(repository, trap, canary, tmp_path):
    """The control of the test above."""
    repository.put({"app": "x", ".gitattributes": "* filter=evil\n"}).commit()
    user = tmp_path / "user" / ".gitconfig"
    user.parent.mkdir()
    user.write_text(as_file(trap))
    environment = {"PATH": os.environ["PATH"], "HOME": str(user.parent)}
    subprocess.run(
        ["git", "clone", "--quiet", repository.url, str(tmp_path / "clone")],
        env=environment,
        capture_output=True,
    )
    assert canary.exists()


async def test_a_repository_around_us_is_not_asked(git, repository, into, tmp_path, trap, canary):
    """As when Windlass keeps its data inside a checkout of somebody."""
    plain_git(tmp_path, "init", "--quiet")
    with (tmp_path / ".git" / "config").open("a") as config:
        config.write(as_file(trap))
        config.write(f'[url "file://{tmp_path}/none"]\n\tinsteadOf = {repository.url}\n')
    head = repository.commit()
    assert (await git.head(GitSource(repository.url)))[1] == head
    assert (await git.fetch(GitSource(repository.url), into)).id == head
    assert not canary.exists()


async def test_hooks_and_settings_in_a_repository_do_not_run(git, repository, into, canary):
    hook = f"#!/bin/sh\ntouch {canary}\n"
    repository.put(
        {"hooks/post-checkout": hook, ".githooks/post-checkout": hook, "config": "[core]\nx = y\n"}
    )
    for path in ("hooks/post-checkout", ".githooks/post-checkout", ".git/hooks/post-checkout"):
        repository.put({path: hook})
        (repository.folder / path).chmod(0o755)
    repository.commit()
    repository.git("config", "core.hooksPath", "hooks")
    canary.unlink(missing_ok=True)
    await git.fetch(GitSource(repository.url), into)
    assert not canary.exists()
    repository.git("checkout", "--quiet", "--detach")
    assert canary.exists()  # the control: a git that honours the setting runs it


async def test_submodules_are_neither_fetched_nor_run(git, repository, into, listener, canary, tmp_path):
    repository.put(
        {
            ".gitmodules": f'[submodule "a"]\n\tpath = a\n\turl = "ext::sh -c touch% {canary}"\n'
            f'[submodule "b"]\n\tpath = b\n\turl = http://127.0.0.1:{listener.port}/b\n'
        }
    ).commit()
    for name in ("a", "b"):
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{name}")
    repository.git("commit", "--quiet", "--message", "Add submodules")
    await git.fetch(GitSource(repository.url), into)
    assert listener.heard == []
    assert not canary.exists()
    clone = ("clone", "--quiet", "--recurse-submodules", repository.url, "clone")
    with pytest.raises(subprocess.CalledProcessError):  # the control
        plain_git(tmp_path, "-c", "protocol.allow=always", *clone)
    assert canary.exists()
    assert listener.heard != []


async def test_submodules_that_bring_a_command_are_refused(git, repository, refused):
    repository.put({".gitmodules": '[submodule "a"]\n\tpath = a\n\turl = x\n\tupdate = !touch x\n'}).commit()
    assert "holds objects that git refuses" in await refused(git, GitSource(repository.url))


LINKS = [
    ({"out": "/etc"}, True),
    ({"out": "/etc/passwd"}, True),
    ({"out": "../secret"}, True),
    ({"a/out": "../../secret"}, True),
    ({"a/out": "../b/../../secret"}, True),
    ({"a/out": ".."}, False),
    ({"out": "."}, False),
    ({"out": "./a/../a/file"}, False),
    ({"a/out": "../a/file"}, False),
    ({"dangling": "not/there"}, False),
    ({"dangling": "not/there/../../../secret"}, True),
    ({"loop": "loop"}, False),
    ({"one": "two", "two": "one/x"}, False),
    # Each by itself seems to stay inside; together they do not.
    ({"a/b/top": "../..", "a/b/out": "top/../secret"}, True),
    ({"a/b/top": "../..", "a/b/in": "top/a/file"}, False),
    ({"d": "a/b", "d2": "d/../..", "a/b/file": ""}, False),
    ({"d": "a/b", "d2": "d/../../..", "a/b/file": ""}, True),
    ({"node_modules/.bin/x": "../x/bin.js"}, False),
]


@pytest.mark.parametrize(("links", "leaves"), LINKS)
async def test_symbolic_links_must_stay_inside(git, repository, into, refused, links, leaves):
    repository.put({"a/file": "x"})
    for name, target in links.items():
        repository.link(name, target) if target else repository.put({name: "x"})
    repository.commit()
    if leaves:
        assert "is a symbolic link that leaves the repository" in await refused(
            git, GitSource(repository.url)
        )
    else:
        await git.fetch(GitSource(repository.url), into)
        assert all((into / name).is_symlink() for name, target in links.items() if target)


async def test_a_link_within_the_folder_that_is_built_may_not_hide_behind_another(git, repository, refused):
    repository.put({"app/file": "x"}).link("app/other", "../other").link("other/out", "../../..").commit()
    assert "other/out is a symbolic link" in await refused(git, GitSource(repository.url, root_path="app"))


async def test_a_repository_with_too_many_files_is_refused(make_git, repository, refused):
    repository.put({f"{number}": "x" for number in range(30)}).commit()
    said = await refused(make_git(limits=Limits(files=20)), GitSource(repository.url))
    assert said == "The repository has more than 20 files and folders."


async def test_a_small_pack_that_becomes_billions_of_files_is_refused(git, repository, refused):
    tree = repository.git("hash-object", "-w", "--stdin", "-t", "blob")
    kind = "100644 blob"
    for _ in range(10):
        lines = "".join(f"{kind} {tree}\t{number}\n" for number in range(10))
        tree = plain_git(repository.folder, "mktree", stdin=lines.encode())
        kind = "040000 tree"
    repository.git("update-ref", "refs/heads/main", repository.git("commit-tree", tree, "-m", "A bomb"))
    assert "more than 200000 files and folders" in await refused(git, GitSource(repository.url))


async def test_a_tree_of_empty_folders_only_is_refused_as_well(git, repository, refused):
    tree = plain_git(repository.folder, "mktree", stdin=b"")
    for _ in range(10):
        lines = "".join(f"040000 tree {tree}\t{number}\n" for number in range(10))
        tree = plain_git(repository.folder, "mktree", stdin=lines.encode())
    repository.git("update-ref", "refs/heads/main", repository.git("commit-tree", tree, "-m", "A bomb"))
    assert "more than 200000 files and folders" in await refused(git, GitSource(repository.url))


@pytest.mark.parametrize("path", ["/".join("d" * 150), "/".join(["x" * 200] * 12)])
async def test_paths_that_are_too_long_or_too_deep_are_refused(git, repository, refused, path):
    blob = repository.git("hash-object", "-w", "--stdin")
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    repository.git("commit", "--quiet", "--message", "Deep")
    assert "is too long a path" in await refused(git, GitSource(repository.url))


async def test_a_small_pack_that_becomes_large_files_is_refused(make_git, repository, refused):
    repository.put({"zeros": b"\0" * 3_000_000}).commit()
    said = await refused(make_git(limits=Limits(bytes=1_000_000)), GitSource(repository.url))
    assert said == "The repository is larger than 1 MiB."


async def test_a_pack_that_is_too_large_is_refused_while_it_comes(make_git, repository, refused):
    repository.put({"noise": os.urandom(3_000_000)}).commit()
    said = await refused(make_git(limits=Limits(bytes=1_000_000)), GitSource(repository.url))
    assert said == "The repository is larger than 1 MiB."


async def test_a_history_that_is_too_large_is_refused_while_it_comes(make_git, repository, refused):
    repository.put({"noise": os.urandom(3_000_000)}).commit()
    (repository.folder / "noise").unlink()
    head = repository.commit()
    said = await refused(
        make_git(limits=Limits(bytes=1_000_000)), GitSource(repository.url, commit=head[:10])
    )
    assert said == "The repository is larger than 1 MiB."


async def test_files_that_grow_when_they_are_checked_out_are_refused(make_git, repository, refused):
    """`ident` writes 47 bytes for 4."""
    files = {f"{number}": "$Id$\n" * 10_000 for number in range(5)}
    repository.put({**files, ".gitattributes": "* ident\n"}).commit()
    said = await refused(make_git(limits=Limits(bytes=1_000_000)), GitSource(repository.url))
    assert said == "The repository is larger than 1 MiB."


@pytest.mark.parametrize("name", [".git", ".GIT", "..", ".", "a/../b"])
async def test_a_tree_with_a_name_that_no_folder_may_have_is_refused(git, repository, refused, name):
    blob = repository.git("hash-object", "-w", "--stdin")
    entry = b"100644 %s\0%s" % (name.encode(), bytes.fromhex(blob))
    tree = plain_git(
        repository.folder, "hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=entry
    )
    repository.git("update-ref", "refs/heads/main", repository.git("commit-tree", tree, "-m", "Odd"))
    assert "holds objects that git refuses" in await refused(git, GitSource(repository.url))


async def test_a_server_of_plain_files_cannot_send_us_elsewhere(git, listener, repository, tmp_path, refused):
    """`http-alternates` name another place for objects, on any host."""
    head = repository.write(app="x").commit()
    repository.git("update-server-info")
    store = repository.folder / ".git"
    elsewhere = f"http://127.0.0.1:{listener.port}/objects\n"
    (store / "objects" / "info" / "http-alternates").write_text(elsewhere)
    (store / "objects" / head[:2] / head[2:]).unlink()
    with plain_files(store) as url:
        for commit in (None, head, head[:10]):
            await refused(git, GitSource(url, commit=commit))
        assert listener.heard == []
        with pytest.raises(subprocess.CalledProcessError):  # the control
            plain_git(tmp_path, "-c", "http.followRedirects=true", "clone", url, "clone")
        assert listener.heard != []


def as_file(settings):
    lines = []
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        first, _, second = section.partition(".")
        lines.append(f'[{first} "{second}"]' if second else f"[{first}]")
        lines.append(f"\t{name} = {value}")
    return "\n".join(lines) + "\n"
