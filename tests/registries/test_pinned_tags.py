"""Tags are pinned to the digest that they have at a deployment, on engines whose nodes pull images."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.registries import DIGEST, FakeRegistries
from tests.world import World, make_world
from windlass.engines.registries import PullRequest


class Nodes(FakeEngine):
    """An engine that asks no registry."""

    is_tag_pulling = True

    async def resolve(self, request: PullRequest, say: Callable[[str], None]) -> str:
        return request.ref


async def started(world: World, image: str) -> str:
    """Returns the image with which a container of this image is started."""
    environment = await world.environment()
    body = {"name": "shop", "image_name": image, "tag": "1.4.2"}
    service = await world.made(f"/environment/{environment}/container", body)
    await world.post(f"/container/{service}/deploy")
    await world.settle()
    return str(world.engine.applied[-1].artifact.ref)


@pytest.mark.parametrize("image", ["acme/shop", "ghcr.io/acme/shop"])
async def test_a_tag_is_pinned_to_its_digest(database_url, image):
    async with make_world(database_url, engine=Nodes("image"), out=FakeRegistries()) as world:
        assert await started(world, image) == f"{image}@{DIGEST}"


async def test_a_registry_that_only_nodes_reach_gets_the_tag(database_url):
    async with make_world(database_url, engine=Nodes("image")) as world:
        assert await started(world, "acme/shop") == "acme/shop:1.4.2"
