"""The command line against a whole Windlass behind a real socket."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fakes.engine import FakeEngine
from tests.schemathesis.serving import served
from tests.world import ADMIN, World, make_world
from windlass.cli.main import main


class Said:
    """The output of a command and its exit code."""

    def __init__(self, result: Any) -> None:
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code: int = result.exit_code
        self.out: str = result.stdout
        self.err: str = result.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"<{self.code} out={self.out!r} err={self.err!r}>"


_TURN = threading.Lock()


def say(
    *words: str,
    url: str = "",
    token: str | None = ADMIN,
    stdin: str | None = None,
    width: int = 120,
    home: Path | None = None,
) -> Said:
    """`home`: a folder for the settings of the user, instead of that of all tests."""
    environment = {"WINDLASS_URL": url or None, "WINDLASS_TOKEN": token, "COLUMNS": str(width)}
    if home is not None:
        environment["XDG_CONFIG_HOME"] = str(home)
    assert _TURN.acquire(blocking=False), "Use HTTP: two commands at once would mix their output."
    try:
        return Said(CliRunner().invoke(main, words, env=environment, input=stdin))
    finally:
        _TURN.release()


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


@pytest.fixture
async def windlass():
    async with make_world(engine=FakeEngine("image")) as world, served(world) as url:
        yield Line(world, url)


@pytest.fixture
def some_id():
    return lambda: str(uuid.uuid4())
