"""Steps of the classic builder are containers, without labels that a proxy of the operator could obey."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping

import pytest

from tests.docker.builds.benches import Bench
from tests.docker.watched import SECONDS
from tests.engines.dockers import BOX, build, docker_host
from windlass.docker.builds import guard
from windlass.docker.client import Docker

pytestmark = pytest.mark.slow

ROUTE = "traefik.http.routers.mine.rule"


@pytest.fixture(scope="module")
def host():
    return docker_host()


@pytest.fixture
async def attacker(host, tmp_path):
    made = Bench(host, tmp_path, buildkit=False)
    yield made
    await made.close()


@pytest.fixture
async def base(raw: Docker) -> AsyncIterator[str]:
    ref = f"windlass-test/labels-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\nLABEL traefik.enable=true\n"})
    yield ref
    await raw.raw("DELETE", f"/images/{ref}", params={"force": True})


async def labels_of_step(raw: Docker, attacker: Bench, base: str) -> Mapping[str, str]:
    """Returns the labels with values of the container of a step."""
    mark = f"echo {uuid.uuid4()}"
    text = f"FROM {base} AS one\nLABEL {ROUTE}=Host(shop.example.com)\nFROM one\nRUN {mark}; sleep 4\n"
    building = asyncio.create_task(attacker.build(text))
    labels: dict[str, str] = {}
    async with asyncio.timeout(SECONDS):
        while not building.done():
            for each in await raw.json("GET", "/containers/json"):
                if mark in each["Command"]:
                    labels = each["Labels"]
            await asyncio.sleep(0.1)
    await building
    return {name: value for name, value in labels.items() if value}


async def test_a_step_has_no_labels_of_its_dockerfile_and_of_its_base_image(raw, attacker, base):
    assert await labels_of_step(raw, attacker, base) == {}


async def test_without_the_guard_a_step_has_all_of_them(raw, attacker, base, monkeypatch):
    monkeypatch.setattr(guard, "sets_labels", lambda instruction: False)
    monkeypatch.setattr(guard, "emptied_labels", lambda *_: ())
    labels = {ROUTE: "Host(shop.example.com)", "traefik.enable": "true"}
    assert await labels_of_step(raw, attacker, base) == labels
