"""The position up to which a container's output was read, so that no line is lost or repeated.

The engine can return the lines since a time, but it cannot distinguish lines with equal times, or lines that
the container's two streams wrote out of order. A position therefore consists of a time in the past
(`anchor`), the number of lines read since then (`count`), and the time of the latest line read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.log import log

_log = log("engines.docker")
_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_POSITION_BYTES: Final = 256
"""Fixed size of a stored position in bytes. A single write overwrites the previous position, so that a killed
process never leaves a partial one."""

MAX_DISORDER_MS: Final = 2_000
"""Milliseconds within which lines may be out of order."""


class Position(Struct):
    anchor: str = ""
    """The time from which lines are counted, in the engine's format; empty before the first line."""
    count: int = 0
    latest: str = ""


def is_container_id(id: object) -> bool:
    """Returns whether an id is safe as a file name. The engine is not trusted."""
    return isinstance(id, str) and _ID_PATTERN.fullmatch(id) is not None


class Positions:
    """Stores the positions, in one file per container, named after the container id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    def load(self, container: str) -> Position:
        """Returns the stored position. If it is missing or unreadable, lines are repeated rather than
        lost."""
        try:
            return msgspec.json.decode(self._file(container).read_bytes().rstrip(), type=Position)
        except msgspec.ValidationError as error:
            extra = {"container": container, "why": str(error)}
            _log.warning(
                "log lines may be repeated: another version recorded how far the output was read", extra=extra
            )
            return Position()
        except (FileNotFoundError, msgspec.DecodeError):  # never read, or the power failed just then
            return Position()

    def save(self, container: str, position: Position) -> None:
        if container not in self._open:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._open[container] = os.open(self._file(container), os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(self._open[container], msgspec.json.encode(position).ljust(_POSITION_BYTES), 0)

    def let_go(self, container: str) -> None:
        if (opened := self._open.pop(container, None)) is not None:
            os.close(opened)

    def forget(self, container: str) -> None:
        self.let_go(container)
        self._file(container).unlink(missing_ok=True)

    def forget_others(self, kept_containers: set[str]) -> None:
        for path in list(self._folder.glob("*")):
            if path.name not in kept_containers:
                self.forget(path.name)

    def _file(self, container: str) -> Path:
        if not is_container_id(container):
            raise ValueError("the id of a container would lead to a file elsewhere")
        return self._folder / container
