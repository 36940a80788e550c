"""Reads how a run has ended from the file of its recorder. The program could write anything there, because it
has the same user as the recorder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from windlass.engines.process import open_folders
from windlass.engines.process.files import ONCE
from windlass.engines.process.open_folders import open_below
from windlass.engines.process.recorder import ENDED, Result

_LONGEST: Final = 100
_STATUSES: Final = range(-64, 256)
"""Exit codes, and below them signals."""
_LAST_MOMENT: Final = 253_402_300_799_000
"""The end of the year 9999, in milliseconds."""


def read_result(home: Path) -> Result | None:
    """Returns the recorded end of the program; None if there is none, or if a recorder cannot have written
    it."""
    try:
        with open_below(home / ONCE) as at:
            content = open_folders.read(ENDED, at, _LONGEST + 1)
        if len(content) > _LONGEST:
            return None
        status, moment, *peak = map(int, content.decode("ascii").split())
    except (OSError, ValueError):
        return None
    result = Result(status, moment, peak[0] if peak else 0)
    return result if _is_possible(result) else None


def _is_possible(result: Result) -> bool:
    is_moment = 0 <= result.at <= _LAST_MOMENT
    return result.status in _STATUSES and is_moment and 0 <= result.peak_memory < 1 << 62
