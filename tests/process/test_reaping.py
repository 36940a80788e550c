"""Ended instances leave no process behind, not even an ended one: it counts as one of their user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.marks import nightly
from tests.process.helpers import KEY, SERVICE
from windlass.base import kernel
from windlass.process import kill
from windlass.process.engine import ProcessEngine


@pytest.mark.parametrize("is_reaped", [True, *nightly(False)])
async def test_the_first_process_of_a_cell_is_reaped_when_its_instance_is_ended(
    tmp_path, monkeypatch, is_reaped
):
    async def are_slow(handles, patience, **given):
        return True

    monkeypatch.setattr(kill, "wait_for_ends", are_slow)  # as if much memory had to be freed
    if not is_reaped:
        monkeypatch.setattr(kill, "reap_first_processes", lambda stats: None)
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        await station.apply(wanted(rig.made('print("runs", flush=True); import time; time.sleep(1000)')))
        await station.hears("runs")
        engine = station.engine
        assert isinstance(engine, ProcessEngine)
        record = engine._records.read(KEY)
        assert record is not None
        assert record.process is not None
        first = record.first
        if first is None:
            pytest.skip("needs a kernel that gives process namespaces")
        await engine._instances.end_for(KEY, record.process, "uses too much")
        await station.hears("runs", 2)

        async def is_gone() -> bool:
            present = kernel.identify(first.pid)
            return present is None or present.start != first.start

        if is_reaped:
            await until(is_gone)
        else:
            assert "Z" in Path(f"/proc/{first.pid}/stat").read_text().split()[2]
        await engine.end(SERVICE)
