"""Examines where the volumes of a container would be mounted, before each start.

The engine follows links of the image to a mount point. With a link to `/dev`, a volume would replace the
devices of the container. Before runc 1.2.8 and 1.3.3 (CVE-2025-31133, CVE-2025-52565), a program could then
give itself a file of the kernel as its output, such as the one that names what the kernel runs after a crash:
it would be root on the engine's machine.

Nobody can change the links while the container does not run, except those in volumes that another container
of the service has, too.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from windlass.docker.client import Docker
from windlass.docker.start_files import PathFacts, path_facts
from windlass.engines.engine import EngineError

SYSTEM_FOLDERS: Final = ("/dev", "/proc", "/sys")
"""File systems of the kernel, which every container has."""
_MAX_LINKS: Final = 8

_Ask = Callable[[str], Awaitable[PathFacts | None]]


async def examine_mount_points(
    docker: Docker, container: str, shared: Collection[str], service_volumes: Collection[str]
) -> None:
    """Raises EngineError if a volume of a stopped container would be mounted in a folder of the kernel, or
    below a volume of the service. `shared` are the paths of the service's volumes, `service_volumes` those of
    the volumes that only this container has."""

    known: dict[str, PathFacts | None] = {}

    async def ask(path: str) -> PathFacts | None:
        if path not in known:
            known[path] = await path_facts(docker, container, path)
        return known[path]

    volumes = {path: await _resolve_links(path, (), ask) for path in sorted(shared)}
    for path in sorted({*shared, *service_volumes}):
        outer = [place for other, place in volumes.items() if other != path]
        place = await _resolve_links(path, outer, ask)
        if any(_is_within(place, folder) or place == "/" for folder in SYSTEM_FOLDERS):
            raise EngineError(
                f"Mount the volume elsewhere, or remove it from the image: {path} is at {place}, which "
                "belongs to the system"
            )


async def _resolve_links(path: str, volumes: Collection[str], read_facts: _Ask) -> str:
    """Returns the path without links. Raises EngineError if it leads through one of the volumes."""
    at, parts, links = "/", deque(path.split("/")), 0
    while parts:
        part = parts.popleft()
        if part in ("", ".", ".."):
            at = posixpath.dirname(at) if part == ".." else at
            continue
        here = posixpath.join(at, part)
        if outer := next((volume for volume in volumes if _is_within(here, volume)), ""):
            raise EngineError(
                f"Mount the volume elsewhere, or remove it from the image: {path} lies in the volume at "
                f"{outer}"
            )
        facts = await read_facts(here)
        if facts is None or not facts.is_link:
            at = here
            continue
        links += 1
        if links > _MAX_LINKS:
            raise EngineError(f"Mount the volume elsewhere: {path} is a chain of links in the image")
        parts.extendleft(reversed(facts.linkTarget.split("/")))
        at = "/" if facts.linkTarget.startswith("/") else at
    return at


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
