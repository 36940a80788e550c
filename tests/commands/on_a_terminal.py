"""Runs a command at a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from tests.tokens import ADMIN


def on_a_terminal(
    *words: str, url: str, typed: str = "", after: str = "", cwd: Path | None = None, **variables: str
) -> str:
    """The output in a terminal, without the colours. `after`: the text is typed when this was asked."""
    ours, theirs = pty.openpty()
    environment = {
        "PATH": os.environ["PATH"],
        "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"],
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        "WINDLASS_URL": url,
        "WINDLASS_TOKEN": ADMIN,
        "COLUMNS": "120",
        "TERM": "dumb",
    } | variables
    with subprocess.Popen(
        [sys.executable, "-m", "windlass", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=cwd,
        start_new_session=True,  # nothing is asked at the terminal of the tests
    ) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # so the end of a terminal is told
            while after.encode() not in seen:
                seen += os.read(ours, 65_536)
            os.write(ours, typed.encode())
            while piece := os.read(ours, 65_536):
                seen += piece
        os.close(ours)
        process.wait()
    return re.sub(r"\x1b\[[0-9;]*m", "", seen.decode()).replace("\r", "")
