"""An engine of processes, and a process that belongs to no service."""

from __future__ import annotations

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station


@pytest.fixture
def rig(tmp_path):
    return ProcessRig(tmp_path)


@pytest.fixture
async def station(rig):
    async with Station(rig) as made:
        yield made
        await made.engine.sweep(await made.engine.services())
