"""A netlink client for interfaces, addresses, routes and packet filters in the network of this thread.

Uses the standard library only, because the launcher imports it.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

_ROUTES, _FILTERS = 0, 12
"""The netlink protocols NETLINK_ROUTE and NETLINK_NETFILTER."""
_REQUEST, _ACK, _EXCL, _CREATE, _REPLACE, _APPEND = 0x1, 0x4, 0x200, 0x400, 0x100, 0x800
_NESTED: Final = 0x8000
_ERROR: Final = 2
_HEAD: Final = struct.Struct("=IHHII")

_NEW_LINK, _DELETE_LINK, _GET_LINK, _NEW_ADDRESS, _NEW_ROUTE, _GET_ROUTE = 16, 17, 18, 20, 24, 26
_NEW_NEIGHBOUR: Final = 28
_DUMP: Final = 0x300
_DONE: Final = 3
ROUTES_CHANGE: Final = 0x40
"""The multicast group that notifies of changes of IPv4 routes."""
_ADDRESS, _IFNAME, _MASTER, _LINK_INFO, _GROUP, _NS_FD = 1, 3, 10, 18, 27, 28
_UP: Final = 1
_MAIN_TABLE: Final = 254
LOCAL_TABLE: Final = 255
"""The routing table with the machine's own addresses, which the kernel searches first."""
_BOOT: Final = 3
_UNIVERSE, _LINK, _HOST = 0, 253, 254
_UNICAST, _LOCAL, _BROADCAST, _ANYCAST = 1, 2, 3, 4
_PERMANENT: Final = 0x80
OUTER, INNER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
"""The hardware addresses of a veth pair: of the interface created here, and of its peer."""


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)


def _nested_attribute(kind: int, *parts: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(parts))


def _text_attribute(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number_attribute(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _link_message(index: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=BxHiII", 0, 0, index, flags, flags)


def _attributes(raw: bytes) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(raw):
        (length,) = struct.unpack_from("=H", raw, at)
        yield raw[at : at + length]
        at += max(4, (length + 3) & ~3)


class Netlink:
    """A netlink socket. It belongs to the network that this thread was in when it was created."""

    def __init__(self, protocol: int = _ROUTES, groups: int = 0) -> None:
        """`groups`: the multicast groups to subscribe to."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        if groups:
            self._socket.bind((0, groups))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, kind: int, flags: int, body: bytes) -> None:
        """Sends a request and waits for its acknowledgement. Raises an OSError if the kernel refuses it."""
        self._send([(kind, flags | _ACK, body)])
        self._expect(1)

    def _send(self, messages: Iterable[tuple[int, int, bytes]]) -> None:
        packets = []
        for kind, flags, body in messages:
            self._sequence += 1
            head = _HEAD.pack(_HEAD.size + len(body), kind, _REQUEST | flags, self._sequence, 0)
            packets.append(head + body)
        self._socket.send(b"".join(packets))

    def _expect(self, answers: int) -> None:
        while answers:
            raw, at = self._socket.recv(64 * 1024), 0
            while at < len(raw):
                length, kind, *_ = _HEAD.unpack_from(raw, at)
                if kind == _ERROR:
                    (number,) = struct.unpack_from("=i", raw, at + _HEAD.size)
                    if number:
                        raise OSError(-number, os.strerror(-number))
                    answers -= 1
                at += (length + 3) & ~3

    def _dump(self, message_type: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """Requests a list. Yields the type and the body of each message in the response."""
        self._send([(message_type, _DUMP, body)])
        while True:
            raw, at = self._socket.recv(64 * 1024), 0
            while at < len(raw):
                length, kind, *_ = _HEAD.unpack_from(raw, at)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    (number,) = struct.unpack_from("=i", raw, at + _HEAD.size)
                    raise OSError(-number, os.strerror(-number))
                yield kind, raw[at + _HEAD.size : at + length]
                at += (length + 3) & ~3

    # Interfaces, addresses, routes

    def make_pair(self, name: str, peer: str, network: int, group: int = 0) -> None:
        """Creates a veth pair: one interface in this network, and its peer in another network.

        `network`: a descriptor of the peer's network. `group`: the interface group of the interface here.
        """
        there = (
            _link_message()
            + _text_attribute(_IFNAME, peer)
            + _number_attribute(_NS_FD, network)
            + _attribute(_ADDRESS, INNER)
        )
        info = _nested_attribute(
            _LINK_INFO, _text_attribute(1, "veth"), _nested_attribute(2, _nested_attribute(1, there))
        )
        own = _text_attribute(_IFNAME, name) + _number_attribute(_GROUP, group) + _attribute(_ADDRESS, OUTER)
        self.ask(_NEW_LINK, _CREATE | _EXCL, _link_message() + own + info)

    def remove(self, name: str) -> None:
        self.ask(_DELETE_LINK, 0, _link_message() + _text_attribute(_IFNAME, name))

    def raise_link(self, name: str) -> None:
        self.ask(_NEW_LINK, 0, _link_message(socket.if_nametoindex(name), _UP))

    def add_address(self, name: str, address: str, prefix: int) -> None:
        raw = socket.inet_aton(address)
        head = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, _UNIVERSE, socket.if_nametoindex(name))
        self.ask(_NEW_ADDRESS, _CREATE | _EXCL, head + _attribute(2, raw) + _attribute(1, raw))

    def add_neighbour(self, name: str, address: str, hardware: bytes) -> None:
        """Adds a permanent neighbour, so that the kernel does not resolve the address.

        Permanent neighbours do not count towards the machine-wide limit of neighbours, and work when the
        limit is reached.
        """
        index = socket.if_nametoindex(name)
        head = struct.pack("=BxxxiHBB", socket.AF_INET, index, _PERMANENT, 0, 0)
        to = _attribute(1, socket.inet_aton(address)) + _attribute(2, hardware)
        self.ask(_NEW_NEIGHBOUR, _CREATE | _REPLACE, head + to)

    def route(self, target: str, prefix: int, name: str, via: str = "", table: int = _MAIN_TABLE) -> None:
        """Routes an address range through an interface. Replaces an existing route."""
        scope = _UNIVERSE if via else _LINK
        extra = _attribute(5, socket.inet_aton(via)) if via else b""
        self._add_route(
            target, prefix, table, scope, _UNICAST, _number_attribute(4, socket.if_nametoindex(name)) + extra
        )

    def own(self, target: str, prefix: int) -> None:
        """Makes a whole address range local, so that programs can listen on each address."""
        index = _number_attribute(4, socket.if_nametoindex("lo"))
        self._add_route(target, prefix, LOCAL_TABLE, _HOST, _LOCAL, index)

    def own_networks(self) -> list[str]:
        """Returns all local addresses, as networks. Discards pending notifications first."""
        with suppress(BlockingIOError):
            while True:
                with suppress_overrun():
                    self._socket.recv(64 * 1024, socket.MSG_DONTWAIT)
        routes = self._dump(_GET_ROUTE, struct.pack("=B11x", socket.AF_INET))
        networks = (_local_network(body) for kind, body in routes if kind == _NEW_ROUTE)
        return list(dict.fromkeys(filter(None, networks)))

    def count_members(self, bridge: str) -> int:
        """Returns the number of interfaces of a bridge. Raises an OSError if the bridge does not exist."""
        wanted = _number_attribute(_MASTER, socket.if_nametoindex(bridge))
        links = [body for kind, body in self._dump(_GET_LINK, _link_message()) if kind == _NEW_LINK]
        return sum(wanted in _attributes(body[len(_link_message()) :]) for body in links)

    def read_tables(self) -> Iterator[str]:
        """Yields the names of all packet filter tables."""
        for _, body in self._dump(_TABLES << 8 | _GET_TABLE, struct.pack(">BBH", _IPV4, 0, 0)):
            size, _ = struct.unpack_from("=HH", body, 4)  # the first attribute is the name
            yield body[8 : 3 + size].decode()

    def _add_route(
        self, target: str, prefix: int, table: int, scope: int, kind: int, attributes: bytes
    ) -> None:
        head = struct.pack("=BBBBBBBBI", socket.AF_INET, prefix, 0, 0, table, _BOOT, scope, kind, 0)
        to = _attribute(1, socket.inet_aton(target)) if prefix else b""
        self.ask(_NEW_ROUTE, _CREATE | _REPLACE, head + to + attributes)


def _local_network(route: bytes) -> str | None:
    """Returns the target of a route to a local address; None for other routes."""
    _, length, _, _, table, _, _, kind = struct.unpack_from("=8B", route)
    at = 12
    while table == LOCAL_TABLE and kind in (_LOCAL, _BROADCAST, _ANYCAST) and at < len(route):
        size, attribute = struct.unpack_from("=HH", route, at)
        if attribute == 1:
            return f"{socket.inet_ntoa(route[at + 4 : at + 8])}/{length}"
        at += (size + 3) & ~3
    return None


@contextmanager
def suppress_overrun() -> Iterator[None]:
    """Ignores the error that notifications were lost because the socket's buffer was full."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOBUFS:
            raise


# Packet filters (nf_tables). Numbers in their messages are big-endian.

_TABLES: Final = 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEW_TABLE, _GET_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE, _NEW_SET = 0, 1, 2, 3, 6, 9
_IPV4: Final = 2
_HOOKS: Final = {
    "input": (1, 0),
    "forward": (2, 0),
    "counted": (2, 1),
    "output": (3, 0),
    "postrouting": (4, 100),
}
"""The hook and the priority of each chain. `counted` receives the packets that `forward` has accepted."""
DROP, ACCEPT = 0, 1
_STATE_KNOWN: Final = 2 | 4
_RANDOM_PORTS: Final = 2 | 16
_STATE_NEW: Final = 8
"""Bits of connection states (established and related; new), and of port options for masquerading."""
_ARRIVAL_GROUP: Final = 21
_GROWS: Final = 0x20
"""NFT_SET_EVAL: packets can add elements to the set."""

Rule = Sequence[bytes]
"""The expressions of a rule: conditions, and the verdict for packets that meet all conditions."""


def _big_endian_attribute(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">I", value))


def _nft_expression(name: str, *data: bytes) -> bytes:
    return _nested_attribute(1, _text_attribute(1, name), _nested_attribute(2, *data))


def _compare_expression(value: bytes, *, inverted: bool = False) -> bytes:
    return _nft_expression(
        "cmp",
        _big_endian_attribute(1, 1),
        _big_endian_attribute(2, int(inverted)),
        _nested_attribute(3, _attribute(1, value)),
    )


def _bitwise_expression(mask: bytes, added: bytes = b"") -> bytes:
    """Keeps the bits in `mask` and sets the bits in `added`."""
    parts = (
        _big_endian_attribute(1, 1),
        _big_endian_attribute(2, 1),
        _big_endian_attribute(3, len(mask)),
        _nested_attribute(4, _attribute(1, mask)),
    )
    return _nft_expression("bitwise", *parts, _nested_attribute(5, _attribute(1, added or b"\0" * len(mask))))


def arrives_by(name: str, *, inverted: bool = False) -> Rule:
    return _match_interface(6, name, inverted)


def leaves_by(name: str, *, inverted: bool = False) -> Rule:
    return _match_interface(7, name, inverted)


def _match_interface(key: int, name: str, inverted: bool) -> Rule:
    return (
        _nft_expression("meta", _big_endian_attribute(1, 1), _big_endian_attribute(2, key)),
        _compare_expression(name.encode().ljust(16, b"\0"), inverted=inverted),
    )


def is_known() -> Rule:
    """Matches packets of established or related connections."""
    bits = struct.pack("=I", _STATE_KNOWN)
    state = _nft_expression("ct", _big_endian_attribute(1, 1), _big_endian_attribute(2, 0))
    return (state, _bitwise_expression(bits), _compare_expression(b"\0\0\0\0", inverted=True))


def exceeds(connections: int) -> Rule:
    """Matches the first packet of a connection if more than `connections` connections match this rule."""
    return (*_is_new(), _nft_expression("connlimit", *_match_over_limit(connections)))


def exceeds_in_group(groups: str, connections: int) -> Rule:
    """Matches the first packet of a connection if its interface group has more connections than allowed.

    `groups`: the name of the table's set that counts connections by the group of the incoming interface.
    """
    count = _nested_attribute(
        7, _text_attribute(1, "connlimit"), _nested_attribute(2, *_match_over_limit(connections))
    )
    return (
        *_is_new(),
        _nft_expression("meta", _big_endian_attribute(1, 1), _big_endian_attribute(2, _ARRIVAL_GROUP)),
        _nft_expression(
            "dynset",
            _text_attribute(1, groups),
            _big_endian_attribute(3, 0),
            _big_endian_attribute(4, 1),
            count,
        ),
    )


def _is_new() -> Rule:
    state = _nft_expression("ct", _big_endian_attribute(1, 1), _big_endian_attribute(2, 0))
    return (
        state,
        _bitwise_expression(struct.pack("=I", _STATE_NEW)),
        _compare_expression(b"\0\0\0\0", inverted=True),
    )


def _match_over_limit(connections: int) -> Sequence[bytes]:
    return _big_endian_attribute(1, connections), _big_endian_attribute(2, 1)


def goes_to(network: str) -> Rule:
    """Matches packets to an IPv4 network, such as 10.0.0.0/8."""
    return _match_address(16, network)


def comes_from(network: str) -> Rule:
    return _match_address(12, network)


def _match_address(offset: int, network: str) -> Rule:
    address, _, length = network.partition("/")
    mask = (0xFFFFFFFF << (32 - int(length or 32)) & 0xFFFFFFFF).to_bytes(4, "big")
    field = _nft_expression(
        "payload",
        _big_endian_attribute(1, 1),
        _big_endian_attribute(2, 1),
        _big_endian_attribute(3, offset),
        _big_endian_attribute(4, 4),
    )
    return (field, _bitwise_expression(mask), _compare_expression(socket.inet_aton(address)))


def goes_by(router: str) -> Rule:
    """Matches packets with this address as their next hop."""
    return (
        _nft_expression("rt", _big_endian_attribute(1, 1), _big_endian_attribute(2, 1)),
        _compare_expression(socket.inet_aton(router)),
    )


def has_protocol(protocol: int) -> Rule:
    return (
        _nft_expression("meta", _big_endian_attribute(1, 1), _big_endian_attribute(2, 16)),
        _compare_expression(bytes([protocol])),
    )


def goes_to_port(protocol: int, port: int) -> Rule:
    return (
        *has_protocol(protocol),
        _nft_expression(
            "payload",
            _big_endian_attribute(1, 1),
            _big_endian_attribute(2, 2),
            _big_endian_attribute(3, 2),
            _big_endian_attribute(4, 2),
        ),
        _compare_expression(port.to_bytes(2, "big")),
    )


def verdict(code: int) -> Rule:
    return (
        _nft_expression(
            "immediate",
            _big_endian_attribute(1, 0),
            _nested_attribute(2, _nested_attribute(2, _big_endian_attribute(1, code))),
        ),
    )


def refuse() -> Rule:
    """Rejects packets with an error message, so that the sender does not wait."""
    return (_nft_expression("reject", _big_endian_attribute(1, 0), _attribute(2, b"\x0d")),)


def masquerade(ports: range | None = None) -> Rule:
    """Replaces the source address by the address of the outgoing interface. With `ports`, also replaces the
    source port by a random port of this range."""
    if ports is None:
        return (_nft_expression("masq"),)
    edges = [
        _nft_expression(
            "immediate",
            _big_endian_attribute(1, number),
            _nested_attribute(2, _attribute(1, port.to_bytes(2, "big"))),
        )
        for number, port in ((1, ports[0]), (2, ports[-1]))
    ]
    return (
        *edges,
        _nft_expression(
            "masq",
            _big_endian_attribute(1, _RANDOM_PORTS),
            _big_endian_attribute(2, 1),
            _big_endian_attribute(3, 2),
        ),
    )


def source_by_group(first: str) -> Rule:
    """Replaces the source address by one of 128 addresses, starting at `first`. The group of the incoming
    interface determines the address."""
    return (
        _nft_expression("meta", _big_endian_attribute(1, 1), _big_endian_attribute(2, _ARRIVAL_GROUP)),
        _bitwise_expression(b"\0\0\0\x7f", socket.inet_aton(first)),
        _nft_expression(
            "nat", _big_endian_attribute(1, 0), _big_endian_attribute(2, _IPV4), _big_endian_attribute(3, 1)
        ),
    )


def write_table(
    name: str,
    chains: Mapping[str, Sequence[Rule]],
    *,
    closed: Iterable[str] = (),
    groups: Iterable[str] = (),
    is_first: bool = False,
) -> None:
    """Replaces a whole table in the network of this thread.

    `chains`: the rules of each chain. `closed`: the chains that drop packets without a matching rule.
    `groups`: the sets for `exceeds_in_group`. `is_first`: whether the table does not exist yet; this saves
    its removal, which takes the kernel 10 ms.
    """
    closed = frozenset(closed)
    messages = [_change(_NEW_TABLE, _CREATE, _text_attribute(1, name))]
    if not is_first:
        messages += [
            _change(_DELETE_TABLE, 0, _text_attribute(1, name)),
            _change(_NEW_TABLE, _CREATE, _text_attribute(1, name)),
        ]
    for number, group in enumerate(groups, 1):
        keys = (
            _big_endian_attribute(3, _GROWS),
            _big_endian_attribute(4, 0),
            _big_endian_attribute(5, 4),
            _big_endian_attribute(10, number),
        )
        messages.append(
            _change(_NEW_SET, _CREATE, _text_attribute(1, name), _text_attribute(2, group), *keys)
        )
    for chain, rules in chains.items():
        hook, priority = _HOOKS[chain]
        at = _nested_attribute(4, _big_endian_attribute(1, hook), _big_endian_attribute(2, priority))
        kind = _text_attribute(7, "nat" if chain == "postrouting" else "filter")
        policy = _big_endian_attribute(5, DROP if chain in closed else ACCEPT)
        messages.append(
            _change(
                _NEW_CHAIN, _CREATE, _text_attribute(1, name), _text_attribute(3, chain), at, policy, kind
            )
        )
        messages += [
            _change(
                _NEW_RULE,
                _CREATE | _APPEND,
                _text_attribute(1, name),
                _text_attribute(2, chain),
                _nested_attribute(4, *rule),
            )
            for rule in rules
        ]
    _commit(messages)


def tables() -> list[str]:
    """Returns the names of all packet filter tables in the network of this thread."""
    with Netlink(_FILTERS) as kernel:
        return list(kernel.read_tables())


def remove_table(name: str) -> None:
    """Removes a table. Does nothing if it does not exist."""
    try:
        _commit([_change(_DELETE_TABLE, 0, _text_attribute(1, name))])
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def _change(kind: int, flags: int, *attributes: bytes) -> tuple[int, int, bytes]:
    return _TABLES << 8 | kind, flags | _ACK, struct.pack(">BBH", _IPV4, 0, 0) + b"".join(attributes)


def _commit(messages: Sequence[tuple[int, int, bytes]]) -> None:
    edge = struct.pack(">BBH", 0, 0, _TABLES)
    with Netlink(_FILTERS) as kernel:
        kernel._send([(_BATCH_BEGIN, 0, edge), *messages, (_BATCH_END, 0, edge)])
        kernel._expect(len(messages))
