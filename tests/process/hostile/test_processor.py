"""Services and build steps leave the processor to the server and the gateway where it is short."""

from __future__ import annotations

import os

from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from tests.process.helpers import KEY
from windlass.base.isolation.isolation import Isolation
from windlass.base.isolation.launcher_client import Launcher
from windlass.base.isolation.step import StepRequest
from windlass.process.engine import ProcessEngine


async def test_programs_have_a_lower_priority_than_their_network_processes(tmp_path):
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        await station.apply(wanted(rig.made(programs.SLEEPS)))
        await station.hears("here")
        engine = station.engine
        assert isinstance(engine, ProcessEngine)
        record = engine._records.read(KEY)
        assert record is not None
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        inside = [process.pid for process in (record.process, record.first) if process]
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in inside} == {10}
        trunk = engine._starter.networks._read("trunk")
        assert trunk is None or os.getpriority(os.PRIO_PROCESS, trunk.pid) == ours
        await engine.sweep(await engine.services())


def test_a_build_step_has_a_lower_priority(tmp_path):
    cell = Isolation("auto", tmp_path).cell("x", readable=[], writable=[tmp_path], temporary=tmp_path)
    assert cell is not None
    read, output = os.pipe()
    launcher = Launcher(0)
    try:
        command = ["/bin/sh", "-c", "nice"]
        step = StepRequest(command=command, folder="/", environment={}, cell=cell, groups=[])
        os.waitpid(launcher.start_step(step, output, output), 0)
        assert os.read(read, 100).split()[-1:] == [b"10"]
    finally:
        launcher.close()
        os.close(read)
        os.close(output)
