"""The command line against a whole Windlass behind a real socket."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.cli.said import Said, say
from tests.world import World


class Line:
    """A command at a terminal, which runs outside of the event loop of its server."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.url = url

    async def __call__(self, *words: str, **options: Any) -> Said:
        return await asyncio.to_thread(say, *words, **{"url": self.url} | options)

    async def done(self, *words: str, **options: Any) -> Any:
        """Returns the answer of a successful command."""
        said = await self(*words, **options)
        assert said.code == 0, said
        return said.json if said.out else None
