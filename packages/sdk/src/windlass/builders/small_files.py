"""Reads files of a repository that a person writes, such as a Procfile: never more than a sensible length."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from windlass.builders.builder import BuildError

LONGEST: Final = 4 * 1024**2


def read_small(file: Path) -> bytes:
    """Returns the content of a file. Raises BuildError if it is longer than such files are."""
    # A step of a build may have put a pipe there, for which we would wait for ever.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BuildError(f"Make {file.name} a file: it is something else.")
        content = opened.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise BuildError(f"Shorten {file.name}: it is longer than {LONGEST // 1024**2} MiB.")
    return content


def read_small_text(file: Path) -> str:
    """Returns the text of a file; bytes that are no text are replaced."""
    return read_small(file).decode("utf-8-sig", errors="replace")
