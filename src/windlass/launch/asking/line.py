"""A connection that is read by the byte, and that says what is wrong in words."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from types import TracebackType

HOST = "127.0.0.1"


class NotReady(Exception):
    """It cannot be used now; the message says why."""


class Line:
    def __init__(self, port: int, seconds: float) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=seconds)
        self._from = self._socket.makefile("rb")

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._from.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def take(self, size: int) -> bytes:
        data = self._from.read(size)
        if len(data) < size:
            raise NotReady("the server hung up before it had answered")
        return data

    def take_line(self) -> bytes:
        line = self._from.readline(65_536)
        if not line.endswith(b"\r\n"):
            raise NotReady("the server hung up before it had answered")
        return line[:-2]


Ask = Callable[[Line, Mapping[str, str]], None]
"""Returns if the database can be used by whom its variables name, and raises NotReady if not."""


def said(variables: Mapping[str, str], *names: str, otherwise: str = "") -> str:
    """The first of these that is set."""
    return next((variables[name] for name in names if variables.get(name)), otherwise)


def size_of(data: bytes, most: int) -> int:
    """Checked, because whoever listens there may be somebody else, and say anything."""
    size = int.from_bytes(data, "big")
    if not 0 <= size <= most:
        raise NotReady("what answers there is another kind of server")
    return size
