"""Previews of a tag of an image: which environments get one, what runs there, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.registries.test_containers_of_registries import container
from tests.world import Answer, World, make_world

IMAGE = {"image_name": "acme/shop", "tag": "pr-12"}


@pytest.fixture
async def world(database_url: str) -> Any:
    async with make_world(database_url, engine=FakeEngine("image"), preview_days=3) as made:
        yield made


async def previewed(world: World, **rule: bool) -> str:
    """Makes an environment with previews on. Returns its id."""
    id = await world.environment()
    path = f"/environment/{id}/deploymentRule"
    answer = await world.put(f"{path}/current", rule or {"auto_preview": True})
    assert answer.status == 200, answer
    return id


async def ask(world: World, body: Any = IMAGE, **more: Any) -> Answer:
    answer = await world.post(f"/organization/{world.org}/container/preview", body, **more)
    await world.run(8)
    return answer


async def previews(world: World, base: str) -> list[dict[str, Any]]:
    return list((await world.get(f"/environment/{base}/preview"))["results"])


async def services(world: World, environment: str) -> dict[str, Any]:
    found = (await world.get(f"/environment/{environment}/services"))["results"]
    return {one["name"]: one for one in found}


async def test_a_tag_runs_in_a_copy_of_each_environment_with_its_image_and_previews_on(world: World):
    base, off = await previewed(world), await world.environment()
    await container(world, base, name="web")
    await container(world, base, name="cache", image_name="acme/cache")
    image = {"image_name": "acme/shop", "tag": "1.0"}
    job = {"name": "migrate", "source": {"image": image}, "schedule": {"on_start": {"arguments": ["true"]}}}
    await world.made(f"/environment/{base}/job", job)
    await container(world, off)
    answer = await ask(world)
    assert (answer.status, answer["deployment_requests_count"]) == (202, 1), answer
    [preview] = await previews(world, base)
    assert [one["id"] for one in answer["previews"]] == [preview["id"]]
    assert (preview["state"], preview["deployed_image_tag"]) == ("RUNNING", "pr-12")
    made = await services(world, preview["preview_environment_id"])
    assert made["web"]["tag"] == "pr-12"
    assert made["cache"]["tag"] == "1.0", "another image keeps its tag"
    assert made["migrate"]["source"]["image"]["tag"] == "pr-12"
    pulled = {request.ref for request in world.engine.resolved}
    assert {"acme/shop:pr-12", "acme/cache:1.0"} <= pulled
    assert (await services(world, base))["web"]["tag"] == "1.0", "the original is as it was"
    assert await previews(world, off) == [], "its rule has no previews"


async def test_the_same_tag_again_is_deployed_again_in_the_same_preview(world: World):
    base = await previewed(world, on_demand_preview=True)
    await container(world, base, name="web")
    await ask(world)
    [first] = await previews(world, base)
    pulls = [request.ref for request in world.engine.resolved].count("acme/shop:pr-12")
    await ask(world, {"image_name": "docker.io/acme/shop", "tag": "pr-12"})
    [second] = await previews(world, base)
    assert (second["id"], second["state"]) == (first["id"], "RUNNING")
    assert second["ends_at"] > first["ends_at"]
    assert [request.ref for request in world.engine.resolved].count("acme/shop:pr-12") == pulls + 1


@pytest.mark.parametrize("hides", ["the container", "the tag", "the image", "the preview"])
async def test_an_environment_without_another_tag_of_the_image_gets_no_preview(world: World, hides: str):
    base = await previewed(world)
    hidden: dict[str, dict[str, Any]] = {
        "the container": {"auto_preview": False},
        "the tag": {"tag": "pr-12"},
        "the image": {"image_name": "acme/other"},
    }
    await container(world, base, **hidden.get(hides, {}))
    if hides == "the preview":  # its copy runs the tag, and is no original
        await ask(world)
        answer = await ask(world, IMAGE | {"tag": "pr-13"})
        assert len(answer["previews"]) == 1
        return
    answer = await ask(world)
    assert (answer.status, answer["previews"], answer["is_part_last_deployment"]) == (202, [], False)
    assert await previews(world, base) == []


async def test_a_preview_of_a_tag_needs_write_and_deploy_for_the_project(world: World):
    base = await previewed(world)
    await container(world, base)
    for scopes in (["Write"], ["Deploy"]):
        answer = await ask(world, token=await world.new_token("Read", *scopes))
        assert answer.status == 403, scopes
    assert await previews(world, base) == []
    answer = await ask(world, token=await world.new_token("Write", "Deploy"))
    assert (answer.status, len(answer["previews"])) == (202, 1), "the control"


async def test_a_preview_of_a_tag_made_by_hand_ends_with_its_life(world: World):
    base = await world.environment()
    await container(world, base, name="web")
    path = f"/environment/{base}/preview"
    half = await world.post(path, {"image_tag": "pr-12"})
    assert (half.status, "image_name" in half.message) == (400, True)
    both = {"image_name": "acme/shop", "image_tag": "pr-12", "branch": "main"}
    assert (await world.post(path, both)).status == 400
    body = {"image_name": "acme/shop", "image_tag": "pr-12"}
    assert (await world.post(path, body)).status == 201
    assert (await world.post(path, body)).status == 409
    await world.run(8)
    [preview] = await previews(world, base)
    assert (preview["state"], preview["name"].endswith("-shop-pr-12")) == ("RUNNING", True)
    made = preview["preview_environment_id"]
    world.clock.turn(4 * 24 * 3600)
    await world.run(30)
    assert await previews(world, base) == []
    assert (await world.get(f"/environment/{made}")).status == 404
