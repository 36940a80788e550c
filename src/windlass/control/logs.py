"""Log lines of services: kept in files, one JSON line each, read from the end.

`tail` reads backwards in blocks until it has enough lines, so that it costs the same for a short log
and for a long one. When a file is full it is set aside once; what is older is let go.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from windlass.base import ids
from windlass.base.clock import stamp

_BLOCK = 65_536


class Line(Struct):
    id: str
    created_at: str
    message: str
    pod_name: str = ""
    version: str = ""


class Logs:
    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most

    def write(self, service: str, at: int, *messages: str, pod: str = "windlass", version: str = "") -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(service)
        if path.exists() and path.stat().st_size > self._most // 2:
            path.replace(self._older(service))
        lines = [Line(ids.new_id(), stamp(at), message, pod, version) for message in messages]
        with path.open("a+b") as file:
            _cut_torn_line(file)
            file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def tail(self, service: str, most: int) -> list[bytes]:
        """The last lines, oldest first, as JSON."""
        found = _last_lines(self._path(service), most)
        if len(found) < most:
            found = _last_lines(self._older(service), most - len(found)) + found
        return found

    def forget(self, service: str) -> None:
        for path in (self._path(service), self._older(service)):
            path.unlink(missing_ok=True)

    def _path(self, service: str) -> Path:
        return self._folder / f"{service}.jsonl"

    def _older(self, service: str) -> Path:
        return self._folder / f"{service}.older.jsonl"


def _cut_torn_line(file: BinaryIO) -> None:
    """What a crash or a full disk left of a line would spoil the next one."""
    end = whole = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - (_BLOCK if end < whole else 1))
        file.seek(start)
        end = start + file.read(end - start).rfind(b"\n") + 1
        if end > start:
            break
    if end < whole:
        file.truncate(end)


def _last_lines(path: Path, most: int) -> list[bytes]:
    try:
        file: Any = path.open("rb")
    except FileNotFoundError:
        return []
    with file:
        left, tail = file.seek(0, os.SEEK_END), b""
        while left > 0 and tail.count(b"\n") <= most:
            step = min(_BLOCK, left)
            left -= step
            file.seek(left)
            tail = file.read(step) + tail
    # A line that is still being written has no end yet.
    lines = tail.split(b"\n")[:-1]
    return lines[-most:]
