"""The processes that have a folder as their home."""

from __future__ import annotations

import signal
from pathlib import Path

EXITING = 0x4  # PF_EXITING of the kernel


def is_killed(process: Path) -> bool:
    """True for a process that does nothing any more, although the kernel has not ended it yet."""
    status = process.joinpath("status").read_text()
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line[3:6] == "Pnd"]
    flags = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[6])
    return bool(flags & EXITING) or any(signals & 1 << (signal.SIGKILL - 1) for signals in pending)


def processes_of(home: Path) -> list[str]:
    """The command lines of everything that runs with this folder as its home, and was not killed."""
    wanted = b"HOME=" + bytes(home.absolute())
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in each.joinpath("environ").read_bytes().split(b"\0") and not is_killed(each):
                found.append(each.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile, or belongs to another user
    return found
