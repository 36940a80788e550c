"""Lines to write into logs, and what logs answer."""

from __future__ import annotations

import json
from pathlib import Path

from windlass.base.segments import ALL_LINES, LineFilter, Segments
from windlass.engines.workload import OutputLine

NOON = 1_790_000_000_000


PLENTY = 1 << 30


SMALL = 64 * 1024


def said(*messages: str, at: int = NOON) -> list[OutputLine]:
    return [OutputLine(at, message) for message in messages]


def numbered(begin: int, end: int, width: int = 0) -> list[OutputLine]:
    return [OutputLine(NOON + number, f"line {number}".ljust(width, ".")) for number in range(begin, end)]


def messages(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["message"] for line in lines]


def whole(log: Segments, stream: str = "a", wanted: LineFilter = ALL_LINES) -> list[str]:
    return messages(log.tail(stream, 1_000_000, wanted))


def names(root: Path, stream: str = "a") -> list[str]:
    return sorted(path.name for path in (root / stream).iterdir())


def newest(root: Path, stream: str = "a") -> Path:
    return root / stream / names(root, stream)[-1]
