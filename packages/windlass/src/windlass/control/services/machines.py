"""The machine of a cluster: what it has, and what is free. Only the server of a machine measures it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from windlass.base.disk_reserve import disk_spaces
from windlass.base.process_memory import available_memory
from windlass.base.subprocesses import in_thread
from windlass.base.version import VERSION
from windlass.config import Settings
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.families.cluster import Machine

_OF_ANOTHER_SERVER: Final = (
    "Ask the server of this machine, whose setting place is `{}`: only it knows what is free there"
)
_OF_AN_ENGINE: Final = "Look at the machine itself: its engine tells nothing about what is free there"


@reads("cluster.machine")
async def describe_machine(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    place = await ctx.places.at(row.id)
    machine = Machine(cluster_id=row.id, message=place.refusal)
    if place.elsewhere is not None:
        machine.message = _OF_ANOTHER_SERVER.format(place.machine)
    elif place.is_connected and not place.machine:
        machine.message = _OF_AN_ENGINE
    elif place.is_connected:
        machine.engine = place.engine.name
        await in_thread(_measure, machine, ctx.settings)
    return Reply(encode(machine))


def _measure(machine: Machine, settings: Settings) -> None:
    machine.version = VERSION
    machine.system = f"{_system_name()}, kernel {platform.release()}"
    machine.cores = len(os.sched_getaffinity(0))
    machine.load = round(os.getloadavg()[0], 2)
    available, whole = available_memory()
    machine.memory_bytes, machine.memory_available_bytes = whole or None, available or None
    disk, *_ = disk_spaces(Path(settings.data_dir), settings.disk_reserve_bytes)
    machine.disk_bytes, machine.disk_free_bytes, machine.disk_reserve_bytes = (
        disk.whole,
        disk.free,
        disk.reserve,
    )


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # not every system has the file
        return platform.system()
