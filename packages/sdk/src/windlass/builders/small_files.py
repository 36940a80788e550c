"""Reads small, hand-written files of a repository, such as a Procfile, with a size limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from windlass.base.text_encoding import decode_text
from windlass.builders.builder import BuildError

MAX_FILE_BYTES: Final = 4 * 1024**2


def read_small(file: Path) -> bytes:
    """Returns the content of a file. Raises BuildError if it is too long or not a regular file."""
    # A build step may have replaced the file by a pipe, and opening a pipe would block forever.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BuildError(f"Make {file.name} a file: it is something else.")
        content = opened.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise BuildError(f"Shorten {file.name}: it is longer than {MAX_FILE_BYTES // 1024**2} MiB.")
    return content


def read_small_text(file: Path) -> str:
    """Returns the text of a file. Invalid bytes are replaced."""
    return decode_text(read_small(file))
