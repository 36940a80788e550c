"""Processes of an engine, and all that descends from them."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

Identity = tuple[int, int]
"""A process by its number, and when it began: numbers are given again."""


def run_by(folder: Path) -> set[Identity]:
    """Returns the processes of the engine in this folder, with all that it runs. Commands of builds and
    containers are related to it only by descent, and outlive it."""
    engine = {process for process in _processes() if bytes(folder) in _read(process, "cmdline")}
    children: defaultdict[int, set[int]] = defaultdict(set)
    for process in _processes():
        if fields := _stat(process):
            children[int(fields[1])].add(process)
    found, more = set[int](), engine
    while more:
        found |= more
        more = {child for process in more for child in children[process]} - found
    return {identity for identity in _identities() if identity[0] in found}


def _identities() -> set[Identity]:
    stats = {process: _stat(process) for process in _processes()}
    return {(process, int(fields[19])) for process, fields in stats.items() if fields}


def kill(these: Collection[Identity]) -> None:
    for process, _ in {*these} & _identities():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def is_alive(process: int) -> bool:
    return _stat(process)[:1] not in ([], [b"Z"], [b"X"])


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _stat(process: int) -> list[bytes]:
    """See proc_pid_stat(5), from field 3; nothing of one that has ended."""
    return _read(process, "stat").rpartition(b")")[2].split()


def _read(process: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{process}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
