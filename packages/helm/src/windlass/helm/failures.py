"""Finds the reason of a failed run, and the remedy, in the output of a run. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MAX_LOG_LINES: Final = 100
"""Number of last log lines in which the reason is searched for."""
_REMARK_PREFIX: Final = "windlass: "
_COMMAND_PATTERN: Final = re.compile(r"windlass: helm [a-z -]+$")
_ERROR_PATTERN: Final = re.compile(r"Error: (.+)")


def explain_output(lines: Sequence[str]) -> str:
    """Returns the last remark of the launcher, or else the last error of Helm. Returns an empty string if the
    output contains neither."""
    for line in reversed(lines):
        if line.startswith(_REMARK_PREFIX) and not _COMMAND_PATTERN.match(line):
            remark = line.removeprefix(_REMARK_PREFIX)
            return remark[:1].upper() + remark[1:]
        if match := _ERROR_PATTERN.match(line):
            return f"Look at its log: {match[1]}"
    return ""
