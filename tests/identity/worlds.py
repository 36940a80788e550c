"""Worlds that are opened with a token of the operator's own choice, or beside each other."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.fakes.engine import FakeEngine
from tests.world import HandClock, World, fake_parts
from windlass.config import Settings
from windlass.install.installation import install


@contextlib.asynccontextmanager
async def opened(
    folder: Path, clock: HandClock, admin_token: str, database_url: str = "", **settings: Any
) -> AsyncIterator[World]:
    """Unlike `make_world`, it sends no request of its own; the world's token is the one of the settings."""
    chosen = Settings(
        data_dir=str(folder),
        admin_token=admin_token,
        database_url=database_url,
        rate_limit=1_000_000,
        **settings,
    )
    engine = FakeEngine()
    installation = await install(chosen, clock=clock, parts=fake_parts(engine))
    world = World(installation, clock, engine, folder)
    world.token = admin_token or installation.first_token
    try:
        yield world
    finally:
        await installation.stop()
