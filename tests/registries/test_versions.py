"""Newer versions of an image, and images that are checked before a container is made of them."""

from __future__ import annotations

import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.registries import DIGEST, FakeRegistries
from tests.world import make_world

OTHER = f"sha256:{'0' * 64}"


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, engine=FakeEngine("image"), out=FakeRegistries()) as made:
        yield made


@pytest.mark.parametrize(("image", "host"), [("acme/shop", ""), ("ghcr.io/acme/shop", "ghcr.io/")])
async def test_a_container_lists_higher_tags_and_its_own_tag_if_its_digest_changed(world, image, host):
    environment = await world.environment()
    body = {"name": "shop", "image_name": image, "tag": "1.4.2"}
    service = await world.made(f"/environment/{environment}/container", body)
    for runs, moved in ((OTHER, [{"name": "1.4.2", "digest": DIGEST}]), (DIGEST, [])):
        world.engine.digests[f"{image}:1.4.2"] = runs
        await world.post(f"/container/{service}/deploy")
        await world.settle()
        listed = (await world.get(f"/container/{service}/version"))["results"]
        assert listed == [{"name": "1.5.0"}, *moved]


async def test_checking_an_image_returns_its_full_name_and_digest(world):
    environment = await world.environment()
    path = f"/environment/{environment}/checkContainerImage"
    public = await world.post(path, {"image_name": "nginx", "tag": "1"})
    assert public.json == {"image": "nginx:1", "digest": DIGEST}
    body = {"name": "r", "kind": "GENERIC_CR", "url": "https://reg.example.com", "config": {}}
    registry = await world.made(f"/organization/{world.org}/containerRegistry", body)
    own = await world.post(path, {"image_name": "acme/shop", "tag": "1", "registry_id": registry})
    assert own["image"] == "reg.example.com/acme/shop:1"
    _, token = await world.organization()
    assert (await world.post(path, {"image_name": "nginx", "tag": "1"}, token=token)).status == 404
