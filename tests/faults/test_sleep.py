"""A server that is killed while a service falls asleep or wakes up leaves one that still wakes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.house import House, house_for
from tests.faults.programs import Code
from tests.faults.scenes import HTTP
from tests.forks import Brood
from windlass.control.deploying import steps

pytestmark = pytest.mark.slow

POINTS = [
    *re.findall(r'ctx\.point\("([^"]+)"\)', Path(steps.__file__).with_name("wake.py").read_text()),
    "wake planned",
]


@pytest.fixture
async def house(tmp_path: Path, brood: Brood) -> AsyncIterator[House]:
    async with house_for(tmp_path, brood, Code(tmp_path / "code", contained=False)) as made:
        yield made


@pytest.mark.timeout(300)
async def test_a_server_killed_at_any_point_of_sleep_leaves_a_service_that_wakes(house: House):
    await house.start()
    await house.make_environment()
    app = await house.application("serves", ports=[HTTP])
    await house.do(app, "deploy")
    await house.converges()
    for point in POINTS:
        await house.kill()
        await house.books.put_to_sleep(app)
        seen = len(house.points)
        house.doom(point)
        async with house.mortal():
            await house.start()
            await house.comes_to("asleep", seen)
            await house.knock(app)
            await house.comes_to("woken", seen)
            await house.dies()
        assert house.deaths[-1] == point
        house.doom("")
        await house.start()
        await house.knock(app)
        await house.converges()
        await runs(house, app)
    await house.check_promises()


async def runs(house: House, app: str) -> None:
    async def asleep() -> str:
        status = await house.call("GET", f"/application/{app}/status")
        return "" if (status["state"], status["sleeping"]) == ("RUNNING", False) else f"it is {status}"

    await house.until(asleep)
    await house.converges()
    assert len(await house.living()) == 1
