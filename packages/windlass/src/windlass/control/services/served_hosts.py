"""Whether this installation serves a host name, for proxies in front that get certificates on demand."""

from __future__ import annotations

import asyncio
import re
from typing import Final
from urllib.parse import urlsplit

from windlass.base.clock import MINUTE, SECOND
from windlass.control.context.context import Context
from windlass.control.records.domains import DOMAIN_PREFIX
from windlass.store import MAY_HAVE_MISSED, ROUTE_PREFIX

_MAX_AGE: Final = MINUTE
"""How long the names are kept if no nudge says that they have changed: a nudge may be lost."""
MIN_READ_INTERVAL: Final = SECOND
"""The least time between two readings of the names, however many questions there are."""
_MAX_NAME_LENGTH: Final = 253
_NAME_PATTERN: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")


class ServedHosts:
    """Answers questions about host names. All names are in memory, so that questions about names that nobody
    serves, of which anyone may ask any number, neither delay nor refuse those about served ones."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._names: frozenset[str] = frozenset()
        self._read_at: int | None = None
        self._changes = 1
        """Counts the nudges that names have changed."""
        self._changes_read = 0
        """The count when the names were read last."""
        self._reading = asyncio.Lock()
        ctx.store.listen(self._note_nudge, ROUTE_PREFIX.rstrip(":"), MAY_HAVE_MISSED)

    def _note_nudge(self, topic: str) -> None:
        self._changes += 1

    async def has(self, host: str) -> bool:
        name = host.lower().removesuffix(".")
        if len(name) > _MAX_NAME_LENGTH or not _NAME_PATTERN.fullmatch(name):
            return False
        if self._is_old():
            async with self._reading:
                if self._is_old():
                    await self._read()
        return self._is_served(name)

    def _is_old(self) -> bool:
        if self._read_at is None:
            return True
        age = self._ctx.clock.now() - self._read_at
        return not 0 <= age < (MIN_READ_INTERVAL if self._changes != self._changes_read else _MAX_AGE)

    async def _read(self) -> None:
        now, changes = self._ctx.clock.now(), self._changes
        self._names = frozenset(await self._ctx.store.reads.names.beginning(""))
        self._read_at, self._changes_read = now, changes

    def _is_served(self, name: str) -> bool:
        first, _, rest = name.partition(".")
        settings = self._ctx.settings
        if name == (urlsplit(settings.url).hostname or "").lower():
            return True
        if rest == settings.public_domain.lower():
            return first in self._names
        # Not the names that only a domain with `*.` covers: a proxy would order a certificate for each one
        # that a visitor invents, until its authority refuses those of others.
        return f"{DOMAIN_PREFIX}{name}" in self._names
