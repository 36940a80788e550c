"""Describes the end of a program as readable text, and computes the pause before its restart. Does no I/O."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection
from typing import Final

from msgspec import Struct, structs

from windlass.base.disk_reserve import DiskShare, DiskSpace
from windlass.base.kernel import Process
from windlass.engines.workload import Outcome
from windlass.process.memory_shares import MemoryUse
from windlass.process.records import Record

_PORT_IN_USE_PATTERN: Final = re.compile(
    rb"EADDRINUSE|address (?:is )?already in use|errno 98\b|address in use", re.IGNORECASE
)
_SIGNAL_MEANINGS: Final = {
    signal.SIGSEGV: "it accessed memory that is not its own",
    signal.SIGABRT: "it aborted itself",
    signal.SIGBUS: "it accessed memory that is not there",
    signal.SIGILL: "it has an instruction that this processor does not know",
    signal.SIGFPE: "an arithmetic error, such as a division by zero",
}
_ERASED_NOTE: Final = "its files outside of volumes are erased"
NO_NETWORK: Final = "was ended: the process that held the network of its environment was killed"
REBOOTED: Final = "ended when the machine was restarted"
UNKNOWN: Final = "ended; how is not known, because another run of Windlass started it"
CUT_OFF: Final = frozenset({NO_NETWORK, REBOOTED, UNKNOWN})
"""Ends that the program did not cause, or may not have caused: the reason of its next end is known."""
TOO_MANY_MOUNTS: Final = (
    "made too many mounts for Windlass to find the memory that it holds in files: make fewer"
)
TOO_MANY_FILES: Final = (
    "has too many open files for Windlass to find the memory that it holds in them: open fewer"
)
HIDDEN_FILES: Final = (
    "keeps open files in messages of Unix sockets where Windlass cannot see how much memory they hold: "
    "accept connections, receive such messages, and send none that are empty or out of band"
)


class Pauses(Struct, frozen=True):
    """The pauses before restarts, in seconds. Each pause is twice the previous pause, up to `longest`. After
    the program has run for `well` seconds, the next pause is `first` again."""

    first: float = 0.5
    longest: float = 60.0
    well: float = 60.0

    def after(self, previous_pause: float, run_seconds: float) -> float:
        if not previous_pause or run_seconds >= self.well:
            return self.first
        return min(previous_pause * 2, self.longest)


def after_end(record: Record, status: int | None, reason: str, now: int, pauses: Pauses) -> Record:
    """Returns the record of an instance after its program has ended."""
    pause = pauses.after(record.pause, (now - record.started_at) / 1000)
    return structs.replace(
        record,
        process=None,
        last=record.process,
        exit_code=_code(status),
        reason=record.verdict or reason,
        verdict="",
        pause=pause,
        resume_at=0 if record.once else now + round(pause * 1000),
        ended_at=now if record.once else 0,
    )


def as_outcome(record: Record) -> Outcome:
    """Returns the result of a program that runs once."""
    return Outcome(
        exit_code=record.exit_code,
        reason=record.reason,
        started_at=record.started_at,
        ended_at=record.ended_at,
        peak_memory=record.peak_memory,
    )


def with_reason(record: Record, process: Process, status: int) -> Record:
    """Adds the exit status to a record of an end. Another engine wrote the record without the status, because
    it was not the parent process."""
    if record.last != process or record.exit_code is not None:
        return record
    return structs.replace(record, exit_code=_code(status), reason=describe_exit(status))


def describe_exit(status: int | None, *, has_rebooted: bool = False) -> str:
    """`has_rebooted`: whether the machine was restarted since the program was started."""
    if status is None and has_rebooted:
        return REBOOTED
    if status is None:
        return UNKNOWN
    if status >= 0:
        return f"exited with code {status}" + _hint(status)
    try:
        number = signal.Signals(-status)
    except ValueError:
        return f"was killed by signal {-status}"
    meaning = _SIGNAL_MEANINGS.get(number)
    return f"was killed by {number.name}" + (f": {meaning}" if meaning else "")


def too_much(memory: int) -> str:
    return f"used more than its memory of {memory} MB"


def took_memory_of_others(memory_use: MemoryUse) -> str:
    buffers = memory_use.buffers
    return (
        f"held about {memory_use.size >> 20} MB with its {buffers.sockets} open sockets and {buffers.pipes} "
        f"pipes, more than its memory of {memory_use.limit >> 20} MB, and the machine ran short of memory: "
        "open fewer, read what they hold, or give it more memory"
    )


def most_memory(memory: int) -> str:
    return (
        f"held {memory >> 20} MB of memory with all its instances, the most of its environment, and the "
        "machine ran short of memory: use less, or ask the operator for a larger machine"
    )


def too_many_processes(count: int) -> str:
    return (
        f"had {count} processes and threads, the most of its environment, and few were left on this "
        "machine: start fewer, or ask the operator for a larger machine"
    )


def too_many_files(count: int) -> str:
    return (
        f"had {count} open files, the most of its environment, which left too few for others on this "
        "machine: open fewer, or ask the operator for a larger machine"
    )


def too_many_closed_connections(count: int) -> str:
    return (
        f"closed {count} connections whose other side does not read, which left too few for others on this "
        "machine: read what arrives, or close such connections with a reset (SO_LINGER 0)"
    )


def too_many_waiting_threads(count: int) -> str:
    return (
        f"had {count} threads that waited for the kernel, the most of its environment, and nothing could be "
        "started on this machine: ask for interfaces, addresses and multicast groups in fewer threads"
    )


def filled_the_disk(share: DiskShare, space: DiskSpace) -> str:
    if share.own.is_hidden:
        amount = "hides files from the server"
    elif space.unit == "files":
        amount = f"wrote {share.size(space)} files"
    else:
        amount = f"wrote {share.size(space) / (1 << 20):.0f} MiB"
    if space.free >= space.reserve:
        return (
            f"{amount}, its organization holds more than its share of the disk, and little is free: delete "
            f"data, or ask the operator to raise organization_disk_bytes; {_ERASED_NOTE}"
        )
    return (
        f"{amount}, and the disk of the machine is full: store less, or ask the operator to free disk "
        f"space; {_ERASED_NOTE}"
    )


def is_port_taken(words: bytes) -> bool:
    """Returns whether the last output of a program says that its port is in use."""
    return bool(_PORT_IN_USE_PATTERN.search(words))


def port_taken(reason: str, internal: Collection[int], holder: str) -> str:
    """Adds an explanation if the program ended because its port was in use. `internal` are the fixed ports
    that the program tried to use. `holder` is the instance of the organization that has one of them; empty if
    it is unknown."""
    ports = " and ".join(map(str, sorted(internal)))
    by = f" by {holder}" if holder else ""
    return (
        f"{reason}: port {ports} of this machine is taken{by}; without containers a program must listen on "
        "the port that the variable PORT names"
    )


def _code(status: int | None) -> int | None:
    """Returns the exit code in the form of a shell: 128 plus the signal number for a signal."""
    return status if status is None or status >= 0 else 128 - status


def _hint(code: int) -> str:
    return {
        126: ": the command cannot be executed",
        127: ": the command was not found",
    }.get(code, "")
