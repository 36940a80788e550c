"""Requests that start programs, or ask other machines, take a bounded share of the machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.loopback import receiver
from tests.world import World, make_world
from windlass.base.errors import Unavailable
from windlass.control.context import git_reader
from windlass.control.context.call import Reading, handler_of
from windlass.control.context.git_reader import (
    MAX_READS,
    MAX_READS_OF_CALLER,
    MAX_READS_OF_ORG,
    SPARE_READS,
    SPARE_READS_OF_CALLERS,
    LimitedGitReader,
    ReadCaller,
)
from windlass.families import registry
from windlass.sources.git import Git, GitCommit, GitError, GitSource

ONE = ReadCaller("org", "ada")
LIMIT = MAX_READS + SPARE_READS + SPARE_READS_OF_CALLERS


class Silent:
    """Repositories that do not answer until they are told to."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.begun = self.running = self.most = 0
        self.why = ""

    async def commits(self, source: GitSource, limit: int = 20) -> list[GitCommit]:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.answers.wait()
            if self.why:
                raise GitError(self.why)
            return []
        finally:
            self.running -= 1

    async def head(self, source: GitSource) -> tuple[str, str]:
        raise GitError("nobody asks for a branch here")

    async def sweep(self) -> None:
        """Has nothing to remove."""

    async def stop(self) -> None:
        """Has nothing to end."""


@pytest.fixture
def git() -> Any:
    return Silent()


@pytest.fixture
async def world(git: Any) -> AsyncIterator[World]:
    async with make_world(git=git) as made:
        yield made


async def turned(times: int = 20) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def until(said: Any) -> None:
    async with asyncio.timeout(10):
        while not said():  # noqa: ASYNC110 (it happens in other processes)
            await asyncio.sleep(0.01)


async def asked(world: World, git: Silent, apps: list[str]) -> list[Any]:
    """All of them at once; the repositories answer when nothing more begins."""
    tasks = [asyncio.create_task(world.get(f"/application/{app}/commit")) for app in apps]
    await until(lambda: git.running)
    await asyncio.sleep(0.1)
    git.answers.set()
    return await asyncio.gather(*tasks)


async def test_concurrent_requests_for_the_commits_of_a_service_share_one_git_call(world: World, git: Silent):
    app = await world.application()
    answers = await asked(world, git, [app] * 60)
    assert [answer.status for answer in answers] == [200] * 60
    assert git.begun == 1


async def test_git_reads_over_the_limit_of_a_caller_get_503_with_retry_after(world: World, git: Silent):
    apps = [await world.application() for _ in range(20)]
    answers = await asked(world, git, apps)
    assert git.most == MAX_READS_OF_CALLER
    refused = [answer for answer in answers if answer.status != 200]
    assert len(refused) == 20 - MAX_READS_OF_CALLER
    assert {answer.status for answer in refused} == {503}
    assert refused[0].headers["retry-after"] == "5"
    assert "Ask again in a few seconds" in refused[0].message


async def test_git_reads_of_all_organizations_together_are_limited(git: Silent):
    listings = LimitedGitReader(git)
    asking = [
        asyncio.create_task(
            listings.commits(
                ReadCaller(f"org-{number}", "ada"), "service", GitSource("https://git.example/a")
            )
        )
        for number in range(20)
    ]
    await turned()
    git.answers.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert git.most == LIMIT
    assert sum(isinstance(result, Unavailable) for result in results) == 20 - LIMIT


@pytest.mark.parametrize(("spare", "is_served"), [(SPARE_READS, True), (0, False)])
async def test_two_organizations_at_their_git_read_limit_leave_capacity_for_a_third(
    git: Silent, monkeypatch: pytest.MonkeyPatch, spare: int, is_served: bool
):
    monkeypatch.setattr(git_reader, "MAX_READS_OF_CALLER", MAX_READS_OF_ORG)
    monkeypatch.setattr(git_reader, "SPARE_READS", spare)
    monkeypatch.setattr(git_reader, "SPARE_READS_OF_CALLERS", 0)
    listings = LimitedGitReader(git)

    def asks(org: str, name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(
            listings.commits(ReadCaller(org, "ada"), "service", GitSource(f"https://git.example/{name}"))
        )

    taken = [asks(org, str(number)) for org in ("mallory", "eve") for number in range(10)]
    await turned()
    other = asks("ada", "shop")
    await turned()
    assert other.done() is not is_served, "without a place it is refused at once"
    git.answers.set()
    await asyncio.gather(*taken, other, return_exceptions=True)
    assert isinstance(other.exception(), Unavailable) is not is_served


@pytest.mark.parametrize("is_walled", [True, False])
async def test_a_caller_at_its_git_read_limit_leaves_capacity_for_others_of_its_organization(
    world: World, git: Silent, monkeypatch: pytest.MonkeyPatch, is_walled: bool
):
    if not is_walled:
        monkeypatch.setattr(git_reader, "MAX_READS_OF_CALLER", MAX_READS_OF_ORG)
        monkeypatch.setattr(git_reader, "SPARE_READS_OF_CALLERS", 0)
    environment, shop = await world.environment(), await world.application()
    token = await world.new_token("Write", limited_to=[environment])
    apps = [await world.application(environment) for _ in range(8)]
    taken = [asyncio.create_task(world.get(f"/application/{app}/commit", token=token)) for app in apps]
    await until(lambda: git.running)
    await asyncio.sleep(0.1)
    held = git.running
    other = asyncio.create_task(world.get(f"/application/{shop}/commit"))
    await asyncio.sleep(0.1)
    assert (git.running - held, other.done()) == ((1, False) if is_walled else (0, True))
    git.answers.set()
    await asyncio.gather(*taken, other)


@pytest.mark.parametrize(
    ("running", "has_one"),
    [
        ([("a", "1")] * MAX_READS_OF_CALLER, True),
        ([("a", "me")] * MAX_READS_OF_CALLER, False),
        ([("a", "1")] * 3 + [("a", "2")] * 2, True),
        ([("a", "1")] * 3 + [("a", "2")] * 3, False),
        ([("b", "1")] * 4 + [("c", "1")] * 4, True),
        ([("b", "1")] * 4 + [("c", "1")] * 4 + [("a", "1")] * 2, False),
        ([(str(number), "1") for number in range(LIMIT)], False),
    ],
)
def test_reads_are_counted_by_caller_and_by_organization(running: list[tuple[str, str]], has_one: bool):
    assert git_reader.has_place(ReadCaller("a", "me"), [ReadCaller(*one) for one in running]) is has_one


async def test_git_results_and_failures_are_cached_for_a_few_seconds(git: Silent):
    listings, git.why = LimitedGitReader(git), "no"
    git.answers.set()
    for _ in range(5):
        with pytest.raises(GitError):
            await listings.commits(ONE, "service", GitSource("https://git.example/a"))
    assert git.begun == 1
    forgetful = LimitedGitReader(git, cache_seconds=-1)
    for _ in range(5):
        with pytest.raises(GitError):
            await forgetful.commits(ONE, "service", GitSource("https://git.example/a"))
    assert git.begun == 6


async def test_a_cached_git_result_is_not_used_for_another_repository(git: Silent):
    listings = LimitedGitReader(git)
    git.answers.set()
    for address in ("a", "b"):
        await listings.commits(ONE, "service", GitSource(f"https://git.example/{address}"))
    assert git.begun == 2


async def test_a_git_call_is_cancelled_when_its_last_waiting_request_is_cancelled(git: Silent):
    listings = LimitedGitReader(git)
    asking = [
        asyncio.create_task(listings.commits(ONE, "service", GitSource("https://git.example/a")))
        for _ in range(2)
    ]
    await turned()
    asking[0].cancel()
    await turned()
    assert git.running == 1, "the other one still waits"
    asking[1].cancel()
    await turned()
    assert git.running == 0


async def test_a_repository_that_does_not_answer_in_time_is_reported(git: Silent):
    with pytest.raises(GitError, match=r"did not answer within 0\.01 seconds"):
        await LimitedGitReader(git, seconds=0.01).commits(ONE, "service", GitSource("https://git.example/a"))
    assert git.running == 0


async def test_a_client_that_hangs_up_leaves_no_listing_behind(world: World, git: Silent):
    app = await world.application()
    gone, sent = asyncio.Event(), list[Any]()
    scope = {
        "type": "http", "method": "GET", "path": f"/application/{app}/commit", "query_string": b"",
        "headers": [(b"authorization", f"Token {world.token}".encode())], "client": ("203.0.113.7", 5),
        "raw_path": b"", "scheme": "http", "http_version": "1.1",
    }  # fmt: skip

    async def receive() -> Any:
        if not gone.is_set():
            await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    answering = asyncio.create_task(world.installation.app(scope, receive, send))
    await until(lambda: git.running)
    gone.set()
    await answering
    await turned()
    assert git.running == 0


async def test_git_processes_end_when_their_requests_are_cancelled(tmp_path: Path):
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    home = tmp_path / "git"
    async with receiver(silence) as silent:
        git = Git(allow_local=True, outbound_allow=["127.0.0.0/8"], home=home)
        async with make_world(git=git) as world:
            app = await world.application(git_repository={"url": silent.url(path="/a.git"), "branch": "main"})
            asking = [asyncio.create_task(world.get(f"/application/{app}/commit")) for _ in range(30)]
            await until(lambda: gits_of(home))
            await asyncio.sleep(0.3)
            assert len(gits_of(home)) <= 6, "two gits, each with the helpers that it starts"
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await until(lambda: not gits_of(home))


def gits_of(home: Path) -> list[str]:
    """Processes that have this folder as their home."""
    wanted, found = f"HOME={home}".encode(), list[str]()
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and wanted in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_every_read_operation_that_contacts_other_servers_is_declared_as_such():
    """A request that reads and reaches for git or for other servers says so, and ends with its caller."""
    reading = [operation for operation in registry().operations if not operation.writes]
    reaching = {one.id for one in reading if reaches_out(cast(Reading, handler_of(one)))}
    assert reaching
    assert reaching <= {one.id for one in reading if one.outside}


def reaches_out(reader: Reading) -> bool:
    return not {"git_reader", "git", "out"}.isdisjoint(reader.__code__.co_names)
