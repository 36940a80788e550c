"""Git with servers: tokens, redirects, time limits, cancelling and pinned addresses."""

from __future__ import annotations

import asyncio
import os
import subprocess
from ipaddress import ip_address

import pytest

from tests.certificates import authority, serves
from tests.home_processes import processes_of
from tests.needs import needs
from tests.repositories import self_signed, serving
from tests.sources.fetched import files
from windlass.sources.git import GitError, GitSource, Limits
from windlass.sources.git.trust import BUNDLE_NAME


async def until(true, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 (it happens in another process)
            await asyncio.sleep(0.01)


async def test_a_private_repository_is_fetched_only_with_its_token(git, repository, server, into, refused):
    repository.write(app="x").commit()
    server.password = "s3cret-token"
    url = server.url("shop.git")

    assert "Create a git token for a private repository" in await refused(git, GitSource(url))
    assert "Renew the git token" in await refused(git, GitSource(url, token="wr0ng-token"))
    for right in ("s3cret-token", "robot:s3cret-token"):
        await git.fetch(GitSource(url, token=right), into)
    assert files(into) == {"app"}
    await git.head(GitSource(url, token="s3cret-token"))
    await git.commits(GitSource(url, token="s3cret-token"))


async def test_a_token_is_in_no_argument_no_file_no_message_and_no_log(git, repository, server, into, home):
    repository.commit()
    server.hangs = True
    source = GitSource(server.url("shop.git"), token="s3cret-token")
    assert "s3cret-token" not in repr(source)
    task = asyncio.create_task(git.fetch(source, into))
    await until(lambda: server.authorizations and any("remote-http" in each for each in processes_of(home)))

    (header,) = server.authorizations
    secrets = ("s3cret-token", header.removeprefix("Basic "))
    commands = " ".join(processes_of(home))
    kept = "".join(path.read_text(errors="replace") for path in into.rglob("*") if path.is_file())
    assert "fetch" in commands
    assert "repositoryformatversion" in kept
    assert not any(secret in text for secret in secrets for text in (commands, kept))

    task.cancel()
    await asyncio.wait([task])


async def test_a_token_echoed_by_a_git_server_is_masked_in_the_log(git, repository, server, tmp_path, into):
    loud = tmp_path / "loud"
    loud.write_text('#!/bin/sh\necho "you sent s3cret-token, $HTTP_AUTHORIZATION" >&2\nexec "$@"\n')
    loud.chmod(0o755)
    server.environment = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "uploadpack.packObjectsHook",
        "GIT_CONFIG_VALUE_0": str(loud),
    }
    repository.commit()
    told: list[str] = []
    await git.fetch(GitSource(server.url("shop.git"), token="s3cret-token"), into, told.append)
    assert "remote: you sent ***, Basic ***" in told


async def test_a_redirect_is_not_followed(git, repository, server, listener, tmp_path, refused):
    repository.commit()
    server.redirects["/shop.git"] = f"http://127.0.0.1:{listener.port}/shop.git"
    said = await refused(git, GitSource(server.url("shop.git"), token="s3cret-token"))
    assert "answers with a redirect, which is not followed" in said
    assert listener.heard == []


async def test_an_address_without_its_suffix_is_found_where_a_server_redirects_to_it(
    git, repository, server, into
):
    head = repository.commit()
    server.redirects["/shop/"] = server.url("shop.git/")
    assert (await git.fetch(GitSource(server.url("shop")), into)).id == head


async def test_a_fetch_from_a_silent_server_ends_at_the_time_limit(make_git, repository, server, refused):
    server.hangs = True
    git = make_git(limits=Limits(seconds=0.5))
    said = await refused(git, GitSource(server.url("shop.git")))
    assert said.startswith("Check the git server, or deploy again: the repository was not fetched within")


async def test_cancelling_leaves_no_process_and_no_folder(git, repository, server, into, home):
    server.hangs = True
    task = asyncio.create_task(git.fetch(GitSource(server.url("shop.git")), into))
    await until(server.asked.is_set)
    assert into.exists()
    assert processes_of(home)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not into.exists()
    assert processes_of(home) == []


async def test_cancelling_at_any_moment_leaves_no_process_and_no_folder(git, repository, tmp_path, home):
    repository.put({f"{number}": "x" for number in range(50)}).commit()
    for moment in range(12):
        into = tmp_path / "copies" / str(moment)
        task = asyncio.create_task(git.fetch(GitSource(repository.url), into))
        await asyncio.sleep(moment * 0.012)
        task.cancel()
        await asyncio.wait([task])
        assert into.exists() == (not task.cancelled())
        assert processes_of(home) == []


async def test_git_connects_only_to_the_address_that_was_checked(
    make_git, tmp_path, repository, listener, into
):
    """A name that leads elsewhere once it was judged: localhost is 127.0.0.1, and was judged as 127.0.0.2."""
    judged = []

    async def resolve(name, port):
        judged.append(name)
        return [ip_address("127.0.0.2")]

    git = make_git(resolve=resolve)
    head = repository.commit()
    with serving(tmp_path / "served", "127.0.0.2") as server:
        for name in ("localhost", "git.example"):
            assert (await git.fetch(GitSource(server.url("shop.git", name)), into)).id == head
        with pytest.raises(GitError, match="cannot be reached"):
            await git.head(GitSource(f"http://localhost:{listener.port}/shop.git"))
    assert listener.heard == []
    assert judged == ["localhost", "git.example", "localhost"]


@needs("ssh")
async def test_ssh_calls_the_checked_address_without_a_prompt(make_git, listener):
    async def resolve(name, port):
        return [ip_address("127.0.0.1")]

    git = make_git(resolve=resolve)
    with pytest.raises(GitError, match=r"cannot be reached|asks for an ssh key"):
        await git.head(GitSource(f"ssh://git@git.example:{listener.port}/shop.git"))
    assert listener.heard
    assert listener.heard[0].startswith(b"SSH-2.0")


async def test_a_git_too_old_to_pin_addresses_is_refused_before_any_connection(
    make_git, repository, tmp_path, monkeypatch, refused
):
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    monkeypatch.setenv("PATH", str(old.parent))
    install = "Install git 2.37 or newer on the machine that runs Windlass"
    assert (
        await refused(make_git(), GitSource(repository.url))
        == f"{install}: the PATH of the server has no git."
    )
    old.write_text("#!/bin/sh\necho git version 2.36.9\n")
    old.chmod(0o755)
    assert await refused(make_git(), GitSource(repository.url)) == f"{install}: it has git version 2.36.9."


async def test_listing_commits_does_not_fetch_file_contents(git, repository, server, home):
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.put({"large": os.urandom(1_000_000)}).commit("Large")
    (commit,) = await git.commits(GitSource(server.url("shop.git")))
    assert commit.message == "Large"
    assert server.sent < 10_000


async def test_leftovers_of_a_killed_windlass_are_removed(git, repository, server, home, into):
    """Another process with the same home stands for the git of an earlier life."""
    home.mkdir()
    (home / "commits-left").mkdir()
    hanging = subprocess.Popen(["sleep", "60"], env={"HOME": str(home), "PATH": os.environ["PATH"]})
    other = subprocess.Popen(["sleep", "60"], env={"HOME": f"{home}-other", "PATH": os.environ["PATH"]})
    await until(lambda: processes_of(home))
    await git.sweep()
    assert hanging.wait(5) == -9
    assert list(home.iterdir()) == []
    assert other.poll() is None
    other.kill()
    other.wait()


async def test_a_server_with_an_untrusted_certificate_is_refused(git, tmp_path, refused):
    with self_signed(tmp_path) as (port, requests):
        said = await refused(git, GitSource(f"https://localhost:{port}/shop.git", token="s3cret-token"))
    assert "certificate is not valid" in said
    assert requests == []


async def test_the_authorities_of_the_operator_are_trusted_beside_those_of_the_system(
    make_git, home, repository, into, tmp_path, monkeypatch
):
    repository.write(app="x").commit()
    system, own = authority(tmp_path / "system"), authority(tmp_path / "own")
    monkeypatch.setenv("SSL_CERT_FILE", str(system.file))
    git = make_git(ca_file=str(own.file))
    for by in (own, system):
        with serving(repository.folder.parent, context=serves(by, "localhost")) as server:
            url = f"https://localhost:{server.port}/{repository.folder.name}"
            await git.fetch(GitSource(url), into)
            with pytest.raises(GitError, match="outbound_ca_file"):
                await make_git().fetch(GitSource(url), into)
    (home / BUNDLE_NAME).unlink()
