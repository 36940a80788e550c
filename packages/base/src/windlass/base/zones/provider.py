"""The interface of a provider of DNS zones, and how the settings choose one.

A provider is a module of this folder with a function `open_zones(access)`, which returns a `ZoneProvider`.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from windlass.base.dns import DnsClient
from windlass.base.http_out import HttpTransport

TTL_SECONDS: Final = 60
"""Seconds for which name servers keep a record."""
MAX_SHOWN_LENGTH: Final = 300
ZONES_LIFETIME_SECONDS: Final = 600.0
"""Seconds after which the zones of a provider are read again."""
MISSING_ZONE_LIFETIME_SECONDS: Final = 60.0
"""The same, if a name belongs to none of them."""
MAX_PAGES: Final = 20
"""More pages of zones are not read."""


class BadZoneSetting(ValueError):
    """A setting of the provider is missing or has another form. The message begins with the setting."""


class ZoneFailure(Exception):
    """The provider did not do what was asked. The message has no credentials."""


class ZoneAccess(Struct, frozen=True, kw_only=True):
    """What a provider gets from the settings."""

    credentials: str
    server: str
    command: str
    domain: str
    """The domain of the names of services."""
    out: HttpTransport
    dns: DnsClient

    def __repr__(self) -> str:
        return "ZoneAccess(…)"  # the credentials must not appear in a log


class ZoneProvider(Protocol):
    @property
    def title(self) -> str:
        """The provider's name in messages."""
        ...

    async def zone_of(self, name: str) -> str:
        """Returns the zone of the operator that a name belongs to; empty if there is none. Raises
        ZoneFailure."""
        ...

    async def check(self, name: str) -> str:
        """Returns the zone that a name belongs to, after trying the credentials. Changes nothing. Raises
        ZoneFailure if there is no such zone, or the credentials are refused."""
        ...

    async def add(self, name: str, value: str) -> None:
        """Adds a TXT record to those of a name. Does nothing if it is there. Raises ZoneFailure."""
        ...

    async def remove(self, name: str, value: str) -> None:
        """Removes a TXT record, and leaves the others of the name. Does nothing if it is not there. Raises
        ZoneFailure."""
        ...


class KnownZone(Struct, frozen=True):
    id: str
    name: str


class ZoneList:
    """The zones of a provider, which are read at most once a minute, however many names are asked for, and
    whether or not the provider answers."""

    def __init__(self, read_zones: Callable[[], Awaitable[Sequence[KnownZone]]]) -> None:
        self._read = read_zones
        self._zones: dict[str, KnownZone] = {}
        self._since = -ZONES_LIFETIME_SECONDS
        """When they were read."""
        self._failure = ""
        """Why they could not be read the last time; empty if they were."""
        self._failed = 0.0
        """When that was."""
        self._lock = asyncio.Lock()

    async def find(self, name: str) -> KnownZone | None:
        """Returns the zone that a name belongs to, which may be known from before a failure. Raises
        ZoneFailure."""
        async with self._lock:
            age = time.monotonic() - self._since
            found = self._find_known_zone(name)
            if age >= ZONES_LIFETIME_SECONDS or (found is None and age >= MISSING_ZONE_LIFETIME_SECONDS):
                await self._read_again()
                found = self._find_known_zone(name)
                if found is None and self._failure:
                    raise ZoneFailure(self._failure)
            return found

    async def _read_again(self) -> None:
        if self._failure and time.monotonic() - self._failed < MISSING_ZONE_LIFETIME_SECONDS:
            return
        try:
            self._zones = {zone.name: zone for zone in await self._read()}
        except ZoneFailure as error:
            self._failed, self._failure = time.monotonic(), str(error)
        else:
            self._since, self._failure = time.monotonic(), ""

    def _find_known_zone(self, name: str) -> KnownZone | None:
        return next((self._zones[domain] for domain in domains_of(name) if domain in self._zones), None)


def open_provider(name: str, access: ZoneAccess) -> ZoneProvider:
    """Returns the provider with a name of `ZONE_PROVIDERS`. Raises BadZoneSetting."""
    module = importlib.import_module(f"windlass.base.zones.{name}")
    provider: ZoneProvider = module.open_zones(access)
    return provider


def domains_of(name: str) -> Iterator[str]:
    """Returns a name and the domains above it, without the topmost."""
    labels = name.lower().rstrip(".").split(".")
    return (".".join(labels[start:]) for start in range(len(labels) - 1))


def shown(text: str) -> str:
    """Returns words of a provider in one line, cut to what is shown."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_LENGTH else f"{line[: MAX_SHOWN_LENGTH - 1]}…"


def words_of(texts: Sequence[str], status: int) -> str:
    """Returns the words of a refusal, or its status."""
    return shown("; ".join(text for text in texts if text)) or f"status {status}"
