"""A server with an environment. It is shared by the tests of a module, because its start takes a second."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec import Struct

from tests.pushes.pushing import make_environment, pushed_place
from tests.whole import Place, Windlass


class Scene(Struct):
    place: Place
    windlass: Windlass
    environment: str


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with pushed_place(push_bytes=200_000) as there, there.windlass() as windlass:
        yield Scene(there, windlass, await make_environment(windlass))
