"""Records how an instance ended: the exit code, the readable reason, and the time of the restart."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

from msgspec import structs

from windlass.base import cgroups, kernel
from windlass.base.clock import Clock
from windlass.engines.rollout import kernel_listeners
from windlass.process import exit_reason, files, open_folders, process_table, run_recorder
from windlass.process.exit_reason import Pauses
from windlass.process.kill import ProcessKiller
from windlass.process.open_folders import open_below
from windlass.process.output import last_output
from windlass.process.records import InstanceKey, Record, RecordStore
from windlass.process.run_recorder import ENDED_FILE, Result

_MAX_RECORD_BYTES: Final = 100
_EXIT_STATUSES: Final = range(-64, 256)
"""The valid results of a program: exit codes, and signal numbers as negative values."""
_LAST_MOMENT: Final = 253_402_300_799_000
"""The end of the year 9999, in milliseconds."""


class EndRecorder:
    def __init__(self, records: RecordStore, killer: ProcessKiller, clock: Clock, pauses: Pauses) -> None:
        self._records, self._killer, self._clock, self._pauses = records, killer, clock, pauses

    async def record(
        self, key: InstanceKey, home: Path, record: Record, status: int | None, *, is_heard: bool
    ) -> Record:
        """Ends the remaining processes of an instance whose program has ended, and records the end.

        `status` is None unless this process is the parent of the program. `is_heard` is whether the program
        has listened on one of its ports.
        """
        if record.once and status is None and not run_recorder.has_begun(home / files.RECORDER_FOLDER):
            # The engine was killed after it recorded the start and before the program ran, so the program is
            # started again.
            return self._records.write(key, structs.replace(record, process=None, started_at=0))
        result = read_result(home) if record.once else None
        if status is None and record.verdict:  # this engine killed and may have reaped it
            status = -signal.SIGKILL
        status, now, peak = result or (status, self._clock.now(), 0)
        reason = self._reason(home, record, status, is_heard)
        await self._killer.end(home, record.process, record)
        cgroups.remove(record.groups)
        return self._records.write(
            key,
            structs.replace(
                exit_reason.after_end(record, status, reason, now, self._pauses), peak_memory=peak
            ),
        )

    def _reason(self, home: Path, record: Record, status: int | None, is_heard: bool) -> str:
        if cgroups.memory_kills(record.groups):
            return exit_reason.too_much(record.memory)
        has_rebooted = record.process is not None and record.process.boot != kernel.boot()
        reason = exit_reason.describe_exit(status, has_rebooted=has_rebooted)
        if not status or is_heard:
            return reason
        listened = kernel_listeners.read_listeners()
        taken = {inner for inner, port in record.ports.items() if port != inner and inner in listened}
        if not taken or not exit_reason.is_port_taken(last_output(home)):
            return reason
        holder = self._holder(record, set().union(*(listened[port] for port in taken)))
        return exit_reason.port_taken(reason, taken, holder)

    def _holder(self, record: Record, inodes: set[int]) -> str:
        """Returns the name of the instance with these sockets. Names no instance of another organization."""
        table = process_table.count(self._records.folder)
        for key in self._records.find():
            other = self._records.known(key)
            if other is None or other.org != record.org or other.process is None or other.pod == record.pod:
                continue
            processes = process_table.members(table, self._records.home(key), other.process, other)
            if inodes & kernel_listeners.sockets(process.stat.pid for process in processes):
                return f"{other.pod}, its version before" if other.service == record.service else other.pod
        return ""


def read_result(home: Path) -> Result | None:
    """Returns the recorded end of a program that runs once, or None if there is no valid record.

    The program runs as the same user as the recorder, so it can write any content there.
    """
    try:
        with open_below(home / files.RECORDER_FOLDER) as at:
            content = open_folders.read(ENDED_FILE, at, _MAX_RECORD_BYTES + 1)
        if len(content) > _MAX_RECORD_BYTES:
            return None
        status, moment, *peak = map(int, content.decode("ascii").split())
    except (OSError, ValueError):
        return None
    result = Result(status, moment, peak[0] if peak else 0)
    return result if _is_possible(result) else None


def _is_possible(result: Result) -> bool:
    is_moment = 0 <= result.at <= _LAST_MOMENT
    return result.status in _EXIT_STATUSES and is_moment and 0 <= result.peak_memory < 1 << 62
