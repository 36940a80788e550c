"""The engine's builds are measured while their steps run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docker.builds.benches import Bench
from tests.engines.dockers import BOX, docker_host
from tests.needs import needs_root
from windlass.builders.usage import BuildUsage
from windlass.docker.builds.step_usage import groups_in_use

BUSY = f"FROM {BOX}\nRUN i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 1\n"
"""A step with more than a moment of processor time."""


@pytest.fixture(scope="module")
def host():
    return docker_host()


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("kit", [True, False], ids=["buildkit", "classic"])
async def test_the_usage_of_a_build_is_that_of_its_steps(host, tmp_path, kit):
    bench, usage = Bench(host, tmp_path, buildkit=kit), BuildUsage()
    try:
        await bench.build(BUSY, usage=usage, uses_cache=False)
    finally:
        await bench.close()
    assert usage.cpu_ms is not None
    assert 50 < usage.cpu_ms < 60_000
    assert 0 < (usage.peak_memory or 0) < 1 << 30


@pytest.mark.slow
async def test_the_usage_of_a_build_without_steps_is_unknown(host, tmp_path):
    bench, usage = Bench(host, tmp_path), BuildUsage()
    try:
        await bench.build(f"FROM {BOX}\nENV A=1\n", usage=usage)
    finally:
        await bench.close()
    assert not usage.is_known


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_control_groups_of_steps_are_read_in_version_2(tmp_path):
    proc, groups, step = tmp_path / "proc", tmp_path / "cgroup", "system.slice/docker/buildkit/abc1"
    write(proc / "7/cgroup", f"0::/{step}\n")
    write(proc / "8/cgroup", f"0::/{step}\n")
    write(proc / "9/cgroup", "0::/user.slice\n")
    write(groups / step / "cpu.stat", "usage_usec 1500000\nuser_usec 1\n")
    write(groups / step / "memory.current", "5000\n")
    write(groups / step / "memory.stat", "anon 1\ninactive_file 2000\n")
    [use] = groups_in_use(proc, groups)
    assert (use.step, use.cpu_ms, use.memory) == ("abc1", 1500, 3000)


def test_control_groups_of_steps_are_read_in_version_1(tmp_path):
    proc, groups, step = tmp_path / "proc", tmp_path / "cgroup", "docker/buildkit/abc1"
    lines = [f"4:memory:/{step}", f"3:cpu,cpuacct:/{step}", f"1:name=systemd:/{step}", "0::/"]
    write(proc / "7/cgroup", "\n".join(lines) + "\n")
    write(groups / "cpu,cpuacct" / step / "cpuacct.usage", "2000000000\n")
    write(groups / "memory" / step / "memory.usage_in_bytes", "5000\n")
    write(groups / "memory" / step / "memory.stat", "cache 1\ntotal_inactive_file 1000\n")
    [use] = groups_in_use(proc, groups)
    assert (use.step, use.cpu_ms, use.memory) == ("abc1", 2000, 4000)


def test_a_step_whose_counters_cannot_be_read_is_left_out(tmp_path):
    write(tmp_path / "proc/7/cgroup", "0::/docker/buildkit/abc1\n")
    assert groups_in_use(tmp_path / "proc", tmp_path / "cgroup") == []
