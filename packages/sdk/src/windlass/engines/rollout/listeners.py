"""Explains why a running program does not answer: it listens on another port or address than its service
declares.

Pure. Engines detect the listening ports; `find_port_mismatch` compares them with the declared ports.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from msgspec import Struct

from windlass.engines.workload import Instance, Workload

_MAX_NAMED_LISTENERS: Final = 5
_LINE_PATTERN: Final = re.compile(
    r"^ *[0-9]+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:0000 0A [0-9A-F]+:([0-9A-F]+) "
    r"(?:\S+ +){4}([0-9]+)",
    re.MULTILINE,
)
"""Matches a line of /proc/net/tcp or tcp6 for a listening socket."""
_ALL_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared, not bound)
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_6: Final = "::1"


class ListeningPort(Struct, frozen=True, order=True):
    """A TCP port on which a program accepts connections."""

    port: int
    address: str

    def takes(self, *, from_outside: bool, own_network: bool = False) -> bool:
        """Returns whether Windlass can connect to a listening port.

        `from_outside`: Windlass connects from outside the container, so the program must not listen on a
        loopback address only. Otherwise, Windlass connects to 127.0.0.1, and with `own_network` (a separate
        network namespace) also to [::1].
        """
        if self.address in _ALL_ADDRESSES:
            return True
        is_loopback = self.address.startswith("127.") or self.address == "::1"
        if from_outside:
            return not is_loopback
        return self.address == _LOOPBACK or (own_network and self.address == _LOCAL_6)


def listening_sockets(table: str) -> Iterator[tuple[ListeningPort, int]]:
    """Yields the listening ports of a kernel table, each with the inode of its socket."""
    for address, port, _, inode in _LINE_PATTERN.findall(table):
        yield ListeningPort(int(port, 16), _parse_address(address)), int(inode)


def queued_at(table: str, port: int) -> int | None:
    """Returns the number of connections to a port that wait to be accepted; None if no socket listens there.
    The kernel reports this number in the receive queue field of a listening socket."""
    queues = [
        int(queue, 16) for _, number, queue, _ in _LINE_PATTERN.findall(table) if int(number, 16) == port
    ]
    return sum(queues) if queues else None


class PortMismatch(Struct, frozen=True):
    """A program that listens on another port or address than its service declares."""

    advice: str
    """The remedy, as readable text."""
    port: int | None = None
    """The only undeclared port that accepts connections from Windlass; None if there are none or several."""
    is_whole: bool = False
    """Whether the program accepts connections on none of the service's ports."""


def find_port_mismatch(
    workload: Workload,
    instance: Instance,
    port: int,
    listeners: Collection[ListeningPort],
    *,
    from_outside: bool,
) -> PortMismatch | None:
    """Compares a copy's listening ports with `port`. Returns None if the copy accepts connections there, or
    does not listen at all. `from_outside`: connections come from outside the copy's network.
    """
    own = {port} if from_outside else {port, instance.ports.get(port, port)}
    reached = {
        listener.port
        for listener in listeners
        if listener.takes(from_outside=from_outside, own_network=bool(instance.network))
    }
    if reached & own:
        return None
    declared = {declared_port.internal for declared_port in workload.ports} | {*instance.ports.values()}
    is_whole = not reached & declared
    if others := sorted(reached - declared):
        is_shared = not from_outside and not instance.network
        advice = _other_port(workload, port, others, is_shared=is_shared)
        return PortMismatch(advice, others[0] if len(others) == 1 else None, is_whole)
    hidden = [listener for listener in listeners if listener.port in own or listener.port not in declared]
    if hidden:
        nearest = min(hidden, key=lambda listener: (listener.port not in own, listener))
        advice = f"Make {workload.name} listen on 0.0.0.0, at the port in the variable PORT"
        return PortMismatch(f"{advice}: it listens on {_address_text(nearest)} only", is_whole=is_whole)
    return None


def _other_port(workload: Workload, port: int, other_ports: list[int], *, is_shared: bool) -> str:
    numbers = ", ".join(map(str, other_ports[:_MAX_NAMED_LISTENERS]))
    to = numbers if len(other_ports) == 1 else f"one of {numbers}"
    shared = ": without containers, a port of its own choice is for one instance only" * is_shared
    return (
        f"Set {_port_field(workload, port)} to {to}: {workload.name} listens on {numbers}, and the "
        f"{workload.family} says {port}. Or make it listen on the port in the variable PORT{shared}"
    )


def _port_field(workload: Workload, port: int) -> str:
    """Returns the name of the settings field that declares a port."""
    numbers = [declared_port.internal for declared_port in workload.ports]
    return f"ports[{numbers.index(port)}].internal_port" if port in numbers else "internal_port"


def _address_text(listener: ListeningPort) -> str:
    is_long = ":" in listener.address
    return f"[{listener.address}]:{listener.port}" if is_long else f"{listener.address}:{listener.port}"


def _parse_address(digits: str) -> str:
    """Parses an address of a kernel table, in which each four bytes are a little-endian number."""
    raw = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    if len(raw) == 4:
        return str(IPv4Address(raw))
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)
