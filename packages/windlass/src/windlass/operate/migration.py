"""`windlass serve --migrate-only`: brings the database to the form of this version, without a server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from windlass.base.clock import SystemClock
from windlass.config import Settings
from windlass.install.composition import open_store


def migrate(settings: Settings) -> None:
    """Applies missing migrations. Other servers and commands that migrate the same database wait."""
    if not settings.database_url:
        Path(settings.data_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
    asyncio.run(_open_once(settings))


async def _open_once(settings: Settings) -> None:
    store = await open_store(settings, SystemClock())
    await store.close()
