"""Decides which internet addresses may be called: public addresses, and networks that the operator allows.

This module opens no connection. Callers must connect to the address that was checked here, and not to a host
name, because the name may resolve to another address a moment later.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeVar

from windlass.base.commit_thread import answer_with

T = TypeVar("T")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

LOOPBACK: Final = ("127.0.0.0/8", "::1/128")

# https://www.iana.org/assignments/iana-ipv4-special-registry, and the private services of clouds.
CLOSED_NETWORKS: Final = (
    "0.0.0.0/8",  # this network; 0.0.0.0 reaches this machine
    "10.0.0.0/8",  # private, as 172.16.0.0/12 and 192.168.0.0/16
    "100.64.0.0/10",  # carrier-grade NAT
    "127.0.0.0/8",
    "168.63.129.16/32",  # Azure's machine agent
    "169.254.0.0/16",  # link-local: metadata services of clouds
    "172.16.0.0/12",
    "192.0.0.0/24",  # protocol assignments: metadata services of some clouds
    "192.168.0.0/16",
    "198.18.0.0/15",  # benchmarking; used for service networks, see base/isolation/network.py
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)
"""IPv4 networks of this machine, of private networks and of clouds. A service with its own network reaches
them only if the operator allows it."""
_UNUSED_NETWORKS = (
    "192.0.2.0/24",  # documentation, as are the last two networks
    "192.88.99.0/24",  # 6to4 relays
    "198.51.100.0/24",
    "203.0.113.0/24",
)
_NOT_PUBLIC_4 = tuple(map(IPv4Network, (*CLOSED_NETWORKS, *_UNUSED_NETWORKS)))
# IANA assigns public addresses only from 2000::/3. Loopback, private, link-local, multicast, IPv4-mapped and
# NAT64 addresses are outside that network.
_GLOBAL_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo addresses contain an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4 addresses contain an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
_NUMBER_PATTERN = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_NAME_PATTERN = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


class BadHost(ValueError):
    """Reports why a text is not a host name or address. The message does not repeat the text."""


class Reach:
    """Decides which addresses outgoing calls may reach."""

    def __init__(self, allowed: Iterable[str] = (), *, loopback: bool = False, public: bool = True) -> None:
        """Allows the listed networks. `public` and `loopback` allow all public and loopback addresses."""
        self._public = public
        self._allowed = tuple(
            _parse_network(network) for network in (*allowed, *(LOOPBACK if loopback else ()))
        )

    def admits(self, address: Address) -> bool:
        return (self._public and is_public(address)) or self.names(address)

    def names(self, address: Address) -> bool:
        """Returns whether the operator has allowed this address explicitly."""
        return any(address in network for network in self._allowed)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address in _GLOBAL_UNICAST_6 and not any(address in network for network in _NOT_PUBLIC_6)


def host(text: str) -> str | Address:
    """Parses the host of a URL. Returns a name in lower case without its final dot, or an address."""
    if text.startswith("["):
        return _parse_address(text[1:-1], IPv6Address) if text.endswith("]") else _refuse(text)
    name = text.lower().removesuffix(".")
    # As in browsers, a host that ends in a number is an address. The C library reads 127.1, 0x7f.1,
    # 017700000001 and 2130706433 all as 127.0.0.1; this parser accepts only the usual notation.
    if _NUMBER_PATTERN.fullmatch(name.rpartition(".")[2]):
        return _parse_address(text, IPv4Address)
    if len(name) > 253 or not _NAME_PATTERN.fullmatch(name):
        return _refuse(text)
    return name


async def resolve(name: str, port: int) -> Sequence[Address]:
    """Returns the addresses of a host name without duplicates. Raises an OSError if it has no address."""
    try:
        entries = await in_a_thread(partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM))
    except UnicodeError as error:  # raised by Python's IDNA codec, which runs before the resolver
        raise OSError("not a valid host name") from error
    return [ip_address(address) for address in dict.fromkeys(str(entry[4][0]) for entry in entries)]


async def in_a_thread(function: Callable[[], T]) -> T:
    """Runs a function in its own daemon thread, which does not delay the end of the process.

    Resolving a name takes half a minute if its name server is silent. uvloop resolves names in two threads,
    and asyncio shares a few threads between all its work: some such names would block all other lookups.
    """
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    threading.Thread(target=answer_with, args=(answer, function), name="name lookup", daemon=True).start()
    return await answer


def _parse_address(text: str, kind: type[IPv4Address] | type[IPv6Address]) -> Address:
    try:
        address = kind(text)
    except ValueError as error:
        raise BadHost("is not an address in its usual form, such as 203.0.113.7 or [2001:db8::7]") from error
    if isinstance(address, IPv6Address) and address.scope_id:
        raise BadHost("names an interface of this machine")
    return address


def _refuse(text: str) -> str:
    if not text.isascii():
        raise BadHost("must be written in its ASCII form (xn--…)")
    raise BadHost("is not a host name")


def _parse_network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ValueError(f"name a network, such as 10.0.0.0/8 or fd00::/8: {text} is not one") from error
