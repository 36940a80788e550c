"""The interface of a provider of DNS zones, and how the settings choose one.

A provider is a module of this folder with a function `open_zones(access)`, which returns a `ZoneProvider`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from windlass.base.dns import DnsClient
from windlass.base.http_out import HttpTransport

TTL: Final = 60
"""Seconds for which name servers keep a record."""
MOST_SHOWN: Final = 300


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

    async def add(self, name: str, value: str) -> None:
        """Adds a TXT record to those of a name. Does nothing if it is there. Raises ZoneFailure."""
        ...

    async def remove(self, name: str, value: str) -> None:
        """Removes a TXT record, and leaves the others of the name. Does nothing if it is not there. Raises
        ZoneFailure."""
        ...


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
    return line if len(line) <= MOST_SHOWN else f"{line[: MOST_SHOWN - 1]}…"


def words_of(texts: Sequence[str], status: int) -> str:
    """Returns the words of a refusal, or its status."""
    return shown("; ".join(text for text in texts if text)) or f"status {status}"
