"""Finds and ends processes without an instance: programs whose folder was removed, and commands whose engine
has ended."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

from windlass.base import kernel
from windlass.base.kernel import Process, Stat
from windlass.base.marks import is_below, mark_of
from windlass.engines.workload import StoredData
from windlass.process.kill import end_these
from windlass.process.process_table import EXECUTED_BY, OwnedProcess, ProcessCounter, ProcessTable
from windlass.process.records import RecordStore

_EXECUTED_BY_PATTERN: Final = re.compile(rb"[0-9]{1,10}\.[0-9]{1,20}\.[0-9a-f-]{1,36}")


class Orphans:
    def __init__(self, records: RecordStore, counter: ProcessCounter) -> None:
        self._records, self._counting = records, counter

    async def end(self, table: ProcessTable) -> None:
        await end_these(await asyncio.to_thread(self._find, table))

    def _find(self, table: ProcessTable) -> list[Stat]:
        known = {mark_of(self._records.home(key)) for key in self._records.find()}
        lost = [
            process.stat
            for mark, processes in table.by_mark.items()
            if mark not in known and is_below(mark, self._records.services)
            for process in processes
        ]
        return [*lost, *_orphans(table)]

    def lost(self, table: ProcessTable) -> dict[str, StoredData]:
        """Returns services with running processes whose folder was removed.

        Processes in the cells (sandboxes) of known instances are left out, because a program could claim to
        belong to another service.
        """
        marked = [(Path(process.home), process) for process in table.by_pid.values() if process.home]
        lost = [
            (home, process)
            for home, process in marked
            if home.parent.parent == self._records.services and not home.exists()
        ]
        if not lost:
            return {}
        records = [record for key in self._records.find() if (record := self._records.read(key))]
        spaces = {record.space for record in records} - {0}
        users = {
            record.cell["uid"] for record in records if record.cell and record.cell["identity"] == "user"
        }
        return {
            home.parent.name: StoredData(instances=1, is_lost=True)
            for home, process in lost
            if process.space not in spaces and kernel.user(process.stat.pid) not in users
        }


def _orphans(table: ProcessTable) -> list[Stat]:
    return [process.stat for process in table.by_pid.values() if process.home and _is_orphan(process)]


def _is_orphan(process: OwnedProcess) -> bool:
    if not Path(process.home).exists():
        return True
    said = (kernel.marks(process.stat.thread, [EXECUTED_BY]) or {}).get(EXECUTED_BY, b"")
    if not _EXECUTED_BY_PATTERN.fullmatch(said):
        return False
    # A command that was executed in an instance is useless after the engine that waits for it has ended.
    pid, start, boot = said.decode().split(".", 2)
    return not kernel.is_running(Process(int(pid), int(start), boot))
