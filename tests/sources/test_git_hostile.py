"""Repositories that mean harm run nothing here, and fill no disk."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.repositories import git as plain_git
from tests.repositories import plain_files
from windlass.sources.git import GitSource, Limits

pytestmark = pytest.mark.slow

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


async def test_a_plain_git_clone_runs_the_filter_of_the_user_configuration(
    repository, trap, canary, tmp_path
):
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


async def test_git_ignores_a_repository_that_contains_the_data_directory(
    git, repository, into, tmp_path, trap, canary
):
    """Windlass may keep its data inside a checkout of another repository."""
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


async def test_submodules_with_an_update_command_are_refused(git, repository, refused):
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
async def test_a_repository_with_a_symlink_that_leads_out_of_it_is_refused(
    git, repository, into, refused, links, leaves
):
    repository.put({"a/file": "x"})
    for name, target in links.items():
        repository.link(name, target) if target else repository.put({name: "x"})
    repository.commit()
    if leaves:
        assert "it leads out of the repository" in await refused(git, GitSource(repository.url))
    else:
        await git.fetch(GitSource(repository.url), into)
        assert all((into / name).is_symlink() for name, target in links.items() if target)


@pytest.mark.parametrize(
    ("links", "why"),
    [
        (
            {f"l{number}": f"l{number + 1}" for number in range(42)},
            "Remove the symbolic link l0: it leads through more",
        ),
        (
            {f"l{number}": f"{'a/' * 700}{'../' * 700}l{(number + 1) % 39}" for number in range(2_000)},
            "to follow them takes too long",
        ),
    ],
)
@pytest.mark.timeout(60)
async def test_symbolic_links_that_lead_nowhere_are_refused(git, repository, refused, links, why):
    """The limit of time is the negative control: to follow all of them takes hours."""
    for name, target in links.items():
        repository.link(name, target)
    repository.commit()
    assert why in await refused(git, GitSource(repository.url))


async def test_a_symlink_to_a_folder_with_a_symlink_out_of_the_repository_is_refused(
    git, repository, refused
):
    repository.put({"app/file": "x"}).link("app/other", "../other").link("other/out", "../../..").commit()
    assert "Remove the symbolic link other/out" in await refused(
        git, GitSource(repository.url, root_path="app")
    )


async def test_a_repository_with_too_many_files_is_refused(make_git, repository, refused):
    repository.put({f"{number}": "x" for number in range(30)}).commit()
    said = await refused(make_git(limits=Limits(files=20)), GitSource(repository.url))
    assert said == "Take files out of the repository: it has more than 20 files and folders."


async def test_a_small_pack_that_becomes_billions_of_files_is_refused(git, repository, refused):
    tree = repository.git("hash-object", "-w", "--stdin", "-t", "blob")
    kind = "100644 blob"
    for _ in range(10):
        lines = "".join(f"{kind} {tree}\t{number}\n" for number in range(10))
        tree = plain_git(repository.folder, "mktree", stdin=lines.encode())
        kind = "040000 tree"
    repository.git("update-ref", "refs/heads/main", repository.git("commit-tree", tree, "-m", "A bomb"))
    assert "more than 200000 files and folders" in await refused(git, GitSource(repository.url))


async def test_a_tree_of_very_many_empty_folders_is_refused(git, repository, refused):
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
    assert said == "Take large files out of the repository: it is larger than 1 MiB."


async def test_an_oversized_pack_is_refused_during_its_transfer(make_git, repository, refused):
    repository.put({"noise": os.urandom(3_000_000)}).commit()
    said = await refused(make_git(limits=Limits(bytes=1_000_000)), GitSource(repository.url))
    assert said == "Take large files out of the repository: it is larger than 1 MiB."


async def test_a_history_that_is_too_large_is_refused_while_it_comes(make_git, repository, refused):
    repository.put({"noise": os.urandom(3_000_000)}).commit()
    (repository.folder / "noise").unlink()
    head = repository.commit()
    said = await refused(
        make_git(limits=Limits(bytes=1_000_000)), GitSource(repository.url, commit=head[:10])
    )
    assert said == "Take large files out of the repository: it is larger than 1 MiB."


async def test_files_that_grow_when_they_are_checked_out_are_refused(make_git, repository, refused):
    """`ident` writes 47 bytes for 4."""
    files = {f"{number}": "$Id$\n" * 10_000 for number in range(5)}
    repository.put({**files, ".gitattributes": "* ident\n"}).commit()
    said = await refused(make_git(limits=Limits(bytes=1_000_000)), GitSource(repository.url))
    assert said == "Take large files out of the repository: it is larger than 1 MiB."


@pytest.mark.parametrize("name", [".git", ".GIT", "..", ".", "a/../b"])
async def test_a_tree_with_a_forbidden_file_name_is_refused(git, repository, refused, name):
    blob = repository.git("hash-object", "-w", "--stdin")
    entry = b"100644 %s\0%s" % (name.encode(), bytes.fromhex(blob))
    tree = plain_git(
        repository.folder, "hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=entry
    )
    repository.git("update-ref", "refs/heads/main", repository.git("commit-tree", tree, "-m", "Odd"))
    assert "holds objects that git refuses" in await refused(git, GitSource(repository.url))


async def test_a_plain_http_git_server_cannot_redirect_object_downloads_to_another_host(
    git, listener, repository, tmp_path, refused
):
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
