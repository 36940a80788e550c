"""Stores the engine's records of instances in small files, so that another engine finds the running
instances.

A record is replaced atomically, before the change that it describes. It never contains variables, whose
values are only in memory. Records describe processes, which do not survive a restart of the machine, so they
are not synced to the disk. A record that a power cut has damaged counts as missing. A complete record that
cannot be parsed comes from another version and is left unchanged. The addresses of services must survive a
power cut, so they are synced (ports.py).

Every instance has a lock. Each change of an instance requires the lock, in this process or another.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct, field, structs

from windlass.base import filelock
from windlass.base.atomic_files import write_whole
from windlass.base.isolation.cell import Cell
from windlass.base.kernel import Process
from windlass.base.log import log
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.rollout.removed_generations import RECORDS_FOLDER, RemovedGenerations

_log = log("engines.process")
_SAFE_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
_PRIVATE_MODE: Final = 0o700
_MAX_LOCK_PAUSE: Final = 0.1
"""Longest pause in seconds between two attempts to get a lock that another process holds."""
_LOCK_TIMEOUT: Final = 30.0
"""Seconds after which another server that holds an instance's lock is reported as paused."""


class UnknownRecord(EngineError):
    """Raised if the record of an instance is complete, but this version cannot parse it. Users see the
    message."""


class InstanceKey(Struct, frozen=True):
    """Identifies an instance. At most one copy of an instance is alive."""

    service: str
    generation: int
    index: int

    @property
    def id(self) -> str:
        return f"{self.service}-{self.generation}-{self.index}"


class Record(Struct, frozen=True, kw_only=True):
    """The record of one instance. Later versions of Windlass read it, so each new field needs a default."""

    service: str
    pod: str
    deployment: str
    org: str
    environment: str = ""
    """The environment. Empty in records of version 0.1.0."""
    workdir: str
    memory: int
    """The memory limit in megabytes."""
    ports: Mapping[int, int] = field(default_factory=dict)
    """The outer port of each internal port."""
    made: bool = False
    """Whether the working copy is complete."""
    made_at: int = 0
    """The time when the working copy was completed, or 0. Newer files were written by the program."""
    process: Process | None = None
    first: Process | None = None
    """The first process of the cell, which lives as long as the cell. None if the cell has no such
    process."""
    space: int = 0
    """The number of the cell's process namespace. 0 if it has none."""
    engine: Process | None = None
    """The engine process that started the program. Only this process can get the exit status."""
    last: Process | None = None
    """The previous process, whose end `reason` describes."""
    cell: Cell | None = None
    """The cell (sandbox) of the program. None if the program is not isolated."""
    groups: tuple[str, ...] = ()
    """The control groups of the instance."""
    cgroup: str = ""
    """The only control group of the instance in a record of version 0.1.0."""
    started_at: int = 0
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    verdict: str = ""
    """The reason why Windlass kills the program."""
    pause: float = 0.0
    resume_at: int = 0
    once: bool = False
    """Whether the program runs to completion and is never restarted."""
    ended_at: int = 0
    """The time when a program that runs once has ended."""
    peak_memory: int = 0
    """The peak memory of the largest process in bytes, if the program runs once. 0 if it is unknown."""
    removing: bool = False

    def __post_init__(self) -> None:
        if self.cgroup:
            structs.force_setattr(self, "groups", (self.cgroup,))
            structs.force_setattr(self, "cgroup", "")


@lru_cache(4096)
def _home(services: Path, key: InstanceKey) -> Path:
    """Returns the folder of an instance. Cached, because all instances are checked again and again and the
    creation of a path is slow."""
    return services / safe(key.service) / f"{key.generation}-{key.index}"


class RecordStore:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services = folder / "services"
        self.volumes = folder / "volumes"
        self.ended = folder / "ended"
        self.caches = folder / "caches"
        """Caches of build tools, such as downloaded dependencies. They are kept for the next instances of a
        service."""
        self.removed = RemovedGenerations(folder / RECORDS_FOLDER, durable=False)
        self._bell = folder / "bell"
        self._decoder = msgspec.json.Decoder(Record)
        self._logged: set[Path] = set()
        """Folders of instances whose unreadable record has been logged."""

    def prepare(self) -> None:
        self.folder.mkdir(mode=_PRIVATE_MODE, parents=True, exist_ok=True)
        self.folder.chmod(_PRIVATE_MODE)
        for folder in (self.services, self.volumes, self.ended, self.caches):
            folder.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        self._bell.touch()

    def home(self, key: InstanceKey) -> Path:
        return _home(self.services, key)

    def find(self, service: str | None = None) -> list[InstanceKey]:
        services = names(self.services) if service is None else [safe(service)]
        return sorted(
            (
                InstanceKey(service, int(generation), int(index))
                for service in services
                for name in names(self.services / service)
                for generation, _, index in [name.partition("-")]
                if generation.isdecimal() and index.isdecimal()
            ),
            key=lambda key: (key.service, key.generation, key.index),
        )

    def read(self, key: InstanceKey) -> Record | None:
        return self.read_in(self.home(key))

    def read_in(self, home: Path) -> Record | None:
        """Returns the record in the folder of an instance, or None.

        Raises UnknownRecord if another version wrote the record. Its program may be running, so nothing may
        be started or erased in its place.
        """
        try:
            return self._decoder.decode((home / "record.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except msgspec.ValidationError as error:
            self._log_once(home, error)
            raise UnknownRecord(
                "ask the operator to look with `windlass doctor`: another version of Windlass has recorded "
                "an instance of this service, and this one cannot read that. Nothing is started or erased "
                "over it"
            ) from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # damaged by a power cut, which also ended the described processes

    def known(self, key: InstanceKey) -> Record | None:
        """Returns the record of an instance, only for reading. A record of another version counts as
        missing."""
        with suppress(UnknownRecord):
            return self.read(key)
        return None

    def check(self, service: str) -> None:
        """Raises UnknownRecord if a record of the service comes from another version."""
        for key in self.find(service):
            self.read(key)

    def _log_once(self, home: Path, error: msgspec.ValidationError) -> None:
        if home not in self._logged:
            self._logged.add(home)
            extra = {"folder": str(home), "why": str(error)}
            _log.error("a record of another version cannot be read, and is left as it is", extra=extra)

    def write(self, key: InstanceKey, record: Record) -> Record:
        write_whole(self.home(key) / "record.json", msgspec.json.encode(record), durable=False)
        return record

    @asynccontextmanager
    async def held(self, key: InstanceKey, *, may_create: bool = False) -> AsyncIterator[Path | None]:
        """Locks an instance and yields its folder. Yields None if the folder does not exist and `may_create`
        is False."""
        fd = await self._lock(key, may_create)
        try:
            yield None if fd is None else self.home(key)
        finally:
            if fd is not None:
                os.close(fd)

    async def _lock(self, key: InstanceKey, may_create: bool) -> int | None:
        path, pause = self.home(key) / "lock", 0.002
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while True:
            try:
                if may_create:
                    self._make_home(path.parent)
                fd = filelock.open_lock_file(path)
            except FileNotFoundError:
                if may_create and self.services.exists():
                    continue  # removed between these two lines
                if may_create:
                    raise
                return None
            if filelock.try_lock(fd) and filelock.is_at(fd, path):
                return fd
            holder = filelock.holder_of(fd) if time.monotonic() > deadline else None
            os.close(fd)
            if holder not in {None, os.getpid()}:
                raise EngineUnavailable(str(filelock.LockTimeout(holder)))
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_LOCK_PAUSE)

    def _make_home(self, home: Path) -> None:
        """Creates the folder of an instance and of its service, but no parent folders. If the data directory
        was moved away, a new one would prevent it from being moved back."""
        home.parent.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        home.mkdir(mode=_PRIVATE_MODE, exist_ok=True)

    def move_to_ended(self, key: InstanceKey) -> Path:
        """Moves the folder of a removed instance to `ended`, where it is erased."""
        aside = self.ended / uuid4().hex
        self.home(key).rename(aside)
        with suppress(OSError):  # removes the service's folder together with its last instance
            self.home(key).parent.rmdir()
        return aside

    def may_run(self, key: InstanceKey, *, runs_once: bool = False) -> bool:
        """Returns whether an instance of this generation may be started. A removed generation may be started
        again only if it becomes current again, and never for a program that runs once."""
        if runs_once:
            return key.generation not in self.removed.of(safe(key.service))
        later = any(other.generation > key.generation for other in self.find(key.service))
        return self.removed.returns(safe(key.service), key.generation, later=later)

    def notify_engines(self) -> None:
        """Notifies the other engines that use this folder of a change."""
        self._bell.touch()  # an operator may have deleted it
        now = time.time_ns()  # the kernel's clock may set the same time for two notifications
        os.utime(self._bell, ns=(now, now))

    def last_notification(self) -> int:
        """Returns the time of the last notification, or 0 if its file was deleted."""
        try:
            return self._bell.stat().st_mtime_ns
        except FileNotFoundError:
            return 0


def unknown_records(folder: Path) -> list[Path]:
    """Returns the record files of another version below an engine's folder."""
    store, instances = RecordStore(folder), []
    for key in store.find():
        try:
            store.read(key)
        except UnknownRecord:
            instances.append(store.home(key) / "record.json")
    return instances


def pods_without_network(folder: Path) -> list[str]:
    """Returns the names of instances that share the machine's network, below an engine's folder."""
    store = RecordStore(folder)
    records = (record for key in store.find() if (record := store.known(key)))
    return [record.pod for record in records if record.cell is None or "network" not in record.cell]


def safe(name: str) -> str:
    """Returns the name unchanged if it is a safe folder name. Raises an EngineError otherwise."""
    if not _SAFE_NAME_PATTERN.match(name):
        raise EngineError(f"{name!r} cannot be the name of a folder: use letters, digits, dots and dashes")
    return name


def names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 (names, not paths)
    except (FileNotFoundError, NotADirectoryError):
        return []
