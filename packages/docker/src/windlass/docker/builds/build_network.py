"""The network of a build with the classic builder. Each build has its own, because its steps can spoof
packets.

The default bridge of an engine connects the steps of all builds. A step has the capability NET_RAW, with
which it could take the place of the gateway for other steps, and answer their requests.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from ipaddress import IPv4Network
from typing import Final

from msgspec import Struct

from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.subnets import make_network

LABEL: Final = "windlass.build-network"
"""The label of these networks, with the installation."""
PREFIX: Final = 28
"""The size of the network of a build, whose steps run one after the other."""
LEFT: Final = 24 * 3600
"""Seconds after which a network belongs to no build any more: servers that share an engine build there."""


class _LeftoverNetwork(Struct, rename="pascal"):
    id: str
    created: datetime


class _LeftoverContainer(Struct, rename="pascal"):
    id: str


class BuildNetworks:
    def __init__(self, docker: Docker, installation: str, pool: IPv4Network | None) -> None:
        self._docker, self._installation, self._pool = docker, installation, pool
        self._left: set[str] = set()
        """Networks of builds that ended because the engine became unavailable."""

    @asynccontextmanager
    async def made(self) -> AsyncIterator[str]:
        """Yields the name of a network that exists during the block. Removes containers that are left in it,
        too."""
        name = f"wdl-build-{uuid.uuid4()}"
        body = {
            "Name": name,
            "Labels": {LABEL: self._installation},
            "Options": {"com.docker.network.bridge.enable_icc": "false"},
        }
        try:
            await make_network(self._docker, body, self._pool, PREFIX, builds=True)
            yield name
        finally:
            self._left.add(name)
            with suppress(Away):  # a sweep removes it
                await asyncio.shield(self._remove(name))

    async def sweep(self) -> None:
        """Removes networks of builds that ended while the engine was unavailable, or were interrupted long
        ago."""
        for name in list(self._left):
            await self._remove(name)
        params = {"filters": {"label": [f"{LABEL}={self._installation}"]}}
        for network in await self._docker.read_list("/networks", list[_LeftoverNetwork], params=params):
            if time.time() - network.created.timestamp() > LEFT:
                await self._remove(network.id)

    async def _remove(self, network: str) -> None:
        params = {"all": True, "filters": {"network": [network]}}
        for container in await self._docker.read_list(
            "/containers/json", list[_LeftoverContainer], params=params
        ):
            await self._delete(f"/containers/{container.id}", force=True, v=True)
        if await self._delete(f"/networks/{network}"):
            self._left.discard(network)

    async def _delete(self, path: str, **params: bool) -> bool:
        """Deletes an object. Returns whether it is gone."""
        try:
            await self._docker.raw("DELETE", path, params=params)
        except EngineRefused as refused:
            # 404: it is gone. 403 and 409: the engine is removing what uses it, and a sweep checks again.
            if refused.status not in (403, 404, 409):
                raise
            return refused.status == 404
        return True
