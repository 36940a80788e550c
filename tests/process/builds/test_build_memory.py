"""All steps of the builds of an environment have limits together, those of an organization larger ones, and
they end before services do."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.marks import nightly
from windlass.base import cgroups
from windlass.base.isolation.isolation import Isolation, Mode
from windlass.base.step_limits import StepLimits
from windlass.builders.builder import BuildError
from windlass.process.builds.cells import BuildStep, Cells

CHILDREN = """
import os, time
children = []
for _ in range(8):
    pid = os.fork()
    if not pid:
        taken = b"x" * (30 << 20)
        time.sleep(4)
        os._exit(0)
    children.append(pid)
    time.sleep(0.2)
codes = [os.waitpid(pid, 0)[1] for pid in children if time.sleep(0.1) is None]
raise SystemExit(any(codes))
"""
BRIEF = CHILDREN.replace("sleep(4)", "sleep(1)")
MODEST = BRIEF.replace("30 << 20", "1 << 20")


FORKS = """
import os, time
forks = []
try:
    while True:
        pid = os.fork()
        if not pid:
            time.sleep(60)
            os._exit(0)
        forks.append(pid)
except BlockingIOError:
    open("full", "w").close()
time.sleep(60)
"""
HOLDS = """
import time
taken = [b"x" * (10 << 20) for _ in range({})]
open("full", "w").close()
time.sleep({})
"""
"""Holds so many pieces of 10 MiB, in one process, for so many seconds."""


def cells(top: Path, mode: Mode = "auto", *, has_groups: bool, memory: int = 150) -> Cells:
    return cells_of("play", top, StepLimits(top, memory, has_groups=has_groups), mode)


def cells_of(environment: str, top: Path, step_limits: StepLimits, mode: Mode = "auto") -> Cells:
    home = top / environment
    home.mkdir()
    isolation, owner = Isolation(mode, top), f"service in {environment}"
    return Cells(isolation, owner, home, home, step_limits=step_limits, org="org", environment=environment)


def parents(groups: Iterable[str]) -> list[str]:
    return [str(Path(group).parent) for group in groups]


async def until_full(attacker: Cells, step: asyncio.Task[int]) -> None:
    while not (attacker.writable[0] / "full").exists():
        assert not step.done()
        await asyncio.sleep(0.05)


async def end(step: asyncio.Task[int]) -> None:
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)


async def run(cells: Cells, script: str) -> int:
    program = [sys.base_prefix + "/bin/python3", "-c", script]
    step = BuildStep(program, cells.writable[0], {"PATH": "/usr/bin:/bin"}, {})
    async with cells.running(step) as (process, _):
        return await process.wait()


@pytest.fixture(params=[True, False], ids=["with cgroup", "without cgroup"])
def has_groups(request: pytest.FixtureRequest, tmp_path: Path) -> bool:
    if request.param:
        groups = cgroups.StepGroups(tmp_path, 100, 100).make("try", "one")
        is_limited = cgroups.limits_memory(groups)
        cgroups.remove([*groups, *parents(groups)])
        if not is_limited:
            pytest.xfail("no control group can be made on this machine")
    return bool(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", *nightly("off")])
async def test_build_steps_that_exceed_the_memory_limit_are_killed_with_a_message(tmp_path, has_groups, mode):
    with pytest.raises(
        BuildError, match=r"^Make the build need less memory, .* more than 150 MiB, .* 225 MiB\.$"
    ):
        await run(cells(tmp_path, mode, has_groups=has_groups), CHILDREN)


@pytest.mark.nightly
async def test_with_a_higher_memory_limit_the_same_build_steps_succeed(tmp_path, has_groups):
    """The control of the test above."""
    assert await run(cells(tmp_path, has_groups=has_groups, memory=4096), BRIEF) == 0


@pytest.mark.nightly
async def test_steps_below_the_limit_run_to_their_end(tmp_path, has_groups):
    assert await run(cells(tmp_path, has_groups=has_groups), MODEST) == 0


@pytest.mark.slow
@pytest.mark.parametrize("has_groups", [True, *nightly(False)], indirect=True, ids=["kernel", "watch"])
@pytest.mark.parametrize("environment", ["prod", *nightly("play")])
async def test_memory_use_of_one_environment_does_not_end_steps_of_another(tmp_path, has_groups, environment):
    """Negative control: in the same environment, the attacker ends a step that has less than half of the
    limit. The kernel chooses the largest process, and the attacker's are smaller."""
    step_limits = StepLimits(tmp_path, 150, has_groups=has_groups)
    attacker = cells_of("play", tmp_path, step_limits)
    victim = attacker if environment == "play" else cells_of("prod", tmp_path, step_limits)
    step = asyncio.create_task(run(victim, HOLDS.format(6, 6)))
    await until_full(victim, step)
    attack = asyncio.create_task(run(attacker, CHILDREN))
    try:
        if environment == "prod":
            assert await step == 0
        else:
            with pytest.raises(BuildError, match="build_memory"):
                await step
    finally:
        await end(attack)
        await end(step)


@pytest.mark.nightly
async def test_builds_of_two_environments_over_the_organizations_memory_limit_end_one_with_a_message(
    tmp_path, has_groups
):
    step_limits = StepLimits(tmp_path, 150, has_groups=has_groups)
    first, second = (cells_of(name, tmp_path, step_limits) for name in ("play", "prod"))
    steps = [asyncio.create_task(run(each, HOLDS.format(12, 6))) for each in (first, second)]
    ends = await asyncio.gather(*steps, return_exceptions=True)
    assert sorted(map(str, ends))[0] == "0", "the other one goes on"
    assert isinstance(next(one for one in ends if one != 0), BuildError)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["prod", *nightly("play")])
async def test_builds_of_one_environment_leave_processes_for_builds_of_another(tmp_path, environment):
    """Negative control: in the same environment, no step starts."""
    step_limits = StepLimits(tmp_path, 4096, 60)
    async with step_limits.of("org", "play") as steps:
        if not any((Path(group) / "pids.max").exists() for group in steps.groups):
            pytest.xfail("no control group can be made on this machine")
        attacker = cells_of("play", tmp_path, step_limits)
        victim = attacker if environment == "play" else cells_of("prod", tmp_path, step_limits)
        attack = asyncio.create_task(run(attacker, FORKS))
        try:
            await until_full(attacker, attack)
            assert (await run(victim, MODEST) == 0) is (environment == "prod")
        finally:
            await end(attack)


async def test_a_control_group_is_removed_with_its_last_step(tmp_path):
    step_limits = StepLimits(tmp_path, 150)
    async with step_limits.of("org") as organization:
        groups = [Path(group) for group in (*organization.groups, *organization.groups_around)]
        assert all(group.is_dir() for group in groups)
    assert not any(group.exists() for group in groups)


async def test_a_control_group_of_an_environment_is_removed_while_another_one_builds(tmp_path):
    step_limits = StepLimits(tmp_path, 150)
    async with step_limits.of("org", "play") as steps:
        async with step_limits.of("org", "prod") as ending:
            groups = [Path(group) for group in ending.groups]
        assert not any(group.exists() for group in groups)
        assert all(Path(group).is_dir() for group in (*steps.groups, *steps.groups_around))


async def test_a_control_group_in_use_is_removed_when_its_builder_is_closed(tmp_path):
    step_limits = StepLimits(tmp_path, 150)
    async with step_limits.of("org") as organization:
        groups = [Path(group) for group in organization.groups]
        process = await asyncio.create_subprocess_exec("sleep", "60")
        cgroups.enter(organization.groups, process.pid)
    assert all(group.is_dir() for group in groups), "the kernel keeps it for the process"
    process.kill()
    await process.wait()
    step_limits.close()
    assert not any(group.exists() for group in groups)


async def test_an_earlier_builder_of_the_same_process_leaves_the_control_groups_of_a_later_one(tmp_path):
    earlier, later = StepLimits(tmp_path, 150), StepLimits(tmp_path, 150)
    async with earlier.of("org"):
        pass
    async with earlier.of("org") as ending, later.of("org") as organization:
        cgroups.remove(ending.groups)  # as when the earlier builder is collected
        earlier.close()
        assert all(Path(group).is_dir() for group in organization.groups), "no step has entered it yet"


async def test_control_groups_that_a_killed_server_left_are_removed(tmp_path):
    killed = await asyncio.create_subprocess_exec("true")
    await killed.wait()
    left = cgroups.StepGroups(tmp_path, 150, 100, server=killed.pid).make("org", "play")
    others = cgroups.StepGroups(tmp_path, 150, 100, server=os.getppid()).make("org", "play")
    step_limits = StepLimits(tmp_path, 150)
    async with step_limits.of("org") as organization:
        step_limits.sweep()
        assert not any(Path(group).exists() for group in (*left, *parents(left)))
        assert all(Path(group).is_dir() for group in (*others, *organization.groups))
    cgroups.remove([*others, *parents(others)])


@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_build_steps_have_the_highest_oom_score(tmp_path, mode):
    made = cells(tmp_path, mode, has_groups=False)
    # Without isolation, the score is set just after the program has begun.
    script = "until grep -qx 800 /proc/self/oom_score_adj; do sleep 0.05; done"
    step = BuildStep(["/bin/sh", "-c", script], made.writable[0], {"PATH": "/usr/bin:/bin"}, {})
    async with made.running(step) as (process, _):
        assert await process.wait() == 0
