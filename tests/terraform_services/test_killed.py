"""Windlass is killed while a module is applied: nothing is applied twice, no state is lost, and no lock stays
without an owner."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.engines.dockers import BOX, docker_host
from tests.faults.house import House
from tests.faults.programs import Code
from tests.forks import Brood, breeding
from tests.free_ports import free_port
from tests.marks import nightly
from tests.repositories import Repository
from tests.terraform_services.images import program_image
from tests.terraform_services.modules import document, needs_program
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS

pytestmark = pytest.mark.slow

POINTS = [
    ("process", "run to its end"),
    *nightly(
        ("process", "run put off"),
        ("docker", "run to its end"),
        *product(
            ["process", "docker"], ["build planned", "about to fetch", "fetched", "built", "run planned"]
        ),
        *product(["process"], ["about to prune", "rest planned", "about to retire", "retired"]),
        ("docker", "run put off"),
    ),
]
"""Points at which the server dies, from the request to the end of the run."""
DOCKER = "unix:///var/run/docker.sock"
COUNTED = """
resource "terraform_data" "counted" {
  provisioner "local-exec" { command = "echo applied >> $WINDLASS_VOLUME_TERRAFORM/book; sleep 2.5" }
}
output "made" { value = "yes" }
"""


@pytest.fixture(scope="module")
def brood() -> Any:
    with breeding("tests.faults.victim") as made:
        yield made


@pytest.fixture
def engine() -> str:
    return "process"


@pytest.fixture
async def house(tmp_path: Path, brood: Brood, engine: str) -> AsyncIterator[House]:
    needs_program()
    settings: dict[str, Any] = {"port": free_port()}
    if engine == "docker":
        image = program_image(docker_host())
        settings |= {"host": "0.0.0.0", "terraform_image": image, "opentofu_image": image}
    docker = docker_host() or DOCKER if engine == "docker" else ""
    made = House(tmp_path / "house", brood, Code(tmp_path / "code"), docker=docker, **settings)
    async with made.ground.watched():
        try:
            yield made
        finally:
            await made.kill()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "module").put({"infra/main.tf": COUNTED})
    made.commit("A module that counts")
    return made


async def new_service(house: House, repository: Repository) -> str:
    await house.start()
    await house.make_environment()
    made = await house.call("POST", f"/environment/{house.environment}/terraform", document(repository.url))
    assert "id" in made, made
    return f"/terraform/{made['id']}"


async def ended(house: House, service: str, deployment: str) -> Any:
    for _ in range(600):
        shown = await house.call("GET", f"{service}/deployment/{deployment}")
        if shown["status"] not in OPEN_STATES_OF_DEPLOYMENTS:
            return shown
        await asyncio.sleep(0.1)
    raise AssertionError(f"{shown}\n{house.log}")


def times_applied(house: House, service: str, engine: str = "process") -> int:
    if engine == "docker":
        id = service.rpartition("/")[2]
        volume = output("docker", "volume", "ls", "-q", "--filter", f"label=windlass.service={id}").strip()
        return output("docker", "run", "--rm", "-v", f"{volume}:/volume", BOX, "cat", "/volume/book").count(
            "applied"
        )
    books = list((house.data / "run" / "volumes").glob("*/terraform/book"))
    return sum(book.read_text().count("applied") for book in books)


def output(*words: str) -> str:
    environment = os.environ | ({"DOCKER_HOST": docker_host()} if docker_host() else {})
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("engine", "point"), POINTS)
async def test_a_module_is_applied_once_even_if_the_server_dies_at_any_failpoint(
    house: House, repository: Repository, engine: str, point: str
):
    service = await new_service(house, repository)
    house.doom(point)
    async with house.mortal():
        begun = (await house.call("POST", f"{service}/deploy"))["id"]
        await house.dies()
    assert house.deaths, f"it came only to {house.points}"
    house.doom("")
    await house.start()
    done = await ended(house, service, begun)
    assert done["status"] == "SUCCEEDED", done
    assert times_applied(house, service, engine) == 1
    assert (await house.call("GET", f"{service}/lock")) == {"is_locked": False}
    assert [
        one["address"] for one in (await house.call("GET", f"{service}/terraformResources"))["results"]
    ] == ["terraform_data.counted"]


@pytest.mark.nightly
async def test_a_server_that_is_away_at_the_end_of_an_apply_gets_the_state_later(
    house: House, repository: Repository
):
    service = await new_service(house, repository)
    begun = (await house.call("POST", f"{service}/deploy"))["id"]

    while not times_applied(house, service):  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.02)
    await house.kill()
    await asyncio.sleep(3)  # the program tries to store its state meanwhile
    await house.start()
    done = await ended(house, service, begun)
    assert done["status"] == "SUCCEEDED", done
    assert times_applied(house, service) == 1
    assert len((await house.call("GET", f"{service}/stateVersion"))["results"]) == 1
    assert (await house.call("GET", f"{service}/lock")) == {"is_locked": False}
