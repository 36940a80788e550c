"""Checks the build cache of a Docker engine, which limits it only if its own settings say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from msgspec import Struct

from windlass.config import Settings
from windlass.docker import Away, Docker, EngineRefused
from windlass.install.parts import docker_at
from windlass.operate.findings import SECONDS, Finding, ok, warn

GIB: Final = 1 << 30
_ADVICE: Final = (
    "set `builder.gc` in the daemon.json of Docker, see docs/operations.md: without it, Docker keeps all "
    "that it ever built; `docker builder prune` makes room now"
)


class CacheEntry(Struct, frozen=True, rename="pascal"):
    size: int = 0
    shared: bool = False
    """True for what an image needs anyway."""


class DiskUse(Struct, frozen=True, rename="pascal"):
    build_cache: list[CacheEntry] | None = None


async def build_cache(settings: Settings) -> AsyncIterator[Finding]:
    docker = Docker(docker_at(settings))
    try:
        async with asyncio.timeout(SECONDS):
            used = await docker.read_list("/system/df?type=build-cache", DiskUse)
    except Away:
        return  # The check of the engine reports it.
    except (EngineRefused, TimeoutError):
        yield warn("Build cache", "could not be measured", "look at `docker system df`")
        return
    finally:
        await docker.close()
    size = sum(entry.size for entry in used.build_cache or () if not entry.shared)
    state = f"{size / GIB:.1f} GiB on the Docker engine"
    if size > settings.build_cache_bytes:
        yield warn("Build cache", f"{state}, more than build_cache_bytes", _ADVICE)
    else:
        yield ok("Build cache", state)
