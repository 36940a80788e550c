"""Creates networks with small subnets from Windlass's own address range.

An engine's default address pools only suffice for about 30 networks, each with at least 4,096 addresses.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from windlass.base.subprocesses import in_thread
from windlass.docker.client.answers import EngineRefused
from windlass.docker.client.client import Docker
from windlass.docker.client.transports import LOOPBACK

MAX_PREFIX_LENGTH: Final = 24
"""Maximum prefix length of the range: at least 256 addresses."""
_OVERLAP_ERROR: Final = "overlap"
_ROUTE_TABLE: Final = Path("/proc/net/route")
_MAX_ATTEMPTS: Final = 64
"""Maximum number of subnets to try, because other servers may use a subnet at the same time."""


class _Subnet(Struct, rename="pascal"):
    subnet: str = ""


class _AddressManagement(Struct, rename="pascal"):
    config: list[_Subnet] | None = None


class _TakenNetwork(Struct, rename={"ipam": "IPAM"}):
    ipam: _AddressManagement | None = None


class SubnetsUsedUp(EngineRefused):
    def __init__(self, pool: IPv4Network) -> None:
        super().__init__(
            403, f"Ask the operator for a larger range in docker_networks: no subnet of {pool} is free"
        )


def read_range(text: str) -> IPv4Network | None:
    """Parses the address range of a setting. Returns None if the engine chooses subnets itself. Raises
    ValueError."""
    if not text:
        return None
    pool = IPv4Network(text)
    if pool.prefixlen > MAX_PREFIX_LENGTH:
        raise ValueError(f"{text} has fewer than 256 addresses")
    return pool


def build_reserve(pool: IPv4Network) -> IPv4Network:
    """Returns the part of a range that is reserved for build networks: a sixteenth, but at least 128
    addresses."""
    size = 1 << (pool.max_prefixlen - min(pool.prefixlen + 4, 25))
    return IPv4Network((int(pool.broadcast_address) + 1 - size, min(pool.prefixlen + 4, 25)))


async def make_network(
    docker: Docker, body: Mapping[str, Any], pool: IPv4Network | None, prefix: int, *, builds: bool = False
) -> None:
    """Creates a network with a subnet of the given prefix length.

    `builds`: prefers the reserved part of the range, which other networks never use. The engine refuses
    overlapping subnets: if two servers choose the same subnet, one of them tries the next subnet."""
    if pool is None:
        await docker.json("POST", "/networks/create", body=body)
        return
    reserve = build_reserve(pool)
    taken = await taken_subnets(docker, pool)
    if builds:
        first, count = int(reserve.network_address) - int(pool.network_address), reserve.num_addresses
    else:
        taken, first, count = [*taken, reserve], 0, pool.num_addresses
    # Start at a random subnet: bridges that an engine has lost are only visible on this machine, by their
    # routes.
    start = (first + random.randrange(count)) >> (pool.max_prefixlen - prefix)  # noqa: S311 (no secret)
    for subnet in islice(free_subnets(pool, prefix, taken, start), _MAX_ATTEMPTS):
        addresses = {"Driver": "default", "Config": [{"Subnet": str(subnet)}]}
        try:
            await docker.json("POST", "/networks/create", body={**body, "IPAM": addresses})
        except EngineRefused as refused:
            if _OVERLAP_ERROR not in refused.message:
                raise
        else:
            return
    raise SubnetsUsedUp(pool)


def free_subnets(
    pool: IPv4Network, prefix: int, taken_networks: Collection[IPv4Network], start: int = 0
) -> Iterator[IPv4Network]:
    """Yields free subnets of a range, beginning with number `start`."""
    first, end = int(pool.network_address), int(pool.broadcast_address)
    addresses = range(first, end, 1 << (pool.max_prefixlen - prefix))
    for address in chain(addresses[start:], addresses[:start]):
        subnet = IPv4Network((address, prefix))
        if not any(subnet.overlaps(other) for other in taken_networks):
            yield subnet


async def taken_subnets(docker: Docker, pool: IPv4Network) -> list[IPv4Network]:
    """Returns the subnets of a range that are used by the engine's networks or this machine's routes."""
    networks = await docker.read_list("/networks", list[_TakenNetwork])
    configs = [network.ipam.config or () for network in networks if network.ipam is not None]
    used = _parse_networks(entry.subnet for config in configs for entry in config)
    routes = await in_thread(_read_routes) if docker.address == LOOPBACK else []
    # A wider route, such as a VPN's default route, does not conflict with a subnet.
    return [
        *(subnet for subnet in used if subnet.overlaps(pool)),
        *(route for route in routes if route.subnet_of(pool)),
    ]


def _read_routes() -> list[IPv4Network]:
    with suppress(OSError, ValueError, IndexError):
        rows = [line.split() for line in _ROUTE_TABLE.read_text().splitlines()[1:]]
        return list(
            _parse_networks(
                f"{_parse_kernel_address(row[1])}/{_parse_kernel_address(row[7])}" for row in rows
            )
        )
    return []


def _parse_kernel_address(written: str) -> IPv4Address:
    """Parses an address in the kernel's little-endian form: `0100000A` is 10.0.0.1."""
    return IPv4Address(bytes.fromhex(written)[::-1])


def _parse_networks(texts: Iterable[str]) -> Iterator[IPv4Network]:
    for text in texts:
        with suppress(ValueError):  # such as IPv6
            yield IPv4Network(text)
