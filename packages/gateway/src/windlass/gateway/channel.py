"""A Unix socket connection that carries messages with file descriptors, for example between a gateway and its
successor."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from windlass.base.received_files import receive_files
from windlass.gateway.messages import encode

M = TypeVar("M")

_MAX_MESSAGE_BYTES: Final = 128 * 1024
MAX_FILES: Final = 200
"""Maximum number of file descriptors in one message. The kernel allows 253."""


class Channel(Generic[M]):
    def __init__(
        self,
        connection: socket.socket,
        messages: msgspec.msgpack.Decoder[M],
        received: Callable[[M, Sequence[int]], None],
        lost: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._messages = messages
        self._received, self._lost = received, lost
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[bytes, Sequence[int]]] = deque()
        self._closed = False
        self._loop.add_reader(connection.fileno(), self._read)

    def send(self, message: object, files: Sequence[int] = ()) -> None:
        """Queues a message with file descriptors. The channel closes these descriptors as soon as the message
        is sent."""
        body = encode(message)
        if len(body) > _MAX_MESSAGE_BYTES:
            raise ValueError(
                f"send less than {len(body)} bytes in one message: the other side takes {_MAX_MESSAGE_BYTES}"
            )
        self._waiting.append((body, files))
        if len(self._waiting) == 1:
            self._write()

    def _write(self) -> None:
        while self._waiting:
            body, files = self._waiting[0]
            try:
                socket.send_fds(self._connection, [body], files)
            except BlockingIOError:
                self._loop.add_writer(self._connection.fileno(), self._write)
                return
            except OSError:
                self.close()
                return
            self._waiting.popleft()
            _close(files)
        self._loop.remove_writer(self._connection.fileno())

    def _read(self) -> None:
        try:
            body, files = receive_files(self._connection, _MAX_MESSAGE_BYTES, MAX_FILES)
        except BlockingIOError:
            return
        except OSError:
            body, files = b"", []
        if not body:
            self.close()
            return
        self._received(self._messages.decode(body), files)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._connection.fileno())
        self._loop.remove_writer(self._connection.fileno())
        self._connection.close()
        for _, files in self._waiting:
            _close(files)
        self._waiting.clear()
        self._lost()


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
