"""Answers of the engine of a cluster are read at a limited pace; those of the own engine as they come."""

from __future__ import annotations

import asyncio

import pytest

from windlass.docker.client import Docker
from windlass.docker.client.client import BYTES_A_SECOND, Pace


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """The seconds that were waited for."""
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    return waited


async def test_an_engine_that_sends_faster_than_the_pace_is_read_with_pauses(waits):
    pace = Pace(rate=100)
    for _ in range(5):
        await pace.keep(100)
    assert [round(seconds) for seconds in waits] == [1, 2, 3, 4]


async def test_an_engine_that_sends_slower_than_the_pace_is_read_without_pauses(waits):
    await Pace(rate=100).keep(100)
    assert waits == []


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_the_pace_applies_only_to_remote_engines(waits, monkeypatch, is_elsewhere):
    monkeypatch.setattr(Docker, "is_elsewhere", is_elsewhere)
    await Docker("unix:///nowhere").keep_pace(10 * BYTES_A_SECOND)
    assert bool(waits) is is_elsewhere
