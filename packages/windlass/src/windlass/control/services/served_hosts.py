"""Whether this installation serves a host name, for proxies in front that get certificates on demand."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final
from urllib.parse import urlsplit

from windlass.base.clock import MINUTE, SECOND
from windlass.base.errors import TooMany
from windlass.control.context.context import Context
from windlass.control.records.domains import DOMAIN
from windlass.core.words.domains import ANY

MOST: Final = 100
"""Number of questions in a second about names that were not asked for lately."""
_REMEMBERED: Final = 1024
_KEPT: Final = MINUTE
_LONGEST: Final = 253
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")


class ServedHosts:
    """Answers questions about host names. Served names are remembered for a minute, so that questions about
    names that nobody serves cannot delay those about served ones."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._served: OrderedDict[str, int] = OrderedDict()
        self._since = self._asked = 0

    async def has(self, host: str) -> bool:
        """Raises TooMany."""
        name, now = host.lower().removesuffix("."), self._ctx.clock.now()
        if self._served.get(name, 0) > now:
            return True
        self._count(now)
        if not await self._is_served(name):
            self._served.pop(name, None)
            return False
        self._served[name] = now + _KEPT
        self._served.move_to_end(name)
        if len(self._served) > _REMEMBERED:
            self._served.popitem(last=False)
        return True

    def _count(self, now: int) -> None:
        if not self._since <= now < self._since + SECOND:
            self._since, self._asked = now, 0
        self._asked += 1
        if self._asked > MOST:
            raise TooMany("Ask again in a second: too many names are asked for", {"retry-after": "1"})

    async def _is_served(self, name: str) -> bool:
        first, _, rest = name.partition(".")
        if len(name) > _LONGEST or not _NAME.fullmatch(name):
            return False
        settings, names = self._ctx.settings, self._ctx.store.reads.names
        if name == (urlsplit(settings.url).hostname or "").lower():
            return True
        if rest == settings.public_domain.lower():
            return await names.holder(first) is not None
        for domain in (name, f"{ANY}{rest}"):
            if await names.holder(f"{DOMAIN}{domain}") is not None:
                return True
        return False
