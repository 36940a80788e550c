"""Reads the kernel's information about processes. A pid alone is not trusted, because pids are reused."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.isolation.calls import mount_path
from windlass.base.live_thread import has_ended, live_thread
from windlass.base.process_memory import resident
from windlass.base.repeated_measurement import MOST_LOOKS, newest_first

TICK: Final = 1000 // os.sysconf("SC_CLK_TCK")
"""Milliseconds of one unit of processor time in /proc."""
_OF_THE_KERNEL: Final = 0x200000
"""PF_KTHREAD: a thread of the kernel, which never runs a program."""
_MARKED: Final = 64 << 10
"""Bytes at the beginning of an environment in which marks of Windlass are looked for."""
_MOUNTS: Final = 256 << 10
"""Bytes of a table of mounts that are looked through. A cell's own mounts are at its beginning."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")

libc: Final = ctypes.CDLL(None, use_errno=True)


class Process(Struct, frozen=True):
    """Identifies a process: no two have the same pid, start time and boot of the machine."""

    pid: int
    start: int
    boot: str


class Stat(Struct, frozen=True, gc=False):
    """The fields of /proc/<pid>/stat that are used."""

    pid: int
    parent: int
    session: int
    start: int
    cpu: int
    """CPU time in ticks, including that of reaped children."""
    memory: int
    """Bytes resident, shared ones included."""
    threads: int
    thread: int
    """The number under which /proc shows what it has: its own, unless its first thread has ended."""
    dead: bool
    """True if the process has ended; it may not have been reaped yet."""


@cache
def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> Stat | None:
    """Returns None if there is no such process, or if it is a thread of the kernel."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 (called for every process)
            line = file.read(2048)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program comes second and may hold blanks and parentheses.
    words = line[line.rindex(b")") + 2 :].split()
    if int(words[6]) & _OF_THE_KERNEL:
        return None
    threads, ended = int(words[17]), has_ended(words)
    lost_first = ended and threads > 1
    return Stat(
        pid=pid,
        parent=int(words[1]),
        session=int(words[3]),
        start=int(words[19]),
        cpu=sum(map(int, words[11:15])),
        memory=resident(pid) if lost_first else int(words[21]) * PAGE,
        threads=threads,
        thread=live_thread(pid) if lost_first else pid,
        # A first thread that ended while other threads run looks like a zombie, too. A process that is ending
        # runs no code any more, but may have to wait until others are reaped.
        dead=ended and not lost_first,
    )


def all_processes() -> list[Stat]:
    """Returns all processes, the oldest first."""
    return [*new_processes(set())][::-1]


def new_processes(seen: set[int]) -> Iterator[Stat]:
    """Yields the processes whose number is not in `seen`, the newest first, and adds their numbers. Lists
    again if one has ended before it was read: it may have started a child after the list."""
    for _ in range(MOST_LOOKS):
        has_lost = False
        for pid in newest_first():
            if pid in seen:
                continue
            seen.add(pid)
            if process := stat(pid):
                has_lost = has_lost or process.dead
                yield process
            else:
                has_lost = has_lost or not os.path.exists(f"/proc/{pid}")  # noqa: PTH110 (of thousands)
        if not has_lost:
            return


def identify(pid: int) -> Process | None:
    process = stat(pid)
    return Process(pid, process.start, boot()) if process else None


def current_process() -> Process:
    return identify(os.getpid()) or Process(os.getpid(), 0, "")


def can_identify_processes() -> bool:
    """Returns whether this is a Linux that can identify processes."""
    return hasattr(os, "pidfd_open") and Path("/proc/self/stat").exists()


def is_running(process: Process | None) -> bool:
    if process is None or process.boot != boot():
        return False
    present = stat(process.pid)
    return present is not None and present.start == process.start and not present.dead


def handle(pid: int, start: int) -> int | None:
    """Returns a pidfd of this process, which is readable once it has ended; None if the process is gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    process = stat(pid)
    if process is not None and process.start == start:
        return fd
    os.close(fd)
    return None


def send(fd: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(fd, number)


def reap(fd: int) -> int | None:
    """Reaps a child and returns its exit code, or the negative number of a signal; None if it still runs or
    is not a child of this process."""
    return status(fd, 0)


def status(fd: int, keep: int = os.WNOWAIT) -> int | None:
    """Returns the same without reaping the child."""
    try:
        status = os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG | keep)
    except ChildProcessError:
        return None
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


def leads_namespace(pid: int) -> bool:
    """Returns whether a process is the first of a process namespace that is a child of ours."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        numbers = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
        return len(numbers) == 2 and numbers[1] == "1"
    return False


def user(pid: int) -> int | None:
    """Returns the real user of a process; None if the process is gone."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Uid:")).split()[1])
    return None


def process_namespace(pid: int) -> int:
    """Returns the number of its process namespace; 0 if it is not readable, or the process is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino  # noqa: PTH116 (called for every process)
    except OSError:
        return 0


def environment(pid: int) -> dict[bytes, bytes]:
    """Returns the environment that it was started with; empty for a process that is gone or of another
    user."""
    words = _environ(pid, -1).split(b"\0")
    return {name: value for name, separator, value in (word.partition(b"=") for word in words) if separator}


def marks(pid: int, names: Iterable[str]) -> dict[str, bytes] | None:
    """Returns those of these variables that stand at the beginning of its environment, where Windlass puts
    its own. The rest is not read: a program may have megabytes of it. None if it cannot be read."""
    start = _environ(pid, _MARKED)
    if not start:
        return None
    found = {}
    for name in names:
        _, separator, rest = (b"\0" + start).partition(f"\0{name}=".encode())
        value, end, _ = rest.partition(b"\0")
        if separator and end:
            found[name] = value
    return found


def _environ(pid: int, most: int) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 (as above)
        return file.read(most)
    return b""


def mount_points(pid: int) -> Iterator[Path]:
    """Yields the first mount points that a process sees; nothing for one that is gone or of another user."""
    with suppress(OSError), open(f"/proc/{pid}/mountinfo", "rb") as file:  # noqa: PTH123 (as above)
        for line in file.readlines(_MOUNTS):
            yield Path(os.fsdecode(mount_path(line)))


def touches(pid: int, folder: Path) -> bool:
    """Returns whether the process has its working folder or its output below this folder."""
    for name in ("cwd", "fd/1", "fd/2"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/{name}").readlink().is_relative_to(folder):
                return True
    return False
