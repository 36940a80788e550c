"""Addresses, branches and commits that would lead git elsewhere are refused."""

from __future__ import annotations

import subprocess
from ipaddress import ip_address

import pytest

from tests.repositories import git as plain_git
from windlass.sources.git import GitSource
from windlass.sources.git.messages import explain

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


async def test_a_malformed_repository_address_is_refused_even_if_local_ones_are_allowed(
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
        assert "has no public address" in said or "WINDLASS_GIT_ALLOW_LOCAL=1" in said, text


async def test_a_repository_in_the_data_directory_is_refused_however_its_path_is_written(
    make_git, refused, tmp_path
):
    kept = tmp_path / "data" / "git" / "kept" / "shop" / "copy"
    kept.mkdir(parents=True)
    plain_git(kept, "init", "-q")
    (tmp_path / "link").symlink_to(kept)
    git = make_git(closed=tmp_path / "data")
    for path in (kept, tmp_path / "link", f"{tmp_path}//data/git/kept/shop/copy"):
        assert "outside of the data directory" in await refused(git, GitSource(f"file://{path}"))
    # Negative control: it is found where nothing is closed.
    assert "outside of" not in await refused(make_git(), GitSource(f"file://{kept}"))


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
    assert said.startswith("Use https://: ")


async def test_an_invalid_or_option_like_branch_name_is_refused(git, repository, harmless, refused):
    repository.commit()
    for text in BRANCHES:
        said = await refused(git, GitSource(repository.url, branch=harmless(text)))
        assert said == "The branch has a name that git does not allow.", text


async def test_a_branch_name_may_begin_with_a_plus_sign(git, repository, into):
    commit = repository.commit()
    repository.git("branch", "+main")
    fetched = await git.fetch(GitSource(repository.url, branch="+main"), into)
    assert fetched.id == commit


async def test_a_commit_that_is_not_hexadecimal_is_refused(git, repository, refused):
    repository.commit()
    for text in COMMITS:
        said = await refused(git, GitSource(repository.url, commit=text))
        assert said == "A commit is named by 7 to 64 hexadecimal digits.", text


def test_unknown_git_messages_are_shown_without_paths_of_the_machine():
    said = explain(
        "remote: fatal: /no/matter\nfatal: odd thing in '/srv/x/y': /a b\n", "https://h/x", has_token=False
    )
    assert str(said) == "git could not fetch https://h/x: odd thing in '…': … b"
    url = "https://h/certificate-redirect"
    assert "cannot be reached" in str(explain(f"fatal: '{url}': Failed to connect", url, has_token=False))
    assert str(explain("", "https://h/x", has_token=False)).endswith("it gave no reason")


async def test_the_listener_and_the_canary_of_these_tests_detect_a_connection_and_an_execution(
    git, listener, canary, tmp_path, refused
):
    """The control of everything above."""
    await refused(git, GitSource(f"http://127.0.0.1:{listener.port}/x"))
    assert listener.heard[0].startswith(b"GET /x/info/refs")
    with pytest.raises(subprocess.CalledProcessError):
        plain_git(tmp_path, "-c", "protocol.ext.allow=always", "ls-remote", f"ext::sh -c touch% {canary}")
    assert canary.exists()
