"""Checks how much is left of the range of networks on a Docker engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from windlass.config import BadSetting, Settings
from windlass.docker import Away, Docker, EngineRefused
from windlass.docker.subnets import build_reserve, free_subnets, taken_subnets
from windlass.engines.docker.resources import PREFIX
from windlass.install.connecting import docker_pool
from windlass.install.parts import docker_at
from windlass.operate.findings import SECONDS, Finding, fail, ok, warn

_NEARLY: Final = 0.8
"""The part of the range that may be in use without a warning."""


async def docker_networks(settings: Settings) -> AsyncIterator[Finding]:
    try:
        pool = docker_pool(settings)
    except BadSetting as error:
        yield fail("Docker networks", str(error), "correct the setting: a start is refused until then")
        return
    if pool is None:
        advice = "set docker_networks: of its own ranges, a Docker engine has about 30 networks by default"
        yield warn("Docker networks", "the engine chooses their addresses", advice)
        return
    docker = Docker(docker_at(settings))
    try:
        async with asyncio.timeout(SECONDS):
            taken = await taken_subnets(docker, pool)
    except (Away, EngineRefused, TimeoutError):
        return  # The check of the engine reports it.
    finally:
        await docker.close()
    reserve = build_reserve(pool)
    total = sum(1 for _ in free_subnets(pool, PREFIX, [reserve]))
    used = total - sum(1 for _ in free_subnets(pool, PREFIX, [reserve, *taken]))
    state = f"{used} of {total} subnets of {pool} for environments are in use"
    if used >= _NEARLY * total:
        yield warn("Docker networks", state, "set docker_networks to a larger range, or to another one")
    else:
        yield ok("Docker networks", state)
