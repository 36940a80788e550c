"""Explains why a running program does not answer: it listens elsewhere than its service says.

Pure. Engines find the listeners; `advise_on_address` compares them with what the service declares.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from msgspec import Struct

from windlass.core.deploy.workload import Instance, Workload

_MOST_NAMED: Final = 5
_LINE: Final = re.compile(
    r"^ *[0-9]+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:0000 0A (?:\S+ +){5}([0-9]+)",
    re.MULTILINE,
)
"""A line of /proc/net/tcp or tcp6 about a socket that listens."""
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared, not bound)
_LOCAL: Final = "127.0.0.1"


class ListeningPort(Struct, frozen=True, order=True):
    """A TCP port on which a program accepts connections."""

    port: int
    address: str

    def takes(self, *, from_outside: bool) -> bool:
        """True if it takes the connections of Windlass, which come from outside of a container, or else to
        127.0.0.1."""
        if self.address in _EVERYWHERE:
            return True
        is_loopback = self.address.startswith("127.") or self.address == "::1"
        return not is_loopback if from_outside else self.address == _LOCAL


def listening_sockets(table: str) -> Iterator[tuple[ListeningPort, int]]:
    """Yields the listeners of a table of the kernel, each with the inode of its socket."""
    for address, port, inode in _LINE.findall(table):
        yield ListeningPort(int(port, 16), _address(address)), int(inode)


def advise_on_address(
    workload: Workload, copy: Instance, port: int, listeners: Collection[ListeningPort], *, from_outside: bool
) -> str:
    """Returns what to change so that a copy answers on `port`; empty if it listens there, or nowhere.

    `from_outside`: connections come from outside of the copy's network.
    """
    own = {port} if from_outside else {port, copy.ports.get(port, port)}
    on_port = [listener for listener in listeners if listener.port in own]
    if any(listener.takes(from_outside=from_outside) for listener in on_port):
        return ""
    name = workload.name
    if on_port:
        return f"Make {name} listen on 0.0.0.0: it listens on port {port} of {on_port[0].address} only"
    declared = {declared_port.internal for declared_port in workload.ports} | {*copy.ports.values()}
    others = [listener for listener in listeners if listener.port not in declared]
    reached = {listener.port for listener in others if listener.takes(from_outside=from_outside)}
    if reached:
        return _other_port(name, port, sorted(reached))
    if others:
        first = min(others)
        return (
            f"Change internal_port to {first.port}, and make {name} listen on 0.0.0.0: it listens on port "
            f"{first.port} of {first.address} only, nothing answers on {port}"
        )
    return ""


def _other_port(name: str, port: int, others: list[int]) -> str:
    numbers = ", ".join(map(str, others[:_MOST_NAMED]))
    to = numbers if len(others) == 1 else f"one of {numbers}"
    return (
        f"Change internal_port to {to}: {name} listens on {numbers}, nothing answers on {port}. Or make it "
        "listen on the port in the variable PORT"
    )


def _address(digits: str) -> str:
    """Returns the address in the usual form. The kernel writes each four bytes as a number."""
    raw = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    if len(raw) == 4:
        return str(IPv4Address(raw))
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)
