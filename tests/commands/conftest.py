"""The command line against a whole Windlass behind a real socket."""

from __future__ import annotations

import uuid

import pytest

from tests.commands.line import Line
from tests.fakes.engine import FakeEngine
from tests.schemathesis.serving import served
from tests.world import make_world
from windlass.control.reporting import logs


@pytest.fixture(autouse=True)
def short_wait_for_lines(monkeypatch):
    """The log of a build that wrote nothing ends soon after its deployment, and not after a second."""
    monkeypatch.setattr(logs, "_FIRST_LINE_TIMEOUT", 0.2)


@pytest.fixture
async def windlass():
    async with make_world(engine=FakeEngine("image")) as world, served(world) as url:
        yield Line(world, url)


@pytest.fixture
def some_id():
    return lambda: str(uuid.uuid4())
