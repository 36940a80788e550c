"""Ends the processes of a container that the engine cannot end.

The start of a command in a container hangs if a program has replaced `/etc/passwd` by a FIFO. Meanwhile, the
engine holds locks without which it neither describes nor ends the container. It goes on once the processes
are gone.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

_ID_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


def kill_processes(container: str, proc: Path = Path("/proc")) -> int:
    """Kills the processes in the control groups of a container, given by its id. Returns their number; 0 if
    the engine runs elsewhere, or if Windlass may not kill them."""
    killed = 0
    if not _ID_PATTERN.fullmatch(container):
        return killed
    for process in proc.glob("[0-9]*"):
        with suppress(OSError):
            if container in (process / "cgroup").read_text():
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
    return killed
