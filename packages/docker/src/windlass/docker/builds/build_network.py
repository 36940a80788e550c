"""The network of a build with the classic builder. Each build has its own network, because build steps can
spoof packets.

The engine's default bridge connects the steps of all builds. A step has the capability NET_RAW, with which it
could impersonate the bridge's gateway, and answer the requests of other builds' steps.
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

NETWORK_LABEL: Final = "windlass.build-network"
"""Label of build networks; its value is the installation's id."""
PREFIX_LENGTH: Final = 28
"""Prefix length of a build network. It is small, because the steps of a build run one after the other."""
MAX_NETWORK_AGE_SECONDS: Final = 24 * 3600
"""Age in seconds after which a network counts as abandoned. Younger networks may belong to builds of another
server that shares the engine."""


class _LeftoverNetwork(Struct, rename="pascal"):
    id: str
    created: datetime


class _LeftoverContainer(Struct, rename="pascal"):
    id: str


class BuildNetworks:
    def __init__(self, docker: Docker, installation: str, pool: IPv4Network | None) -> None:
        self._docker, self._installation, self._pool = docker, installation, pool
        self._left: set[str] = set()
        """Networks that could not be removed yet, because the engine was unavailable."""

    @asynccontextmanager
    async def made(self) -> AsyncIterator[str]:
        """Yields the name of a network that exists during the block. At the end, removes the network and all
        containers in it."""
        name = f"wdl-build-{uuid.uuid4()}"
        body = {
            "Name": name,
            "Labels": {NETWORK_LABEL: self._installation},
            "Options": {"com.docker.network.bridge.enable_icc": "false"},
        }
        try:
            await make_network(self._docker, body, self._pool, PREFIX_LENGTH, builds=True)
            yield name
        finally:
            self._left.add(name)
            with suppress(Away):  # a later sweep removes the network
                await asyncio.shield(self._remove(name))

    async def sweep(self) -> None:
        """Removes networks that earlier removals have missed, and abandoned networks of interrupted
        builds."""
        for name in list(self._left):
            await self._remove(name)
        params = {"filters": {"label": [f"{NETWORK_LABEL}={self._installation}"]}}
        for network in await self._docker.read_list("/networks", list[_LeftoverNetwork], params=params):
            if time.time() - network.created.timestamp() > MAX_NETWORK_AGE_SECONDS:
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
        """Deletes an object of the engine. Returns whether the object no longer exists."""
        try:
            await self._docker.raw("DELETE", path, params=params)
        except EngineRefused as refused:
            # 404: already deleted. 403 and 409: still in use; a later sweep tries again.
            if refused.status not in (403, 404, 409):
                raise
            return refused.status == 404
        return True
