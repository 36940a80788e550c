"""The journal of a gateway: every change that servers have sent, so that it has its routes after a crash.

A change is appended before it is answered. It is not synced to the disk: after a crash of the machine, no
instance is where it was, and the server sends all routes again. Until then, requests for routes of an earlier
boot get 503, because the address of an instance may belong to another one by now. Static sites are served.

A journal that cannot be written, because the disk is full, is removed: the server sends missing routes again,
and old ones could lead to the instance of another service.
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

_log = log("gateway")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_ENOUGH: Final = 1024
"""Changes below which a journal is not rewritten."""


class Boot(Struct, frozen=True, tag=True):
    """The boot of the machine to which the following changes belong. It is only in the journal."""

    id: str


class JournaledRoutes:
    """The changes that servers have sent, without those that later ones replaced."""

    def __init__(self) -> None:
        self.doors: dict[str, Open] = {}
        self.is_complete = False
        """True once the gateway has received the routes of all services."""
        self.stays = False
        """Programs may be running that no route leads to."""
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
                    self._drop(key)
            case Reserve():
                self._reserved[change.door, change.service] = change
            case SetRoutes():
                self._routes[change.door, change.service] = change
            case Forget():
                self._drop((change.door, change.service))
            case Complete():
                self.is_complete = True
            case Keep():
                self.stays = change.stays

    def _drop(self, key: tuple[str, str]) -> None:
        self._reserved.pop(key, None)
        self._routes.pop(key, None)

    def services(self, door: str) -> frozenset[str]:
        return frozenset(service for at, service in (*self._reserved, *self._routes) if at == door)

    def reserved(self, door: str, service: str) -> Reserve | None:
        return self._reserved.get((door, service))

    @property
    def is_empty(self) -> bool:
        """Returns whether there are no routes, and no programs that the gateway has to stay for."""
        routes = (route for routed in self._routes.values() for route in routed.routes)
        return not self.stays and not any(route.endpoints or route.site for route in routes)

    def of(self, door: str) -> Iterator[Change]:
        """Yields the changes that restore the routes of an open door."""
        for changes in (self._reserved, self._routes):
            yield from (change for (at, _), change in changes.items() if at == door)

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
        """True if the journal could not be written; it is written completely with the next change."""
        self.told = JournaledRoutes()

    def open(self) -> None:
        """Reads the journal of the previous gateway, and starts a new file."""
        changes = list(_changes(self._path))
        is_of_this_boot = Boot(_boot()) in changes
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
        """Appends a change, or writes the whole journal. If that fails, the gateway continues without a
        journal."""
        is_long = self._size > _ENOUGH and self._size > 4 * len(self.told)
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
            self._append(file, [Boot(_boot()), *self.told])
            new.replace(self._path)
        self.close()
        self._file, self._size = file, len(self.told)

    @staticmethod
    def _append(file: int, changes: Iterable[Change | Boot]) -> None:
        content = memoryview(b"".join(frame(encode(change)) for change in changes))
        while content:
            content = content[os.write(file, content) :]


def _boot() -> str:
    return _BOOT.read_text().strip()


def _changes(path: Path) -> Iterator[Change | Boot]:
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
