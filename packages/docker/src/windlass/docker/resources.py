"""Resources that instances share: the network of their environment, and the volumes of their service."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from typing import Final

from windlass.base.locks import Locks
from windlass.docker import names as words
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.subnets import SubnetsUsedUp, make_network
from windlass.docker.descriptions import (
    ContainerList,
    ContainerSummary,
    MeasuredVolumes,
    NetworkList,
    NetworkSummary,
    OwnVolumeList,
    VolumeList,
    has_labels,
    instances_of,
)
from windlass.docker.volume_files import discard_container
from windlass.docker.volume_sizes import measure_volume
from windlass.engines.engine import EngineError, VolumeLost
from windlass.engines.workload import Volume, Workload

NO_ADDRESSES: Final = "non-overlapping IPv4 address pool"
_VOLUMES_TIMEOUT: Final = 600.0
"""Time limit in seconds for the engine to measure all volumes."""
PREFIX_LENGTH: Final = 25
"""Prefix length of an environment's network: enough for 125 instances."""
ORG_SHARE_DIVISOR: Final = 8
"""Divisor of the range for the share of one organization: an eighth."""


class NetworksUsedUp(EngineError):
    """Raised if no network can be created until another one is removed."""


class DockerResources:
    def __init__(self, docker: Docker, installation: str, pool: IPv4Network | None = None) -> None:
        """`pool`: the address range of networks; None if the engine chooses addresses."""
        self._docker, self._pool = docker, pool
        self._installation = installation
        self._locks = Locks()
        """Locks by environment."""
        self._making = Locks()
        """Locks by organization."""
        self._entering: Counter[str] = Counter()
        """Number of containers that are being added to each environment's network."""

    @asynccontextmanager
    async def network(self, workload: Workload) -> AsyncIterator[str]:
        """Yields the id of an environment's network, after creating it if necessary. The network is not
        removed during the block, in which the caller adds a container. Blocks run concurrently, because
        creating a container takes time."""
        environment = workload.environment
        try:
            id = await self._enter(workload)
        except NetworksUsedUp:
            # Removes unused networks now, instead of at the next sweep.
            await self.discard_networks()
            id = await self._enter(workload)
        try:
            yield id
        finally:
            self._entering[environment] -= 1
            if not self._entering[environment]:
                del self._entering[environment]

    async def _enter(self, workload: Workload) -> str:
        async with self._locks[workload.environment]:
            id = await self._find_or_create_network(workload)
            self._entering[workload.environment] += 1
        return id

    async def check_volumes(self, workload: Workload) -> None:
        """Raises VolumeLost if a volume that contained data no longer exists."""
        for volume in workload.volumes:
            if volume.is_known and not await self._has_volume(workload.service, volume):
                raise VolumeLost(workload, volume)

    async def make_volumes(self, workload: Workload) -> None:
        """Creates missing volumes. Their `size` has no effect, because the engine's default driver does not
        support size limits."""
        labels = {words.INSTALLATION_LABEL: self._installation, words.SERVICE_LABEL: workload.service}
        for volume in workload.volumes:
            name = words.volume(self._installation, workload.service, volume)
            await self._docker.json("POST", "/volumes/create", body={"Name": name, "Labels": labels})

    async def _has_volume(self, service: str, volume: Volume) -> bool:
        try:
            await self._docker.json("GET", f"/volumes/{words.volume(self._installation, service, volume)}")
        except EngineRefused as refused:
            if refused.status == 404:
                return False
            raise
        return True

    async def discard_volumes(self, service: str) -> None:
        volumes = await self._volumes(service=service)
        if volumes:
            await discard_container(self._docker, self._installation, service)
        for name in volumes:
            await self._remove(f"/volumes/{name}")

    async def discard_networks(self) -> None:
        """Removes networks of environments without containers. Containers that are being created count as
        containers."""
        for environment, network in await self._list_networks():
            async with self._locks[environment]:
                if not self._entering[environment] and not await self._containers(environment=environment):
                    await self._remove(f"/networks/{network['Id']}")

    async def volumes_by_service(self) -> Counter[str]:
        return Counter(labels[words.SERVICE_LABEL] for labels in (await self._volumes()).values())

    async def volume_sizes(self) -> Counter[str]:
        """Returns the total size of each service's volumes in bytes, as measured by the engine. Those that it
        cannot measure are measured here, if the engine is on this machine."""
        path = "/system/df?type=volume"
        listed = await self._docker.read_list(path, MeasuredVolumes, timeout=_VOLUMES_TIMEOUT)
        wanted, sizes = {"installation": self._installation}, Counter[str]()
        for volume in listed["Volumes"] or ():
            labels, usage = volume["Labels"], volume["UsageData"]
            if usage and labels and has_labels(labels, wanted):
                size = usage["Size"]
                if size < 0 and not self._docker.is_elsewhere:
                    size = await measure_volume(volume["Mountpoint"])
                sizes[labels[words.SERVICE_LABEL]] += max(0, size)
        return sizes

    async def _find_or_create_network(self, workload: Workload) -> str:
        environment = workload.environment
        networks = await self._list_networks(environment=environment)
        if not networks:
            await self._make_network(workload)
            networks = await self._list_networks(environment=environment)
        # The engine allows duplicate names. If two servers created a network each, both use the older one.
        if not networks:
            raise EngineError("Deploy again: the network that the Docker engine has just made is gone")
        eldest, *others = sorted(
            (network for _, network in networks), key=lambda network: (network["Created"], network["Id"])
        )
        for other in others:
            await self._remove(f"/networks/{other['Id']}")
        return str(eldest["Id"])

    async def _make_network(self, workload: Workload) -> None:
        async with self._making[workload.org]:  # two concurrent calls could exceed the limit together
            await self._refuse_too_many(workload.org)
            await self._create_network(workload)

    async def _create_network(self, workload: Workload) -> None:
        labels = {
            words.INSTALLATION_LABEL: self._installation,
            words.ENVIRONMENT_LABEL: workload.environment,
            words.ORGANIZATION_LABEL: workload.org,
        }
        body = {
            "Name": words.network(self._installation, workload.environment),
            "Labels": labels,
            "CheckDuplicate": False,
        }
        try:
            await make_network(self._docker, body, self._pool, PREFIX_LENGTH)
        except SubnetsUsedUp as used_up:
            raise NetworksUsedUp(str(used_up)) from used_up
        except EngineRefused as refused:
            if NO_ADDRESSES in refused.message:
                raise NetworksUsedUp(
                    "Stop or delete the services of an environment, or ask the operator to add "
                    "default-address-pools to the daemon.json of the Docker engine: it has no address "
                    "range left for another network"
                ) from refused
            if refused.status != 409:
                raise

    async def _refuse_too_many(self, org: str) -> None:
        if self._pool is None:
            return
        most = max(
            1, self._pool.num_addresses // ORG_SHARE_DIVISOR >> (self._pool.max_prefixlen - PREFIX_LENGTH)
        )
        if len(await self._list_networks(organization=org)) >= most:
            raise NetworksUsedUp(
                "Stop or delete the services of an environment, or ask the operator for a larger range in "
                f"docker_networks: an organization has networks for at most {most} environments at a time, "
                f"an eighth of {self._pool}"
            )

    async def _list_networks(self, **labels: str) -> list[tuple[str, NetworkSummary]]:
        """Returns pairs of an environment and its network."""
        wanted = {"installation": self._installation, **labels}
        params = {"filters": words.filters(**wanted)}
        listed = await self._docker.read_list("/networks", NetworkList, params=params)
        networks = [network for network in listed if has_labels(network["Labels"], wanted)]
        environments = [(network["Labels"] or {}).get(words.ENVIRONMENT_LABEL, "") for network in networks]
        return [pair for pair in zip(environments, networks, strict=True) if pair[0]]

    async def _containers(self, **labels: str) -> list[ContainerSummary]:
        wanted = {"installation": self._installation, **labels}
        params = {"all": True, "filters": words.instances(**wanted)}
        listed = await self._docker.read_list("/containers/json", ContainerList, params=params)
        containers = instances_of(self._installation, listed)
        return [container for container in containers if has_labels(container["Labels"], wanted)]

    async def _volumes(self, **labels: str) -> Mapping[str, Mapping[str, str]]:
        wanted = {"installation": self._installation, **labels}
        list_type = VolumeList if self._docker.is_elsewhere else OwnVolumeList
        params = {"filters": words.filters(**wanted)}
        listed = await self._docker.read_list("/volumes", list_type, params=params)
        volumes = [volume for volume in listed["Volumes"] or () if has_labels(volume["Labels"], wanted)]
        return {volume["Name"]: volume["Labels"] or {} for volume in volumes}

    async def _remove(self, path: str) -> None:
        try:
            await self._docker.raw("DELETE", path)
        except EngineRefused as refused:
            # 404: already removed. 403 and 409: in use again; a later sweep checks it.
            if refused.status not in (403, 404, 409):
                raise
