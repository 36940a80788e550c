"""Docker engines of tests; nothing of them is left afterwards."""

from __future__ import annotations

import uuid

import pytest

from tests.docker.watched import Watched, nothing_left
from tests.engines.dockers import docker_host
from windlass.docker.builds import engine_turn, engine_version
from windlass.docker.client import Docker


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """Builds of other test processes have their turns at the same engine."""
    monkeypatch.setattr(engine_turn, "_RETRY_PAUSE", 0.2)


@pytest.fixture(autouse=True)
def mended_runc(monkeypatch):
    """Builds have mounts, whatever runc the engine has: `builds/test_engine_version.py` has the promise."""
    monkeypatch.setattr(engine_version, "trusts_devices", lambda version: False)


@pytest.fixture(scope="module")
def host():
    return docker_host()


@pytest.fixture
async def make_engine(tmp_path):
    """Engines of one test, with an installation of its own; nothing of it is there afterwards.

    They are stopped also if the test fails: a loop of uvloop does not close while a connection is open."""
    made: list[Watched] = []

    def make(host: str, installation: str = "") -> Watched:
        made.append(Watched(host, tmp_path / f"engine-{len(made)}", installation or f"test-{uuid.uuid4()}"))
        return made[-1]

    yield make
    for each in made:
        await each.engine.stop()


@pytest.fixture
async def watched(host, make_engine):
    made = make_engine(host)
    await made.begin()
    yield made
    await nothing_left(made)


@pytest.fixture
def engine(watched):
    return watched.engine


@pytest.fixture
async def raw(host):
    """The engine, asked without Windlass."""
    docker = Docker(host)
    yield docker
    await docker.close()
