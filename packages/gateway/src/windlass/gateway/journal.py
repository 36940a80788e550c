"""The journal of a gateway: a file with every change that servers have sent. A gateway that restarts after a
crash restores its routes from the journal.

A change is appended before the gateway confirms it. The file is not synced to the disk: after a crash of the
machine, all instances have new addresses, and the server sends all routes again. Until then, requests for
routes of an earlier boot get status 503, because the address of an instance may now belong to another
instance. Static sites are served from the journal's routes in any case.

If the journal cannot be written (the disk is full, for example), the gateway deletes it: a server can send
missing routes again, but outdated routes could lead to an instance of another service.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.base.cleanup import on_failure
from windlass.base.log import log
from windlass.gateway.link import frame, frames
from windlass.gateway.messages import Change, Complete, Forget, Keep, Open, Reserve, Retire, SetRoutes, encode
from windlass.routers.router import Absence

_log = log("gateway")
_BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
_REWRITE_AFTER: Final = 1024
"""Number of changes up to which a journal is not compacted."""


class Boot(Struct, frozen=True, tag=True):
    """Journal entry with the boot id of the machine. All following changes are of this boot."""

    id: str


class JournaledRoutes:
    """The changes that servers have sent. A change replaces earlier changes of the same door or service."""

    def __init__(self) -> None:
        self.doors: dict[str, Open] = {}
        self.is_complete = False
        """Whether the gateway has received the routes of all services."""
        self.stays = False
        """Whether the gateway keeps running without routes, because services without a route may be
        running."""
        self._reserved: dict[tuple[str, str], Reserve] = {}
        self._routes: dict[tuple[str, str], SetRoutes] = {}

    def __len__(self) -> int:
        return len(self.doors) + len(self._reserved) + len(self._routes) + self.is_complete + self.stays

    def note(self, change: Change | Boot) -> None:
        match change:
            case Open():
                self.doors[change.door] = change
            case Retire():
                self.doors.pop(change.door, None)
                for key in [key for key in (*self._reserved, *self._routes) if key[0] == change.door]:
                    self._drop_routes(key)
            case Reserve():
                self._reserved[change.door, change.service] = change
            case SetRoutes():
                self._routes[change.door, change.service] = change
            case Forget():
                self._drop_routes((change.door, change.service))
            case Complete():
                self.is_complete = True
            case Keep():
                self.stays = change.stays

    def _drop_routes(self, key: tuple[str, str]) -> None:
        self._reserved.pop(key, None)
        self._routes.pop(key, None)

    def services(self, listener_key: str) -> frozenset[str]:
        return frozenset(service for at, service in (*self._reserved, *self._routes) if at == listener_key)

    def reserved(self, listener_key: str, service: str) -> Reserve | None:
        return self._reserved.get((listener_key, service))

    @property
    def is_empty(self) -> bool:
        """Returns whether the gateway is not needed: no route leads anywhere, and no server has asked the
        gateway to stay."""
        routes = (route for routed in self._routes.values() for route in routed.routes)
        return not self.stays and not any(
            (route.endpoints and not route.proof) or route.site or route.absence is Absence.SLEEPING
            for route in routes
        )

    def of(self, listener_key: str) -> Iterator[Change]:
        """Yields the port reservations and routes of a door."""
        for changes in (self._reserved, self._routes):
            yield from (change for (at, _), change in changes.items() if at == listener_key)

    def __iter__(self) -> Iterator[Change]:
        for door, opened in self.doors.items():
            yield opened
            yield from self.of(door)
        if self.is_complete:
            yield Complete()
        if self.stays:
            yield Keep(stays=True)


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._size = 0
        self._is_removed = False
        """Whether the journal is deleted because writing has failed. The next change writes the whole journal
        again."""
        self.told = JournaledRoutes()

    def open(self) -> None:
        """Restores the changes from the previous gateway's journal, and starts a new file."""
        changes = list(_read_changes(self._path))
        is_of_this_boot = Boot(_read_boot_id()) in changes
        for change in changes:
            if isinstance(change, SetRoutes) and not is_of_this_boot:
                routes = tuple(replace(route, endpoints=()) for route in change.routes)
                change = replace(change, routes=routes)
            if not isinstance(change, Boot | Keep) or is_of_this_boot:
                self.told.note(change)
        self._try_to_write()

    def note(self, change: Change) -> None:
        self.told.note(change)
        self._try_to_write(change)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _try_to_write(self, change: Change | None = None) -> None:
        """Appends a change, or writes the whole journal. If writing fails, the gateway continues without a
        journal."""
        is_long = self._size > _REWRITE_AFTER and self._size > 4 * len(self.told)
        try:
            if change is None or self._is_removed or is_long:
                self._rewrite()
            else:
                self._append(self._file, [change])
                self._size += 1
        except OSError as error:
            self._remove()
            _log.error("the journal cannot be written: free some space", extra={"reason": error.strerror})
        else:
            self._is_removed = False

    def _remove(self) -> None:
        self._is_removed = True
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _rewrite(self) -> None:
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        file = os.open(new, flags, 0o600)
        with on_failure(partial(os.close, file)), on_failure(new.unlink):
            self._append(file, [Boot(_read_boot_id()), *self.told])
            new.replace(self._path)
        self.close()
        self._file, self._size = file, len(self.told)

    @staticmethod
    def _append(file: int, changes: Iterable[Change | Boot]) -> None:
        content = memoryview(b"".join(frame(encode(change)) for change in changes))
        while content:
            content = content[os.write(file, content) :]


def _read_boot_id() -> str:
    return _BOOT_ID_FILE.read_text().strip()


def _read_changes(path: Path) -> Iterator[Change | Boot]:
    decoder: msgspec.msgpack.Decoder[Change | Boot] = msgspec.msgpack.Decoder(Change | Boot)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    for body in frames(content):
        try:
            yield decoder.decode(body)
        except msgspec.DecodeError as error:
            _log.warning(
                "a change in the journal is left out: it cannot be read", extra={"reason": str(error)}
            )
