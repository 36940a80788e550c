"""Two servers on one database, each with a data directory of its own: services run on the first one only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.house import House, house_for
from tests.faults.inside import until
from tests.faults.programs import Code
from tests.forks import Brood

pytestmark = pytest.mark.slow

KEY = "ab" * 32


@pytest.fixture
async def machines(
    tmp_path: Path, brood: Brood, code: Code, postgres_url: str
) -> AsyncIterator[tuple[House, House]]:
    """The owner of the place, and another server."""
    async with (
        house_for(tmp_path / "a", brood, code, postgres_url, key=KEY) as owner,
        house_for(tmp_path / "b", brood, code, postgres_url, key=KEY) as other,
    ):
        await owner.start()
        await other.start()
        await other.make_environment()
        yield owner, other


async def test_services_run_once_and_their_states_are_true_whichever_server_is_asked(machines):
    owner, other = machines
    app = await other.application("sleeps")

    async def is_at(house: House, state: str) -> bool:
        status = await house.call("GET", f"/application/{app}/status")
        return bool(status["state"] == state)

    async def runs_once() -> bool:
        return (len(await owner.living()), await other.living()) == (1, [])

    await other.reaches(app, await other.do(app, "deploy"))
    assert await runs_once()
    await owner.kill()
    await until(lambda: is_at(other, "UNAVAILABLE"))
    assert await runs_once()
    await owner.start()
    await until(lambda: is_at(other, "RUNNING"))
    await owner.converges()
    assert await runs_once()
    await other.reaches(app, await other.do(app, "stop"))
    assert await is_at(owner, "STOPPED")
    assert await owner.living() == []
