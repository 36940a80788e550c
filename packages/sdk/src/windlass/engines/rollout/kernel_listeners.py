"""Finds listening TCP sockets on this machine or in another network namespace.

Netlink returns only listening sockets, within microseconds. The fallback, /proc/net/tcp, scans the table of
all connections.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.isolation.instance_connections import make_socket
from windlass.base.isolation.network import NamespaceHolder
from windlass.base.isolation.socket_server import LISTENER_QUERY
from windlass.engines.rollout.listeners import ListeningPort, listening_sockets, queued_at

_DIAG_BY_FAMILY: Final = 20
_REQUEST_ALL: Final = 0x301
_DONE_MESSAGE: Final = 3
_ERROR_MESSAGE: Final = 2
_LISTEN_STATE: Final = 10
_MESSAGE_HEAD_STRUCT: Final = struct.Struct("=IHHII")
_QUESTION_STRUCT: Final = struct.Struct("=BBBBI48x")
_ANSWER_STRUCT: Final = struct.Struct("!4xH")
_QUEUE_OFFSET: Final = 56
_INODE_OFFSET: Final = 68
"""Offsets in a Netlink answer: the number of connections that wait to be accepted, and the inode."""

Listened = Mapping[int, set[int]]
"""Socket inodes by port."""


def read_listeners(network: str = "") -> Listened:
    """Returns the listening sockets of a network namespace; empty for the machine's own."""
    inodes: dict[int, set[int]] = {}
    try:
        for port, inode, _ in _read_sockets(network):
            inodes.setdefault(port, set()).add(inode)
    except OSError:
        return _listeners_from_tables(_process_in(network))
    return inodes


def queued(port: int, network: str = "") -> int | None:
    """Returns the number of connections to a port that wait to be accepted; None if no socket listens
    there."""
    try:
        queues = [queue for number, _, queue in _read_sockets(network) if number == port]
    except OSError:
        return queued_at("".join(_read_table_texts(_process_in(network))), port)
    return sum(queues) if queues else None


def _process_in(network: str) -> int | str:
    return NamespaceHolder.read(network).pid if network else "self"


def _read_sockets(network: str) -> Iterator[tuple[int, int, int]]:
    """Yields port, inode and queue length of each listening socket."""
    with make_socket(network, LISTENER_QUERY) as asked:
        for family in (socket.AF_INET, socket.AF_INET6):
            yield from _query_kernel(asked, family)


def sockets(pids: Iterable[int]) -> set[int]:
    """Returns the inodes of all open sockets of processes."""
    ports: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    link = os.readlink(entry.path)  # noqa: PTH115 (there may be thousands)
                    if link.startswith("socket:["):
                        ports.add(int(link[8:-1]))
    return ports


def _query_kernel(netlink_socket: socket.socket, family: int) -> Iterator[tuple[int, int, int]]:
    question = _QUESTION_STRUCT.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _LISTEN_STATE)
    netlink_socket.send(
        _MESSAGE_HEAD_STRUCT.pack(
            _MESSAGE_HEAD_STRUCT.size + len(question), _DIAG_BY_FAMILY, _REQUEST_ALL, 0, 0
        )
        + question
    )
    while True:
        raw, at = netlink_socket.recv(64 * 1024), 0
        while at < len(raw):
            length, kind, *_ = _MESSAGE_HEAD_STRUCT.unpack_from(raw, at)
            if kind == _DONE_MESSAGE:
                return
            if kind == _ERROR_MESSAGE:
                raise OSError("the kernel does not list listeners")
            body = at + _MESSAGE_HEAD_STRUCT.size
            (port,) = _ANSWER_STRUCT.unpack_from(raw, body)
            (queue,) = struct.unpack_from("=I", raw, body + _QUEUE_OFFSET)
            (inode,) = struct.unpack_from("=I", raw, body + _INODE_OFFSET)
            yield port, inode, queue
            at += (length + 3) & ~3


def listeners_of(pids: Sequence[int]) -> list[ListeningPort]:
    """Returns the listening ports of processes, in the network namespace of the first process."""
    owned = sockets(pids)
    return sorted({listener for pid in pids[:1] for listener, inode in _read_tables(pid) if inode in owned})


def _listeners_from_tables(process: int | str) -> Listened:
    inodes: dict[int, set[int]] = {}
    for listener, inode in _read_tables(process):
        inodes.setdefault(listener.port, set()).add(inode)
    return inodes


def _read_tables(process: int | str) -> Iterator[tuple[ListeningPort, int]]:
    """Yields the listening ports in the network namespace of a process, each with the inode of its socket."""
    for text in _read_table_texts(process):
        yield from listening_sockets(text)


def _read_table_texts(process: int | str) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):
            yield Path(f"/proc/{process}/net/{table}").read_text()
