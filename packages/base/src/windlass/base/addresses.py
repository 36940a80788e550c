"""Judges which internet addresses may be called: public ones, and networks that the operator allowed.

This module opens no connection. Callers connect to the address that was checked here, never to a name,
because a name may resolve to another address a moment later.
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
    "10.0.0.0/8",
    "100.64.0.0/10",  # carrier-grade NAT
    "127.0.0.0/8",
    "168.63.129.16/32",  # Azure's machine agent
    "169.254.0.0/16",  # link-local: metadata of clouds
    "172.16.0.0/12",
    "192.0.0.0/24",  # protocol assignments; metadata of some clouds
    "192.168.0.0/16",
    "198.18.0.0/15",  # benchmarking; networks of services, see base/isolation/network.py
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)
"""IPv4 ranges of private networks, of this machine and of cloud metadata. A service with its own network
reaches them only if the operator allows them."""
_UNUSED_NETWORKS = (
    "192.0.2.0/24",  # documentation, as the last two
    "192.88.99.0/24",  # 6to4 relays
    "198.51.100.0/24",
    "203.0.113.0/24",
)
_NOT_PUBLIC_4 = tuple(map(IPv4Network, (*CLOSED_NETWORKS, *_UNUSED_NETWORKS)))
# Only 2000::/3 is handed out. Outside it are loopback, private, link-local, multicast, IPv4-mapped and NAT64.
_HANDED_OUT_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo carries an IPv4 address in it
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4 carries an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


class BadHost(ValueError):
    """The reason why a text is not a host name or address. The message does not repeat the text."""


class Reach:
    """Decides which addresses outgoing calls may reach."""

    def __init__(self, allowed: Iterable[str] = (), *, loopback: bool = False, public: bool = True) -> None:
        """`public`: True if public addresses are allowed."""
        self._public = public
        self._allowed = tuple(_network(network) for network in (*allowed, *(LOOPBACK if loopback else ())))

    def admits(self, address: Address) -> bool:
        return (self._public and is_public(address)) or self.names(address)

    def names(self, address: Address) -> bool:
        """Returns whether the operator has allowed this address explicitly."""
        return any(address in network for network in self._allowed)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address in _HANDED_OUT_6 and not any(address in network for network in _NOT_PUBLIC_6)


def host(text: str) -> str | Address:
    """A host as it may stand in a URL: a name in lower case without its last dot, or an address."""
    if text.startswith("["):
        return _address(text[1:-1], IPv6Address) if text.endswith("]") else _refuse(text)
    name = text.lower().removesuffix(".")
    # As browsers see it: a host that ends in a number is an address. The C library reads 127.1, 0x7f.1,
    # 017700000001 and 2130706433 all as 127.0.0.1; only the usual form is one here.
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _address(text, IPv4Address)
    if len(name) > 253 or not _NAME.fullmatch(name):
        return _refuse(text)
    return name


async def resolve(name: str, port: int) -> Sequence[Address]:
    """Returns all addresses of a name, each once. Raises an OSError if there are none."""
    try:
        entries = await in_a_thread(partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM))
    except UnicodeError as error:  # the codec that Python runs before the resolver
        raise OSError("not a valid host name") from error
    return [ip_address(address) for address in dict.fromkeys(str(entry[4][0]) for entry in entries)]


async def in_a_thread(ask: Callable[[], T]) -> T:
    """Runs a function in its own thread, which does not delay the end of the process.

    Resolving a name whose server is silent takes half a minute. uvloop has two threads for names, and asyncio
    has a few for everything: several such names would block all others.
    """
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    threading.Thread(target=answer_with, args=(answer, ask), name="name lookup", daemon=True).start()
    return await answer


def _address(text: str, kind: type[IPv4Address] | type[IPv6Address]) -> Address:
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


def _network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ValueError(f"name a network, such as 10.0.0.0/8 or fd00::/8: {text} is not one") from error
