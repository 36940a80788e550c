"""An instance costs the server one descriptor, which tells of its end, and no task."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from contextvars import ContextVar
from pathlib import Path

import pytest

from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.process.helpers import SERVICE

_MORE = 10


def descriptors() -> Counter[str]:
    """Returns what the open descriptors of this process are."""
    links: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links[str(entry.readlink())] += 1
        except FileNotFoundError:  # the one of this look at the folder
            continue
    return links


async def expect(rig: ProcessRig, before: Counter[str], more: int) -> None:
    """Waits until there are so many more processes that are watched, and no file of an instance is open."""
    services = str(rig.folder / "services")

    async def is_so() -> bool:
        extra = descriptors() - before
        return extra.total() == more and not any(link.startswith(services) for link in extra)

    await until(is_so, lambda: f"more are open: {descriptors() - before}")


@pytest.mark.slow
async def test_each_instance_uses_one_file_descriptor_of_the_server(rig: ProcessRig, station: Station):
    it = wanted(rig.made(programs.SLEEPS))
    await station.apply(it)
    await station.hears("here")
    await expect(rig, descriptors(), 0)
    before = descriptors()
    await station.apply(it, 1 + _MORE)
    await station.hears("here", 1 + _MORE)
    await expect(rig, before, _MORE)


@pytest.mark.nightly
async def test_an_adopted_instance_costs_one_descriptor(rig: ProcessRig):
    it = wanted(rig.made(programs.SLEEPS))
    async with Station(rig) as first:
        await first.apply(it, 1)
        await first.hears("here")
    async with Station(rig) as second:
        await second.running(SERVICE)
        before = descriptors()
        await second.apply(it, 1 + _MORE)
        await second.hears("here", _MORE)
    async with Station(rig) as third:
        await third.engine.observe(SERVICE)
        await expect(rig, before, _MORE + 1)  # and one for the launcher
        await third.engine.sweep(await third.engine.services())


@pytest.mark.slow
async def test_an_instance_costs_no_task(rig: ProcessRig, station: Station):
    it = wanted(rig.made(programs.SLEEPS))
    await station.apply(it)
    await station.hears("here")
    before = len(asyncio.all_tasks())
    await station.apply(it, 1 + _MORE)
    await station.hears("here", 1 + _MORE)

    async def are_as_many() -> bool:
        return len(asyncio.all_tasks()) <= before

    await until(are_as_many, lambda: f"more tasks: {asyncio.all_tasks()}")


class Work:
    """What the context of a task refers to."""


async def test_the_work_that_started_an_instance_is_not_kept_while_it_runs(rig: ProcessRig, station: Station):
    current: ContextVar[Work] = ContextVar("current")
    it, work = wanted(rig.made(programs.SLEEPS)), Work()
    seen = weakref.ref(work)

    async def start(work: Work) -> None:
        current.set(work)
        await station.apply(it)

    await asyncio.create_task(start(work))
    del work

    async def is_forgotten() -> bool:
        gc.collect()
        return seen() is None

    await until(is_forgotten, lambda: f"it is kept by {gc.get_referrers(seen())}")
    await station.running(SERVICE)
