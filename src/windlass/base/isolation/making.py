"""Sockets of networks that the server may not enter itself: the keeper of the trunk makes them for it.

An ordinary user enters a network only from the user namespace that owns it, and only with a single thread. So
that keeper listens at a socket in the private folder of the installation: it gets the process that keeps a
network and a kind of socket, and answers with the socket. This file has both sides.

With the standard library alone, because the launcher uses it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from windlass.base.isolation.network import NetworkKeeper, inside


class SocketKind(NamedTuple):
    """The arguments of `socket.socket`."""

    family: int
    type: int
    protocol: int = 0


TCP: Final = SocketKind(socket.AF_INET, socket.SOCK_STREAM)
TCP_6: Final = SocketKind(socket.AF_INET6, socket.SOCK_STREAM)
LISTENERS: Final = SocketKind(socket.AF_NETLINK, socket.SOCK_RAW, 4)
"""A connection to the kernel that tells who listens (NETLINK_SOCK_DIAG)."""
_KINDS: Final = frozenset({TCP, TCP_6, LISTENERS})
_PATIENCE: Final = 0.5
"""Seconds that a caller which cannot do anything else meanwhile waits."""
_LONG_PATIENCE: Final = 3.0
_BACKLOG: Final = 4096
_LONGEST: Final = 512
_LONGEST_NAME: Final = 100
"""Bytes of the address of a socket, nearly."""


class MakerAway(OSError):
    """No socket could be made in the network of an instance."""


# The side of the keeper


class SocketMaker:
    """Listens at a path. A caller that connects and says nothing holds up no other."""

    def __init__(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with _short(path) as name:
            self._listening.bind(name)
        os.chmod(path, 0o600)  # noqa: PTH101
        self._listening.listen(_BACKLOG)
        self._listening.setblocking(False)
        self._callers: dict[int, socket.socket] = {}
        self._waiting = select.poll()
        self._waiting.register(self._listening, select.POLLIN)

    def fileno(self) -> int:
        return self._listening.fileno()

    def watch(self, file: int) -> None:
        """Has `serve` return when this descriptor is readable."""
        self._waiting.register(file, select.POLLIN)

    def serve(self, seconds: float) -> set[int]:
        """Answers those who call within some time. Returns the watched descriptors that are readable."""
        readable = set()
        for file, _ in self._waiting.poll(seconds * 1000):
            if file == self._listening.fileno():
                with suppress(OSError):
                    caller, _ = self._listening.accept()
                    caller.setblocking(False)
                    self._callers[caller.fileno()] = caller
                    self._waiting.register(caller, select.POLLIN)
            elif file in self._callers:
                self._waiting.unregister(file)
                with self._callers.pop(file) as caller, suppress(OSError):
                    _answer(caller)
            else:
                readable.add(file)
        return readable


def _answer(caller: socket.socket) -> None:
    try:
        keeper, *kind = json.loads(caller.recv(_LONGEST))
        if SocketKind(*kind) not in _KINDS:
            raise ValueError("no socket of this kind is made")
        network = NetworkKeeper.read(keeper).open()
        try:
            with inside(network):
                made = socket.socket(*kind)
        finally:
            os.close(network)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        caller.send(f"{error}".encode()[:_LONGEST])
        return
    with made:
        socket.send_fds(caller, [b"+"], [made.fileno()])


# The side of the server


def make(keeper: NetworkKeeper, kind: SocketKind) -> socket.socket:
    """Returns a socket of the network of a keeper. Waits, but not for long. Raises ProcessLookupError if the
    network has ended, and MakerAway."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
        asked.settimeout(_PATIENCE)
        _ask(asked, keeper, kind)
        try:
            return _made(asked, kind)
        except TimeoutError as error:
            raise _hangs() from error


async def make_waiting(keeper: NetworkKeeper, kind: SocketKind) -> socket.socket:
    """The same, without holding up the event loop."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
        asked.setblocking(False)
        _ask(asked, keeper, kind)
        answered = asyncio.Event()
        loop.add_reader(asked, answered.set)
        try:
            async with asyncio.timeout(_LONG_PATIENCE):
                await answered.wait()
        except TimeoutError as error:
            raise _hangs() from error
        finally:
            loop.remove_reader(asked)
        return _made(asked, kind)


def _ask(asked: socket.socket, keeper: NetworkKeeper, kind: SocketKind) -> None:
    try:
        with _short(keeper.maker) as name:
            asked.connect(name)
        asked.send(json.dumps([str(keeper._replace(maker="")), *kind]).encode())
    except (BlockingIOError, TimeoutError) as error:
        raise _hangs() from error
    except OSError as error:
        raise ProcessLookupError(f"the networks of instances have ended: {error.strerror}") from error


def _made(asked: socket.socket, kind: SocketKind) -> socket.socket:
    try:
        said, files, *_ = socket.recv_fds(asked, _LONGEST, 1)
    except ConnectionError as error:
        raise ProcessLookupError("the networks of instances have ended") from error
    if not files:
        raise ProcessLookupError(said.decode() or "the networks of instances have ended")
    return socket.socket(*kind, fileno=files[0])


def _hangs() -> MakerAway:
    return MakerAway(errno.ETIMEDOUT, "the process that keeps the networks of instances does not answer")


@contextmanager
def _short(path: str) -> Iterator[str]:
    """A name of the path that is short enough for the address of a socket."""
    if len(os.fsencode(path)) <= _LONGEST_NAME:
        yield path
        return
    folder, _, name = path.rpartition("/")
    opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)
