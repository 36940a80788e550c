"""Opens sockets in networks that Windlass may not enter: the trunk's holder opens them and passes them on.

An ordinary user can enter a network namespace only from the user namespace that owns it, and only in a
single-threaded process. The holder is such a process, and listens on a Unix socket in the installation's
private folder. A request contains the holder of a network and a socket kind; the response contains the open
socket. This module has both the socket server and its client.

Uses the standard library only, because the launcher imports it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from windlass.base.isolation.network import NamespaceHolder, inside


class SocketKind(NamedTuple):
    """Arguments of `socket.socket`."""

    family: int
    type: int
    protocol: int = 0


TCP: Final = SocketKind(socket.AF_INET, socket.SOCK_STREAM)
TCP_6: Final = SocketKind(socket.AF_INET6, socket.SOCK_STREAM)
LISTENER_QUERY: Final = SocketKind(socket.AF_NETLINK, socket.SOCK_RAW, 4)
"""A netlink socket that lists listening sockets (NETLINK_SOCK_DIAG)."""
_KINDS: Final = frozenset({TCP, TCP_6, LISTENER_QUERY})
_TIMEOUT: Final = 0.5
"""The time limit of a blocking request, in seconds."""
_LONG_TIMEOUT: Final = 3.0
_RETRY_PAUSE: Final = 0.01
"""The seconds until the socket server retries to accept a connection."""
_BACKLOG: Final = 4096
_MAX_MESSAGE_BYTES: Final = 512
_MAX_PATH_LENGTH: Final = 100
"""The maximum length of a path in a socket address; a little below the kernel's limit."""


class SocketServerUnavailable(OSError):
    """The socket server does not respond in time."""


# The server, in the holder of the trunk


class SocketServer:
    """Listens on a Unix socket. A client that connects and sends nothing does not delay other clients."""

    def __init__(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with _short_socket_path(path) as name:
            self._listening.bind(name)
        os.chmod(path, 0o600)  # noqa: PTH101
        self._listening.listen(_BACKLOG)
        self._listening.setblocking(False)
        self._clients: dict[int, socket.socket] = {}
        self._waiting = select.poll()
        self._waiting.register(self._listening, select.POLLIN)

    def fileno(self) -> int:
        return self._listening.fileno()

    def watch(self, file: int) -> None:
        """Makes `serve` return the descriptor `file` when it is readable."""
        self._waiting.register(file, select.POLLIN)

    def serve(self, seconds: float) -> set[int]:
        """Handles requests that arrive within this time. Returns watched, readable descriptors."""
        readable = set()
        for file, _ in self._waiting.poll(seconds * 1000):
            if file == self._listening.fileno():
                try:
                    client, _ = self._listening.accept()
                except OSError:  # for example, the machine has too many open files
                    time.sleep(_RETRY_PAUSE)
                    continue
                client.setblocking(False)
                self._clients[client.fileno()] = client
                self._waiting.register(client, select.POLLIN)
            elif file in self._clients:
                self._waiting.unregister(file)
                with self._clients.pop(file) as client, suppress(OSError):
                    _answer_request(client)
            else:
                readable.add(file)
        return readable


def _answer_request(client: socket.socket) -> None:
    try:
        holder, *kind = json.loads(client.recv(_MAX_MESSAGE_BYTES))
        if SocketKind(*kind) not in _KINDS:
            raise ValueError("this kind of socket is not offered")
        network = NamespaceHolder.read(holder).open()
        try:
            with inside(network):
                made = socket.socket(*kind)
        finally:
            os.close(network)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        client.send(f"{error}".encode()[:_MAX_MESSAGE_BYTES])
        return
    with made:
        socket.send_fds(client, [b"+"], [made.fileno()])


# The client, in Windlass's server


def request_socket(holder: NamespaceHolder, kind: SocketKind) -> socket.socket:
    """Returns a socket in a holder's network. Blocks for at most half a second.

    Raises ProcessLookupError if the network has ended, or SocketServerUnavailable.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.settimeout(_TIMEOUT)
        _request_socket(channel, holder, kind)
        try:
            return _receive_socket(channel, kind)
        except TimeoutError as error:
            raise _unavailable() from error


async def request_socket_async(holder: NamespaceHolder, kind: SocketKind) -> socket.socket:
    """Returns a socket in a holder's network, like `request_socket`, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.setblocking(False)
        _request_socket(channel, holder, kind)
        answered = asyncio.Event()
        loop.add_reader(channel, answered.set)
        try:
            async with asyncio.timeout(_LONG_TIMEOUT):
                await answered.wait()
        except TimeoutError as error:
            raise _unavailable() from error
        finally:
            loop.remove_reader(channel)
        return _receive_socket(channel, kind)


def _request_socket(channel: socket.socket, holder: NamespaceHolder, kind: SocketKind) -> None:
    try:
        with _short_socket_path(holder.socket_server) as name:
            channel.connect(name)
        channel.send(json.dumps([str(holder._replace(socket_server="")), *kind]).encode())
    except (BlockingIOError, TimeoutError) as error:
        raise _unavailable() from error
    except OSError as error:
        raise ProcessLookupError(f"the networks of instances have ended: {error.strerror}") from error


def _receive_socket(channel: socket.socket, kind: SocketKind) -> socket.socket:
    try:
        said, files, *_ = socket.recv_fds(channel, _MAX_MESSAGE_BYTES, 1)
    except ConnectionError as error:
        raise ProcessLookupError("the networks of instances have ended") from error
    if not files:
        raise ProcessLookupError(said.decode() or "the networks of instances have ended")
    return socket.socket(*kind, fileno=files[0])


def _unavailable() -> SocketServerUnavailable:
    return SocketServerUnavailable(
        errno.ETIMEDOUT, "the process that holds the networks of instances does not answer"
    )


@contextmanager
def _short_socket_path(path: str) -> Iterator[str]:
    """Yields another path of the same socket, which is short enough for a socket address."""
    if len(os.fsencode(path)) <= _MAX_PATH_LENGTH:
        yield path
        return
    folder, _, name = path.rpartition("/")
    opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)
