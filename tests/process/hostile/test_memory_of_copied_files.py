"""Pages of files that Windlass copies for an instance count as memory of its service, also if the program
keeps them in pipes; and instances have a higher OOM score than the launcher."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from tests.marks import nightly
from tests.needs import needs_root
from tests.process.helpers import KEY
from windlass.base import oom_score
from windlass.base.cgroups import of_machine
from windlass.engines.engine import EngineError
from windlass.engines.workload import Volume
from windlass.process import files, tree_copy
from windlass.process.engine import ProcessEngine
from windlass.process.spawn import Spawner

SIZE = 24 << 20
KEEPS_ONLY_IN_PIPES = """
import fcntl, os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
file, left, kept = os.open("data/large", os.O_RDWR), os.path.getsize("data/large"), []
while left:
    hear, tell = os.pipe()
    fcntl.fcntl(tell, fcntl.F_SETPIPE_SZ, 1 << 20)
    kept.append((hear, tell))
    moved = os.splice(file, tell, 1 << 20)
    left -= moved
    if not moved:
        break
os.ftruncate(file, 0)
print("keeps", flush=True)
time.sleep(1000)
"""


def copy_by_the_server(
    self: Spawner, groups: Any, least_free: int, source: Path, target: Path, owner: int | None
) -> None:
    tree_copy.copy_content(source, target, owner)


def memory_of(groups: Any) -> int:
    for group in groups:
        for name in ("memory.current", "memory.usage_in_bytes"):
            if (Path(group) / name).exists():
                return int((Path(group) / name).read_text())
    raise AssertionError("its memory is not counted")


@needs_root
@pytest.mark.parametrize("volume", [False, True], ids=["working copy", "volume"])
@pytest.mark.parametrize("is_counted", [True, *nightly(False)])
async def test_cached_pages_of_a_copied_file_count_as_memory_of_the_service(
    tmp_path, monkeypatch, is_counted, volume
):
    if "memory" not in of_machine(tmp_path).offered():
        pytest.xfail("no control group can be made on this machine")
    if not is_counted:
        monkeypatch.setattr(Spawner, "copy_content", copy_by_the_server)
        monkeypatch.setattr(files, "copy_content", tree_copy.copy_content)
    rig = ProcessRig(tmp_path, networks=False)
    artifact = rig.made(KEEPS_ONLY_IN_PIPES)
    (rig.artifact_folder(artifact) / "app" / "data").mkdir()
    (rig.artifact_folder(artifact) / "app" / "data" / "large").write_bytes(os.urandom(SIZE))
    volumes = (Volume(name="data", mount="/app/data"),) if volume else ()
    async with Station(rig) as station:
        made = await station.apply(wanted(artifact, memory=128, volumes=volumes))
        await station.hears("keeps")
        assert isinstance(station.engine, ProcessEngine)
        record = station.engine._records.read(KEY)
        assert record is not None
        assert (memory_of(record.groups) > SIZE) is is_counted
        await station.engine.remove(made.service, grace=1)


async def test_the_error_of_a_failed_copy_contains_no_path_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(tree_copy, "__name__", "windlass.no_such_module")
    spawner = Spawner()
    try:
        with pytest.raises(OSError, match="Input/output error") as failure:
            spawner.copy_content((), 0, tmp_path / "here", tmp_path / "there", None)
        assert str(tmp_path) not in str(failure.value)
    finally:
        spawner.close()


async def test_a_copy_killed_for_memory_is_reported_with_advice(tmp_path, monkeypatch):
    """As the kernel does if a file system in memory holds the copy."""
    monkeypatch.setattr(
        os, "waitpid", lambda pid, options: (os.waitid(os.P_PID, pid, os.WEXITED), (pid, 9))[1]
    )
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    spawner = Spawner()
    try:
        with pytest.raises(EngineError, match="Give the service more memory"):
            spawner.copy_content((), 0, tmp_path / "here", tmp_path / "there", None)
    finally:
        monkeypatch.undo()
        spawner.close()


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def test_an_instance_has_a_higher_oom_score_than_the_launcher(tmp_path):
    assert await scores(tmp_path) == (score(os.getpid()), oom_score.INSTANCES_SCORE)


async def test_an_instance_whose_score_is_not_raised_has_that_of_the_launcher(tmp_path, monkeypatch):
    """The control."""
    monkeypatch.setattr("windlass.process.spawn.INSTANCES_SCORE", score(os.getpid()))
    launched, program = await scores(tmp_path)
    assert launched == program


async def scores(folder: Path) -> tuple[int, int]:
    """Returns the OOM scores of the launcher and of an instance."""
    rig = ProcessRig(folder, networks=False)
    async with Station(rig) as station:
        made = await station.apply(wanted(rig.made(programs.SLEEPS)))
        await station.hears("here")
        assert isinstance(station.engine, ProcessEngine)
        record = station.engine._records.read(KEY)
        process = station.engine._starter.spawner._launcher._process
        assert record is not None
        assert record.process is not None
        assert process is not None
        found = score(process.pid), score(record.process.pid)
        await station.engine.remove(made.service, grace=1)
    return found
