"""Windlass is killed at every failpoint and at any moment: nothing it acknowledged is lost, or done twice."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.engines.dockers import docker_host
from tests.faults.house import House, house_for
from tests.faults.programs import Code
from tests.faults.scenes import SCENES, Scene, Street
from tests.forks import Brood
from tests.marks import either, nightly
from windlass import control
from windlass.control.deploying.steps import STEPS
from windlass.docker.client import Docker

pytestmark = pytest.mark.slow

FULL = bool(os.environ.get("WINDLASS_TEST_FAULTS"))
"""Every point as often as is promised, on each database and each engine, which takes the better part of an
hour; else every point once at most, on one of them."""
HITS = 5 if FULL else 1
COUNTS = [1, 1, 2] if FULL else [1]
"""The server dies at this visit of the point, if it comes there so often."""
LAST = 0.2
"""Seconds. A server that releases its work may still reach a point."""
PATIENCE = 5
"""A deployment may be superseded before it begins, and a start may already have done the work of a scene:
then another scene that leads to the point is played."""
AT_RANDOM = 25 if FULL else either(1, 2)


ELSEWHERE = {
    *("domain_work.py", "issuing.py", "challenges.py", "challenge_records.py", "acme_accounts.py"),
    *("preview_work.py", "pull_request_work.py", "image_push_work.py"),
    "comment_work.py",
}
"""Files whose failpoints need a name server and an authority, a git server or a registry:
tests/domains/test_killed_orders.py, tests/pushes and tests/registries/test_webhooks.py."""


def failpoints() -> list[str]:
    """All that the code names."""
    folder = Path(next(iter(control.__path__)))
    files = [path for path in sorted(folder.rglob("*.py")) if path.name not in ELSEWHERE]
    text = "".join(path.read_text() for path in files)
    plain = re.findall(r'ctx\.point\("([^"]+)"\)', text)
    made = re.findall(r'ctx\.point\(f"\{task\.step\} planned" if task else "([^"]+)"\)', text)
    assert len(plain) + len(made) == text.count(".point("), "a point is named in a way that is not understood"
    assert plain, "no point is found"
    return [*dict.fromkeys(plain + made), *(f"{step} planned" for step in STEPS)]


class Story:
    """Scenes of one house, played until a server dies; afterwards everything must recover."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.street = Street(house)
        self.dice = random.Random(seed)
        self.leads: dict[str, list[str]] = {}
        """By point: the scenes that come to it."""

    @property
    def hits(self) -> Counter[str]:
        return Counter(self.house.deaths)

    async def rehearse(self) -> None:
        await self.house.start()
        await self.street.settle()
        for name, scene in SCENES.items():
            seen = len(self.house.points)
            await self._played(scene)
            await self.house.converges()
            await asyncio.sleep(LAST)
            for point in dict.fromkeys(self.house.points[seen:]):
                self.leads.setdefault(point, []).append(name)

    async def die_at(self, point: str) -> None:
        """And at the same point again while it recovers, if it comes there."""
        leads = self.dice.sample(self.leads[point], len(self.leads[point]))
        for count, lead in zip((self.dice.choice(COUNTS), *[1] * PATIENCE), cycle(leads), strict=False):
            await self._ready()
            await self._lives(SCENES[lead], point, count)
            if not self.house.pid:
                break
        assert not self.house.pid, f"nobody came to {point!r} any more"
        async with self.house.mortal():
            await self.house.start()
            await self.house.recovers()
        await self._recovered()

    async def die_sometime(self) -> None:
        await self._ready()
        scenes = [scene for scene in SCENES.values() if scene.before is None]
        dying = asyncio.create_task(self._killed_within(self.dice.random() * 0.6))
        async with self.house.mortal():
            for scene in self.dice.sample(scenes, 3):
                await scene.play(self.street)
        await dying
        await self.house.kill()
        await self._recovered()

    async def end(self) -> None:
        await self.house.check_promises()
        await self.house.delete_everything()
        await self.house.tidied()
        await self.house.leaves_nothing()

    def told(self, points: list[str]) -> str:
        house = self.house
        least = min(self.hits[point] for point in points)
        slowest = max(house.convergences)
        return (
            f"{len(house.acknowledged)} deployments; {len(house.deaths)} deaths, at least {least} at each of "
            f"{len(points)} points; everything in its place at most {slowest:.1f} s after a start"
        )

    async def _ready(self) -> None:
        self.house.doom("")
        async with self.house.mortal():  # It may have been about to.
            await self._again()
            await self.street.runs()
        if not self.house.pid:
            await self._again()
            await self.street.runs()

    async def _again(self) -> None:
        if not self.house.pid:
            await self.house.start()

    async def _played(self, scene: Scene) -> None:
        if scene.before is not None:
            await self.house.kill()
            await scene.before(self.street)
            await self.house.start()
        await scene.play(self.street)

    async def _lives(self, scene: Scene, point: str, count: int) -> None:
        """Until it dies there, or there is nothing left to do."""
        if scene.before is not None:
            await self.house.kill()
            await scene.before(self.street)
        self.house.doom(point, count)
        async with self.house.mortal():
            if not self.house.pid:
                await self.house.start()
            await scene.play(self.street)
            await self.house.converges()
            await self.house.dies(LAST)

    async def _killed_within(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.house.strike()

    async def _recovered(self) -> None:
        self.house.doom("")
        await self._again()
        await self.street.calm()
        await self.house.recovers()
        await self.house.check_promises()


SHARES = {
    ("sqlite", "process"): tuple({*range(16)} - {1, 3}),
    ("postgres", "process"): (1,),
    ("sqlite", "docker"): (3,),
    ("postgres", "docker"): (),
}
"""The share of each combination: points by the remainder of their position in the list divided by 16, at
which the server dies once. CI takes the first of these remainders."""


@pytest.fixture(params=["process", *nightly("docker")])
def engine(request) -> str:
    """The socket of a Docker engine; empty if there is none."""
    return Docker(docker_host()).host if request.param == "docker" else ""


@pytest.fixture
async def story(tmp_path: Path, brood: Brood, database_url: str, engine: str) -> AsyncIterator[Story]:
    code = Code(tmp_path / "code", contained=bool(engine))
    async with house_for(tmp_path, brood, code, database_url, docker=engine) as house:
        yield Story(house, seed=bool(database_url))


@pytest.mark.timeout(3600 if FULL else 600)
async def test_a_server_killed_at_any_failpoint_loses_and_duplicates_no_work(
    story: Story, database_url: str, engine: str
):
    share = SHARES["postgres" if database_url else "sqlite", "docker" if engine else "process"]
    if not FULL and not share:
        return  # the engine knows nothing of the database: together they are tried at length only
    await story.rehearse()
    points = failpoints()
    assert [point for point in points if point not in story.leads] == []
    for _ in range(HITS):
        for place, point in enumerate(points):
            if FULL or place % 16 in share[:: either(14, 1)]:
                await story.die_at(point)
    for _ in range(AT_RANDOM):
        await story.die_sometime()
    await story.end()
    assert not FULL or (
        min(story.hits[point] for point in points) >= HITS and len(story.house.acknowledged) >= 200
    )
    print(story.told(points))
