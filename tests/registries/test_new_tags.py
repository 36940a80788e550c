"""A new tag of an image is deployed wherever services of an organization ask for it."""

from __future__ import annotations

import pytest

from tests.fakes.engine import FakeEngine
from tests.registries.test_containers_of_registries import container, naming, registry
from tests.world import make_world


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, engine=FakeEngine("image")) as made:
        yield made


async def test_a_new_tag_is_deployed_to_all_containers_with_auto_deploy_of_that_image(world):
    id = await registry(world)
    follows = [
        await container(world, auto_deploy=True),
        await container(world, auto_deploy=True, registry_id=id),
    ]
    others = [
        await container(world),
        await container(world, auto_deploy=True, tag="1.1"),
        await container(world, auto_deploy=True, image_name="acme/blog"),
    ]
    path, body = f"/organization/{world.org}/container/deploy", {"image_name": "acme/shop", "tag": "1.1"}
    reader = await world.new_token("Read", "Write")
    assert (await world.post(path, body, token=reader)).status == 403
    answer = await world.post(path, body)
    assert (answer.status, {made["service_id"] for made in answer["deployments"]}) == (202, set(follows))
    await world.settle()
    for service in follows:
        assert (await world.get(f"/container/{service}"))["tag"] == "1.1"
    assert not world.engine.running.keys() & set(others)
    again = await world.post(path, body)
    assert again["deployments"] == [], "a repeated call finds nothing to do"
    assert not again["is_part_last_deployment"]
    assert again["deployment_request_id"] is None
    assert answer["is_part_last_deployment"]
    request = f"/environment/deploymentStatus?deploymentRequestId={answer['deployment_request_id']}"
    assert (await world.get(request))["status"] == "DEPLOYED"


@pytest.mark.parametrize(
    ("image_name", "asked", "is_deployed"),
    [
        ("acme/shop", "docker.io/acme/shop", True),
        ("docker.io/acme/shop", "acme/shop", True),
        ("acme/shop", "index.docker.io/acme/shop", True),
        ("nginx", "docker.io/library/nginx", True),
        ("library/nginx", "nginx", True),
        ("acme/shop", "ghcr.io/acme/shop", False),
        ("acme/shop", "ACME/shop", False),
        ("ghcr.io/acme/shop", "docker.io/acme/shop", False),
    ],
)
async def test_a_docker_hub_image_is_matched_under_all_of_its_names(world, image_name, asked, is_deployed):
    await container(world, image_name=image_name, auto_deploy=True)
    body = {"image_name": asked, "tag": "2.0"}
    answer = await world.post(f"/organization/{world.org}/container/deploy", body)
    assert (answer.status, len(answer["deployments"])) == (202, is_deployed)


REQUIRED = {
    "id", "state", "service_deployment_status", "is_part_last_deployment", "status_details",
    "deployment_request_id", "deployment_requests_count",
}  # fmt: skip
"""The fields without which existing clients refuse a status."""


@pytest.mark.parametrize("base", ["", "/compat"])
@pytest.mark.parametrize("family", ["container", "job"])
@pytest.mark.parametrize("deploys", [True, False])
async def test_announcing_a_new_tag_returns_a_complete_environment_status(world, base, family, deploys):
    if deploys:
        body = naming(family, await registry(world)) | {"auto_deploy": True}
        await world.made(f"/environment/{await world.environment()}/{family}", body)
    body = {"image_name": "acme/shop", "tag": "9"}
    answer = await world.post(f"{base}/organization/{world.org}/{family}/deploy", body)
    assert answer.status == 202
    assert len(answer["deployments"]) == deploys
    assert answer.json.keys() >= REQUIRED
