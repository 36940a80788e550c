"""All steps of the builds of an organization have a limit of memory together, and end before services do."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from windlass.base import cgroups
from windlass.base.guests import Guests
from windlass.base.isolation.isolation import Isolation, Mode
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


def cells(top: Path, mode: Mode = "auto", *, has_groups: bool, memory: int = 150) -> Cells:
    home = top / "home"
    home.mkdir()
    guests = Guests(top, memory, has_groups=has_groups)
    return Cells(Isolation(mode, top), "org", home, home, guests=guests)


async def run(cells: Cells, script: str) -> int:
    program = [sys.base_prefix + "/bin/python3", "-c", script]
    step = BuildStep(program, cells.writable[0], {"PATH": "/usr/bin:/bin"}, {})
    async with cells.running(step) as (process, _):
        return await process.wait()


@pytest.fixture(params=[True, False], ids=["control group", "weighed"])
def has_groups(request: pytest.FixtureRequest, tmp_path: Path) -> bool:
    if request.param:
        groups = cgroups.GuestGroups(tmp_path, 100, 100).make("try")
        is_limited = cgroups.limits_memory(groups)
        cgroups.remove(groups)
        if not is_limited:
            pytest.xfail("no control group can be made on this machine")
    return bool(request.param)


@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_steps_whose_children_take_all_memory_end_with_a_message(tmp_path, has_groups, mode):
    with pytest.raises(BuildError, match=r"^Make the build need less memory, .* more than 150 MiB\.$"):
        await run(cells(tmp_path, mode, has_groups=has_groups), CHILDREN)


async def test_without_the_limit_steps_take_all_that_they_want(tmp_path, has_groups):
    """The control of the test above."""
    assert await run(cells(tmp_path, has_groups=has_groups, memory=4096), BRIEF) == 0


async def test_steps_below_the_limit_run_to_their_end(tmp_path, has_groups):
    assert await run(cells(tmp_path, has_groups=has_groups), MODEST) == 0


async def test_a_control_group_is_removed_with_its_last_step(tmp_path):
    guests = Guests(tmp_path, 150)
    async with guests.of("org") as organization:
        groups = [Path(group) for group in organization.groups]
        assert all(group.is_dir() for group in groups)
    assert not any(group.exists() for group in groups)


async def test_a_control_group_with_a_process_is_removed_at_the_latest_when_the_builder_is_gone(tmp_path):
    guests = Guests(tmp_path, 150)
    async with guests.of("org") as organization:
        groups = [Path(group) for group in organization.groups]
        process = await asyncio.create_subprocess_exec("sleep", "60")
        cgroups.enter(organization.groups, process.pid)
    assert all(group.is_dir() for group in groups), "the kernel keeps it for the process"
    process.kill()
    await process.wait()
    guests.close()
    assert not any(group.exists() for group in groups)


async def test_an_earlier_builder_of_the_same_process_leaves_the_control_groups_of_a_later_one(tmp_path):
    earlier, later = Guests(tmp_path, 150), Guests(tmp_path, 150)
    async with earlier.of("org"):
        pass
    async with earlier.of("org") as ending, later.of("org") as organization:
        cgroups.remove(ending.groups)  # as when the earlier builder is collected
        earlier.close()
        assert all(Path(group).is_dir() for group in organization.groups), "no step has entered it yet"


async def test_control_groups_that_a_killed_server_left_are_removed(tmp_path):
    killed = await asyncio.create_subprocess_exec("true")
    await killed.wait()
    left = cgroups.GuestGroups(tmp_path, 150, 100, server=killed.pid).make("org")
    others = cgroups.GuestGroups(tmp_path, 150, 100, server=os.getppid()).make("org")
    guests = Guests(tmp_path, 150)
    async with guests.of("org") as organization:
        guests.sweep()
        assert not any(Path(group).exists() for group in left)
        assert all(Path(group).is_dir() for group in (*others, *organization.groups))
    cgroups.remove(others)


@pytest.mark.parametrize("mode", ["auto", "off"])
async def test_the_kernel_ends_steps_before_anything_else(tmp_path, mode):
    made = cells(tmp_path, mode, has_groups=False)
    # Without isolation, the score is set just after the program has begun.
    script = "until grep -qx 800 /proc/self/oom_score_adj; do sleep 0.05; done"
    step = BuildStep(["/bin/sh", "-c", script], made.writable[0], {"PATH": "/usr/bin:/bin"}, {})
    async with made.running(step) as (process, _):
        assert await process.wait() == 0
