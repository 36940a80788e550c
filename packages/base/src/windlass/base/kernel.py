"""Reads the kernel's information about processes. A pid alone identifies no process: pids are reused."""

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
from windlass.base.repeated_measurement import MAX_SCANS, newest_first

TICK_MS: Final = 1000 // os.sysconf("SC_CLK_TCK")
"""The length of a clock tick, the unit of processor time in /proc, in milliseconds."""
_OF_THE_KERNEL: Final = 0x200000
"""The flag PF_KTHREAD of kernel threads, which never run a program."""
_MAX_ENVIRON_BYTES: Final = 64 << 10
"""The number of bytes of an environment that are searched for variables of Windlass."""
_MAX_MOUNTINFO_BYTES: Final = 256 << 10
"""The number of bytes of a mount table that are read. A cell's own mounts are at its beginning."""
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

libc: Final = ctypes.CDLL(None, use_errno=True)


class Process(Struct, frozen=True):
    """Identifies a process. The pid is unique together with the start time and the machine's boot."""

    pid: int
    start: int
    boot: str


class Stat(Struct, frozen=True, gc=False):
    """The fields of /proc/<pid>/stat that Windlass uses."""

    pid: int
    parent: int
    session: int
    start: int
    cpu: int
    """The processor time in ticks, including reaped children."""
    memory: int
    """The resident memory in bytes, including shared memory."""
    threads: int
    thread: int
    """The id of a thread under which /proc shows the process's resources. It is the pid, unless the first
    thread has ended."""
    dead: bool
    """Whether the process has ended; its parent may not have reaped it yet."""


@cache
def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> Stat | None:
    """Reads the state of a process. Returns None if it is gone, or if `pid` is a kernel thread."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 (called for every process)
            line = file.read(2048)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program name, which may contain blanks and parentheses.
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
        memory=resident(pid) if lost_first else int(words[21]) * PAGE_BYTES,
        threads=threads,
        thread=live_thread(pid) if lost_first else pid,
        # A first thread that ended while other threads run looks like a zombie, too. An ending process runs
        # no code, but may remain until its parent reaps it.
        dead=ended and not lost_first,
    )


def all_processes() -> list[Stat]:
    """Returns all processes, ordered from the oldest to the newest."""
    return [*new_processes(set())][::-1]


def new_processes(seen_pids: set[int]) -> Iterator[Stat]:
    """Yields the processes whose pid is not in `seen_pids`, the newest first, and adds their pids to
    `seen_pids`.

    Lists the processes again if one ended before it was read, because it may have started a child meanwhile.
    """
    for _ in range(MAX_SCANS):
        has_lost = False
        for pid in newest_first():
            if pid in seen_pids:
                continue
            seen_pids.add(pid)
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
    """Returns whether this is a Linux system that supports pidfds."""
    return hasattr(os, "pidfd_open") and Path("/proc/self/stat").exists()


def is_running(process: Process | None) -> bool:
    if process is None or process.boot != boot():
        return False
    present = stat(process.pid)
    return present is not None and present.start == process.start and not present.dead


def handle(pid: int, start: int) -> int | None:
    """Returns a pidfd, which becomes readable when the process ends; None if the process is gone."""
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
    """Reaps a child and returns its exit code, or the negative number of its signal.

    Returns None if the process still runs or is not a child of this process.
    """
    return status(fd, 0)


def status(fd: int, keep_count: int = os.WNOWAIT) -> int | None:
    """Returns the exit code like `reap`, but does not reap the child."""
    try:
        status = os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG | keep_count)
    except ChildProcessError:
        return None
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


def leads_namespace(pid: int) -> bool:
    """Returns whether a process is the init process of a pid namespace directly below ours."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        numbers = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
        return len(numbers) == 2 and numbers[1] == "1"
    return False


def user(pid: int) -> int | None:
    """Returns the real user id of a process; None if the process is gone."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Uid:")).split()[1])
    return None


def process_namespace(pid: int) -> int:
    """Returns the inode of a process's pid namespace; 0 if it is unreadable, or the process is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino  # noqa: PTH116 (called for every process)
    except OSError:
        return 0


def environment(pid: int) -> dict[bytes, bytes]:
    """Returns the initial environment of a process; empty if it cannot be read."""
    words = _read_environ(pid, -1).split(b"\0")
    return {name: value for name, separator, value in (word.partition(b"=") for word in words) if separator}


def marks(pid: int, names: Iterable[str]) -> dict[str, bytes] | None:
    """Returns the given variables from the beginning of a process's environment, where Windlass puts its own.

    Does not read the rest, which may be megabytes. Returns None if the environment cannot be read.
    """
    start = _read_environ(pid, _MAX_ENVIRON_BYTES)
    if not start:
        return None
    found = {}
    for name in names:
        _, separator, rest = (b"\0" + start).partition(f"\0{name}=".encode())
        value, end, _ = rest.partition(b"\0")
        if separator and end:
            found[name] = value
    return found


def _read_environ(pid: int, limit: int) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 (as above)
        return file.read(limit)
    return b""


def mount_points(pid: int) -> Iterator[Path]:
    """Yields the first mount points of a process's mount namespace; none if they cannot be read."""
    with suppress(OSError), open(f"/proc/{pid}/mountinfo", "rb") as file:  # noqa: PTH123 (as above)
        for line in file.readlines(_MAX_MOUNTINFO_BYTES):
            yield Path(os.fsdecode(mount_path(line)))


def touches(pid: int, folder: Path) -> bool:
    """Returns whether the working folder or the output of a process is below a folder."""
    for name in ("cwd", "fd/1", "fd/2"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/{name}").readlink().is_relative_to(folder):
                return True
    return False
