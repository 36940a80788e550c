"""Fixtures: a whole Windlass on the process engine, a repository with a module, and a service of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.witness import MACHINE
from tests.free_ports import free_port
from tests.repositories import Repository
from tests.terraform_services.modules import MODULE, Service, needs_program
from tests.whole import Place, Windlass, place


@pytest.fixture
async def house() -> AsyncIterator[Place]:
    """A folder for a Windlass at a port that stays the same when it starts again, as runs expect it."""
    needs_program()
    async with place(
        "process",
        port=free_port(),
        git_allow_local=True,
        network_allow=(MACHINE,),
        stop_seconds=1,
        settle_seconds=0,
    ) as made:
        yield made


@pytest.fixture
async def windlass(house: Place) -> AsyncIterator[Windlass]:
    async with house.windlass() as started:
        yield started


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.put({"infra/main.tf": MODULE})
    made.commit("A module")
    return made


@pytest.fixture
async def environment(windlass: Windlass) -> str:
    return await new_environment(windlass)


async def new_environment(windlass: Windlass) -> str:
    org = (await windlass.call("GET", "/organization"))["id"]
    project = (await windlass.call("POST", f"/organization/{org}/project", {"name": "shop"}))["id"]
    made = await windlass.call("POST", f"/project/{project}/environment", {"name": "production"})
    return str(made["id"])


@pytest.fixture
def service(windlass: Windlass, repository: Repository, environment: str) -> Service:
    return Service(windlass, repository, environment)
