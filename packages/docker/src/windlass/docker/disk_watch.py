"""Ends a service when the disk of the Docker engine runs short of space.

The files that a program writes outside of volumes belong to its container, without a limit. A program that
fills the disk would stop all others, the engine and perhaps Windlass. So the container that has filled the
disk is removed with its files: one of the organization that uses most, chosen as on the process engine. Its
next container is started when the disk has room again, after growing pauses.

Windlass must run as root on the engine's machine: others cannot see the files.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from windlass.base.disk_reserve import (
    DiskShare,
    DiskSpace,
    DiskWatch,
    heaviest,
    is_short,
    measure,
    measure_with_all,
    unlinked,
)
from windlass.base.log import log
from windlass.base.repeated_measurement import newest_first
from windlass.base.subprocesses import in_thread
from windlass.docker import names
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.disk_room import data_root
from windlass.docker.descriptions import ContainerSummary, container_name
from windlass.engines.engine import EngineError

CHECK_INTERVAL: Final = 1.0
FIRST_PAUSE, MAX_PAUSE = 10.0, 600.0
"""Pause in seconds before a container that was removed is created anew: the first one, and the maximum."""
_FORGET_SECONDS: Final = 3600.0
_RECENT_GROWTH_SECONDS: Final = 60.0
"""Seconds for which a change in a volume counts as recent growth. Also the minimum interval of warnings."""
_ID_PATTERN: Final = re.compile(r"[0-9a-f]{64}")
_MIB: Final = 1 << 20
_UNEXPLAINED: Final = (
    "free space on the disk of the Docker engine: less than the reserve (disk_reserve_bytes) is free, and no "
    "service is known to hold enough of it to be ended; images, builds or other programs may have filled it"
)
_log = log("engines.docker")


class EngineDisk:
    def __init__(
        self,
        docker: Docker,
        reserve: int,
        list_all: Callable[[], Awaitable[Sequence[ContainerSummary]]],
        inspect: Callable[[str], Coroutine[Any, Any, Mapping[str, Any] | None]],
        empty: Callable[[ContainerSummary, str], Coroutine[Any, Any, None]],
    ) -> None:
        """`reserve`: bytes to keep free; 0 for none. `list_all` returns the containers of services; nothing
        if another server watches the engine. `inspect` describes a container by its id. `empty` removes a
        container for a reason."""
        self._docker, self._reserve = docker, reserve
        self._list_all, self._inspect, self._empty = list_all, inspect, empty
        self._folder: Path | None = None
        self._watch: DiskWatch | None = None
        self._removed: dict[str, tuple[float, float]] = {}
        """The last pause of removed containers and its end, by their names."""
        self._warned_at = -_RECENT_GROWTH_SECONDS

    async def run(self) -> None:
        """Watches the disk. Returns if it cannot be watched."""
        while self._reserve and os.geteuid() == 0:
            await asyncio.sleep(CHECK_INTERVAL)
            try:
                await self.check()
            except (Away, EngineRefused, TimeoutError, LookupError, TypeError, ValueError, OSError) as error:
                _log.warning("the disk of the Docker engine is not watched", extra={"reason": repr(error)})

    async def check(self) -> None:
        """Removes a container if the disk is short of space because of it."""
        if self._watch is None:
            self._folder = await data_root(self._docker)
            if self._folder is None:
                return
            self._watch = DiskWatch(self._folder, self._reserve)
        space = await in_thread(self._watch.shortage)
        if space is None or not self._watch.is_due(space):
            return
        began = time.monotonic()
        containers = {each["Id"]: each for each in await self._list_all()}
        uses = {id: share for id in containers if (share := await self._share(id, space)) is not None}
        orgs = {id: containers[id]["Labels"].get(names.ORGANIZATION_LABEL, "") for id in uses}
        environments = {id: containers[id]["Labels"].get(names.ENVIRONMENT_LABEL, "") for id in uses}
        chosen = heaviest(space, uses, orgs, environments=environments)
        if chosen is None:
            self._watch.postpone(space, time.monotonic() - began)
            if containers and time.monotonic() >= self._warned_at + _RECENT_GROWTH_SECONDS:
                self._warned_at = time.monotonic()
                _log.warning(_UNEXPLAINED, extra={"free": space.free, "unit": space.unit})
            return
        container = containers[chosen]
        _log.warning(
            "the disk of the Docker engine is below its reserve: a container of the organization with most "
            "is removed",
            extra={
                "container": container_name(container),
                "organization": orgs[chosen],
                space.unit: uses[chosen].size(space),
                "free": space.free,
            },
        )
        self._note_removal(container_name(container))
        await self._empty(container, why_removed(uses[chosen], space))

    async def refuse_early(self, name: str) -> None:
        """Raises EngineError for a container that was removed, and must not be created anew yet."""
        _, until = self._removed.get(name, (0.0, 0.0))
        if time.monotonic() < until or (until and await in_thread(self._is_short)):
            raise EngineError(
                "Store less, or ask the operator to free disk space: this instance has filled the disk, and "
                "is started again after a pause, when there is space"
            )

    def _is_short(self) -> bool:
        return self._folder is not None and is_short(self._folder, self._reserve)

    def _note_removal(self, name: str) -> None:
        now = time.monotonic()
        self._removed = {
            each: entry for each, entry in self._removed.items() if now < entry[1] + _FORGET_SECONDS
        }
        pause = min(2 * self._removed.get(name, (FIRST_PAUSE / 2, 0.0))[0], MAX_PAUSE)
        self._removed[name] = pause, now + pause

    async def _share(self, id: str, space: DiskSpace) -> DiskShare | None:
        detail = await self._inspect(id) if _ID_PATTERN.fullmatch(id) else None
        folder = ((detail or {}).get("GraphDriver") or {}).get("Data") or {}
        if detail is None or "UpperDir" not in folder or self._folder is None:
            return None
        volumes: dict[bool, list[Path]] = {True: [], False: []}
        for mount in detail.get("Mounts") or ():
            is_own = bool(_ID_PATTERN.fullmatch(str(mount.get("Name"))))  # it is removed with the container
            volumes[is_own].append(Path(mount["Source"]))
        own = [Path(folder["UpperDir"]), *volumes[True]]
        disks = [self._folder]
        if first := int(detail["State"].get("Pid") or 0):
            disks.append(Path(f"/proc/{first}/root"))  # an overlay has a device of its own
        return await in_thread(_measure, id, own, volumes[False], disks, space.most_at)


def _measure(
    id: str, own: Collection[Path], volumes: Collection[Path], disks: Collection[Path], new_since: float
) -> DiskShare:
    share = DiskShare(
        measure(own, 0, new_since),
        *measure_with_all(volumes, time.time() - _RECENT_GROWTH_SECONDS, new_since),
    )
    for disk in disks:
        with suppress(FileNotFoundError):  # the container has ended
            deleted = unlinked(partial(_processes_of, id), disk, new_since)
            share = structs.replace(share, own=share.own + deleted)
    return share


def _processes_of(container: str) -> list[int]:
    found = []
    for pid in newest_first():
        with suppress(OSError):
            if container in Path(f"/proc/{pid}/cgroup").read_text():
                found.append(pid)
    return found


def why_removed(share: DiskShare, space: DiskSpace) -> str:
    if share.own.is_hidden:
        amount = "hides files from the server"
    elif space.unit == "files":
        amount = f"wrote {share.size(space)} files"
    else:
        amount = f"wrote {share.size(space) // _MIB} MiB"
    return (
        f"{amount}, and the disk of the Docker engine is full: store less, or ask the operator to free disk "
        "space; its files outside of volumes were deleted"
    )
