"""A server, and an environment of it for each test. A module may share its server: a start takes a second."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from msgspec import Struct

from tests.pushes.pushing import make_environment, pushed_place
from tests.whole import Place, Windlass

_numbers = itertools.count(1)


class Scene(Struct):
    place: Place
    windlass: Windlass
    environment: str


class RunningServer(Struct):
    place: Place
    windlass: Windlass


@contextlib.asynccontextmanager
async def running_server() -> AsyncIterator[RunningServer]:
    async with pushed_place(push_bytes=200_000) as there, there.windlass() as windlass:
        yield RunningServer(there, windlass)


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with running_server() as made:
        yield made


@pytest.fixture
async def scene(server: RunningServer) -> Scene:
    there, name = server.place, f"shop-{next(_numbers)}"
    beside = there.beside / name
    beside.mkdir()
    own = Place(there.folder, beside, there.settings, there.machine)
    return Scene(own, server.windlass, await make_environment(server.windlass, name))
