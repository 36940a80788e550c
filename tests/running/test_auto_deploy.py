"""Applications with `auto_deploy`: a new commit of the branch is deployed, once, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from tests.running.deployments import deploy, deployed, deployments
from tests.tables import rows
from tests.world import REPOSITORY, World
from windlass.base import dockerignore
from windlass.control.background import auto_deploy
from windlass.control.background.auto_deploy import deploy_new_commit, is_any_watched
from windlass.control.background.worker import BRANCH_SLOTS, LEASE_TIME
from windlass.control.deploying.ledger import LostClaim
from windlass.sources.git import GitSource
from windlass.store import Queue
from windlass.store.tables import work

EVERY = 60


async def look(world: World) -> None:
    """Lets the time pass after which branches are looked at again."""
    await world.settle()
    world.clock.turn(EVERY + 1)
    await world.settle()


async def commits(world: World, app: str) -> list[str]:
    """The commits that were deployed, newest first."""
    return [one["git_commit_id"] for one in await deployments(world, app)]


async def said(world: World, app: str) -> str:
    lines = (await world.get(f"/application/{app}/log"))["results"]
    return "\n".join(line["message"] for line in lines)


async def test_auto_deploy_deploys_a_new_commit_once(world: World):
    app = await deployed(world, auto_deploy=True)
    first = world.git.newest
    await look(world)
    assert await commits(world, app) == [first]
    second = world.git.push("second")
    for _ in range(3):
        await look(world)
    assert await commits(world, app) == [second, first]
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert f"Commit {second[:12]} is new on main: it is deployed" in await said(world, app)
    newest, _ = await deployments(world, app)
    assert (newest["origin"], newest["triggered_by"]) == ("GIT", "windlass")


async def test_without_auto_deploy_a_new_commit_is_not_deployed(world: World):
    """The control of the test above."""
    app = await deployed(world)
    world.git.push("second")
    await look(world)
    assert len(await commits(world, app)) == 1


async def test_a_commit_pushed_before_the_first_check_of_the_branch_is_deployed(world: World):
    """The branch was never looked at before."""
    app = await deployed(world, auto_deploy=True)
    second = world.git.push("second")
    await look(world)
    assert (await commits(world, app))[0] == second


async def test_auto_deploy_does_not_start_an_undeployed_or_stopped_application(world: World):
    new = await world.application(auto_deploy=True)
    stopped = await deployed(world, auto_deploy=True)
    await world.post(f"/application/{stopped}/stop")
    await world.settle()
    world.git.push("second")
    await look(world)
    assert await commits(world, new) == []
    assert await world.state(f"/application/{stopped}") == "STOPPED"


async def test_a_rollback_stays_until_the_next_commit(world: World):
    app = await deployed(world, auto_deploy=True)
    first = world.git.newest
    second = world.git.push("second")
    await look(world)
    before = (await deployments(world, app))[-1]["id"]
    assert (await world.post(f"/application/{app}/rollback", {"deployment_id": before})).status == 202
    await world.settle()
    await look(world)
    assert await commits(world, app) == [first, second, first]
    third = world.git.push("third")
    await look(world)
    assert (await commits(world, app))[0] == third


async def test_a_commit_that_was_deployed_by_hand_is_not_deployed_again(world: World):
    app = await deployed(world, auto_deploy=True)
    world.git.push("second")
    await deploy(world, app)
    await world.settle()
    await look(world)
    assert len(await commits(world, app)) == 2


async def test_a_force_pushed_branch_deploys_the_earlier_commit_again(world: World):
    app = await deployed(world, auto_deploy=True)
    first, second = world.git.newest, world.git.push("second")
    await look(world)
    for newest in (first, second):
        world.git.newest = newest
        for _ in range(2):
            await look(world)
        assert (await commits(world, app))[0] == newest
    assert await commits(world, app) == [second, first, second, first]


async def test_a_rollback_from_a_commit_deployed_by_hand_stays(world: World):
    app = await deployed(world, auto_deploy=True)
    first, second = world.git.newest, world.git.push("second")
    await deploy(world, app)
    await world.settle()
    before = (await deployments(world, app))[-1]["id"]
    await world.post(f"/application/{app}/rollback", {"deployment_id": before})
    await look(world)
    assert await commits(world, app) == [first, second, first]


async def test_after_a_failed_deployment_the_next_commit_is_deployed(world: World):
    app = await deployed(world, auto_deploy=True)
    world.git.push("broken")
    world.builder.broken = "the compiler says no"
    await look(world)
    assert await world.state(f"/application/{app}") != "READY"
    await look(world)
    assert len(await commits(world, app)) == 2
    world.builder.broken = ""
    mended = world.git.push("mended")
    await look(world)
    assert (await commits(world, app))[0] == mended
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_only_commits_that_change_watched_paths_are_deployed(world: World):
    app = await deployed(world, auto_deploy=True, watch_paths=["web", "!web/test"])
    first = world.git.newest
    for paths in (["README.md"], ["web/test/a.py", "docs/b.md"]):
        world.git.push(f"changes {paths}", *paths)
        await look(world)
    assert await commits(world, app) == [first]
    assert "is not deployed: it changes no watch_paths" in await said(world, app)
    watched = world.git.push("changes the page", "web/page.html", "README.md")
    await look(world)
    assert await commits(world, app) == [watched, first]


async def test_commits_that_cannot_be_compared_are_deployed(world: World):
    """The branch was rewritten, and the former commit is gone."""
    app = await deployed(world, auto_deploy=True, watch_paths=["web"])
    world.git.newest = "f" * 40
    await look(world)
    assert (await commits(world, app))[0] == "f" * 40


async def test_an_unreadable_branch_is_logged_once_a_day_and_read_again_later(world: World):
    app = await deployed(world, auto_deploy=True)
    second = world.git.push("second")
    world.git.broken = "Choose another branch: there is no main."
    for _ in range(3):
        await look(world)
    message = "New commits are not deployed now: Choose another branch"
    assert (await said(world, app)).count(message) == 1
    for _ in range(auto_deploy.FAILURES_BETWEEN_LINES):
        world.clock.turn(11 * EVERY)
        await world.settle()
    assert (await said(world, app)).count(message) == 2
    world.git.broken = ""
    world.clock.turn(11 * EVERY)
    await world.settle()
    assert (await commits(world, app))[0] == second


async def test_reading_a_branch_of_a_silent_git_server_times_out(world: World, monkeypatch):
    app = await deployed(world, auto_deploy=True)
    monkeypatch.setattr(auto_deploy, "HEAD_TIMEOUT", 0.01)
    monkeypatch.setattr(world.git, "head", lambda source: asyncio.Event().wait())
    await look(world)
    assert "did not answer within 0.01 seconds" in await said(world, app)


async def test_an_unreadable_branch_is_read_with_a_short_timeout_except_every_fifth_time(
    world: World, monkeypatch
):
    app = await deployed(world, auto_deploy=True)
    monkeypatch.setattr(auto_deploy, "HEAD_TIMEOUT", 0.03)
    monkeypatch.setattr(auto_deploy, "SHORT_TIMEOUT", 0.01)
    given: list[float | None] = []
    timeout = asyncio.timeout

    async def silent(source: GitSource) -> None:
        await asyncio.Event().wait()

    def noted(seconds: float | None) -> asyncio.Timeout:
        given.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(world.git, "head", silent)
    monkeypatch.setattr(asyncio, "timeout", noted)
    for _ in range(6):
        world.clock.turn(11 * EVERY)
        await world.settle()
    looks = [seconds for seconds in given if seconds in {0.01, 0.03}]
    assert looks == [0.03, 0.01, 0.01, 0.01, 0.01, 0.03], app


@pytest.mark.parametrize(("seconds", "is_deployed"), [(1, True), (15, False)])
async def test_after_a_slow_answer_the_branch_is_read_less_often(
    world: World, monkeypatch, seconds: int, is_deployed: bool
):
    app, head = await deployed(world, auto_deploy=True), world.git.head

    async def slow(source: GitSource) -> Any:
        world.clock.turn(seconds)
        return await head(source)

    monkeypatch.setattr(world.git, "head", slow)
    await look(world)
    second = world.git.push("second")
    await look(world)
    assert (second in await commits(world, app)) is is_deployed
    world.clock.turn(10 * EVERY)
    await world.settle()
    assert second in await commits(world, app)


SILENT = {"url": "https://silent.example/app.git", "branch": "main"}


@asynccontextmanager
async def silent_git_server(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """More services of one environment look at a git server that never answers than there are slots. Others
    have new commits since."""
    environment, begun, head = await world.environment(), [], world.git.head

    async def answer(source: GitSource) -> Any:
        if source.url == SILENT["url"]:
            begun.append(source)
            await asyncio.Event().wait()
        return await head(source)

    monkeypatch.setattr(world.git, "head", answer)
    for _ in range(BRANCH_SLOTS + 3):
        await world.application(environment, auto_deploy=True, git_repository=SILENT)
    world.clock.turn(1)
    yield
    world.clock.turn(EVERY + 1)
    working = asyncio.create_task(world.installation.worker.run())
    async with asyncio.timeout(20):
        while len(begun) < BRANCH_SLOTS:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    for _ in range(300):
        await asyncio.sleep(0.001)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_a_silent_git_server_does_not_delay_auto_deploy_of_other_environments(
    world: World, monkeypatch
):
    org, token = await world.organization()
    project = await world.made(f"/organization/{org}/project", {"name": "shop"}, token=token)
    environment = await world.made(f"/project/{project}/environment", {"name": "production"}, token=token)
    body = {"name": "web", "git_repository": {"url": REPOSITORY, "branch": "main"}, "auto_deploy": True}
    async with silent_git_server(world, monkeypatch):
        neighbour = await deployed(world, auto_deploy=True)
        other = await world.made(f"/environment/{environment}/application", body, token=token)
        assert (await world.post(f"/application/{other}/deploy", token=token)).status == 202
        await world.settle()
        second = world.git.push("second")
    assert (await commits(world, neighbour))[0] == second
    deployed_there = (await world.get(f"/application/{other}/deployment", token=token))["results"]
    assert deployed_there[0]["git_commit_id"] == second


async def test_without_turns_between_environments_a_silent_git_server_delays_others(
    world: World, monkeypatch
):
    monkeypatch.setattr(work, "turn_key", lambda org, environment: org)
    async with silent_git_server(world, monkeypatch):
        neighbour = await deployed(world, auto_deploy=True)
        second = world.git.push("second")
    assert second not in await commits(world, neighbour)


async def test_after_a_change_of_branch_only_later_commits_are_deployed(world: World):
    app = await deployed(world, auto_deploy=True)
    world.git.push("the head of the other branch")
    answer = await world.patch(f"/application/{app}", {"git_repository": {"branch": "next"}})
    assert answer.status == 200, answer
    await look(world)
    assert len(await commits(world, app)) == 1
    newer = world.git.push("newer")
    await look(world)
    assert (await commits(world, app))[0] == newer


async def test_turning_auto_deploy_on_deploys_the_newest_commit(world: World):
    app = await deployed(world, auto_deploy=True)
    await world.patch(f"/application/{app}", {"auto_deploy": False})
    second = world.git.push("second")
    await look(world)
    assert len(await commits(world, app)) == 1
    await world.patch(f"/application/{app}", {"auto_deploy": True})
    await look(world)
    assert (await commits(world, app))[0] == second


async def test_the_branch_of_a_deleted_application_is_no_longer_read(world: World):
    app = await deployed(world, auto_deploy=True)
    await world.delete(f"/application/{app}")
    await world.settle()
    await look(world)
    rows = await world.installation.ctx.store.reads.session.all(
        "SELECT id FROM work WHERE kind = 'auto deploy'"
    )
    assert list(rows) == []


async def test_a_server_that_lost_its_lease_while_reading_a_branch_deploys_nothing(world: World, monkeypatch):
    """It was paused while it read the branch, and another server took over."""
    app = await deployed(world, auto_deploy=True, watch_paths=["web"])
    second = world.git.push("second", "web/page.html")
    world.clock.turn(EVERY + 1)
    (claim,) = await world.installation.ctx.store.write(
        lambda tx: tx.work.claim(LEASE_TIME, 4, Queue.BRANCHES)
    )
    read = world.git.changed_paths

    async def paused(source: GitSource, before: str, after: str) -> list[str]:
        monkeypatch.undo()
        world.clock.turn(LEASE_TIME // 1000 + 1)
        await world.settle()
        return cast(list[str], await read(source, before, after))

    monkeypatch.setattr(world.git, "changed_paths", paused)
    with pytest.raises(LostClaim):
        await deploy_new_commit(world.installation.ctx, claim)
    await world.settle()
    assert (await commits(world, app)).count(second) == 1


class TestRights:
    """New commits are deployed with the rights of the person who chose the branch."""

    @pytest.fixture
    async def writer(self, world: World) -> Any:
        return await world.new_token("Write")

    async def test_turning_auto_deploy_on_requires_the_deploy_scope(self, world: World, writer):
        body = {"name": "mine", "git_repository": {"url": REPOSITORY, "branch": "main"}}
        path = f"/environment/{await world.environment()}/application"
        refused = await world.post(path, {**body, "auto_deploy": True}, token=writer)
        assert refused.status == 403
        assert refused["detail"].startswith("auto_deploy: use a token with the scope Deploy")
        assert (await world.post(path, body, token=writer)).status == 201

    async def test_changing_the_repository_while_auto_deploy_is_on_requires_the_deploy_scope(
        self, world: World, writer
    ):
        app = await deployed(world, auto_deploy=True)
        path = f"/application/{app}"
        elsewhere = {"git_repository": {"url": "https://git.example/mallory/shop.git", "branch": "main"}}
        refused = await world.patch(path, elsewhere, token=writer)
        assert (refused.status, refused["detail"][:14]) == (403, "git_repository")
        assert (await world.patch(path, {"description": "same code"}, token=writer)).status == 200
        assert (await world.patch(path, {"auto_deploy": False}, token=writer)).status == 200
        assert (await world.patch(path, elsewhere, token=writer)).status == 200


async def test_an_application_from_uploads_cannot_have_auto_deploy(world: World):
    path = f"/environment/{await world.environment()}/application"
    refused = await world.post(path, {"name": "folder", "source": "UPLOAD", "auto_deploy": True})
    assert (refused.status, refused["detail"].startswith("auto_deploy: leave it out")) == (400, True)


@rows(
    ("paths", "patterns", "watched"),
    [
        (["web/a.py"], ["web"], True),
        (["web/a.py"], ["web/"], True),
        (["website/a.py"], ["web"], False),
        (["docs/a.md"], ["docs/*.md"], True),
        (["docs/more/a.md"], ["docs/*.md"], False),
        (["docs/more/a.md"], ["docs/**/*.md"], True),
        (["docs/a.md"], ["!docs"], False),
        (["docs/a.md", "a.py"], ["!docs"], True),
        (["web/test/a.py"], ["web", "!web/test"], False),
        ([], ["web"], False),
    ],
)
def test_watch_paths_patterns_match_like_those_of_dockerignore(paths, patterns, watched):
    assert is_any_watched(paths, patterns) is watched


MOST_PATHS = 900_000
"""As many as a git server may list."""
STARS = "/".join(["**", "*"] * 250)


def many_paths(count: int) -> list[str]:
    return [f"{number % 10}/{number:06x}" for number in range(count)]


@pytest.mark.parametrize(
    ("paths", "patterns"),
    [
        (lambda: many_paths(MOST_PATHS), [f"**/*{number}z*" for number in range(100)]),
        (lambda: ["/".join("a" * 200)] * 2_000, [f"{STARS}/{number}" for number in range(100)]),
    ],
    ids=["paths", "parts"],
)
def test_a_change_too_large_to_compare_is_deployed(paths, patterns):
    """Compared all the same, it would keep a processor busy for half an hour."""
    assert is_any_watched(paths(), patterns)


def test_a_large_commit_is_compared():
    """Negative control: none of so many paths is watched."""
    assert not is_any_watched(many_paths(20_000), ["web", "docs/**/*.md", "!docs/old"])


def test_many_watch_path_patterns_are_compiled_once():
    """Each is an expression, and more of them than are kept would be read again for each path."""
    patterns = dockerignore.read("\n".join(f"x{number}*/**/y" for number in range(dockerignore.MAX_PATTERNS)))
    assert not any(patterns(PurePosixPath(f"{number}/y")) for number in range(50))
    assert patterns(PurePosixPath("x7a/b/y"))


@pytest.mark.parametrize("path", ["/web", "../web", "web\n", "#web", "!!web", "", "!"])
async def test_a_watch_path_that_is_not_a_repository_path_is_refused(world: World, path):
    body = {"name": "web", "git_repository": {"url": REPOSITORY}, "watch_paths": [path]}
    refused = await world.post(f"/environment/{await world.environment()}/application", body)
    assert (refused.status, "watch_paths[0]" in refused["detail"]) == (400, True)
