"""Chains to write, change and verify."""

from __future__ import annotations

from tests.store.stores import Place, add
from windlass.config import Settings
from windlass.operate.audit import Verdict, verify
from windlass.store import Row, Write


def adding(name: str) -> Write[Row]:
    return lambda tx: add(tx, name)


def settings_of(place: Place) -> Settings:
    return Settings(data_dir=str(place.folder), database_url=place.url)


async def verdict(place: Place, head: str = "") -> Verdict:
    return await verify(settings_of(place), head)
