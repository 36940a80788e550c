"""Containers: an image that is there already, its tag, and what happens where it cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.tables import rows
from tests.world import World, make_world
from windlass.core.words.events import Event

IMAGE = {"image_name": "ghcr.io/acme/shop", "tag": "1.0"}


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, engine=FakeEngine("image")) as made:
        yield made


async def container(world: World, environment: str | None = None, **fields: Any) -> str:
    environment = environment or await world.environment()
    body = {"name": world.name("container"), **IMAGE} | fields
    return await world.made(f"/environment/{environment}/container", body)


async def deploy(world: World, one: str, **body: Any) -> Any:
    """The deployment, as it ended."""
    answer = await world.post(f"/container/{one}/deploy", body or None)
    assert answer.status == 202, answer
    await world.settle()
    return (await world.get(f"/container/{one}/deployment/{answer['id']}")).json


async def freshness(world: World, one: str) -> str:
    return str((await world.get(f"/container/{one}/status"))["service_deployment_status"])


async def test_a_container_runs_its_image_without_a_build(world: World):
    one = await container(world)
    ended = await deploy(world, one)
    assert (ended["status"], ended["image_tag"], ended["commit"]) == ("SUCCEEDED", "1.0", None)
    running = world.engine.running[one]
    assert (running.artifact.ref, running.command, running.entrypoint) == ("ghcr.io/acme/shop:1.0", (), ())
    assert not world.builder.built


async def test_entrypoint_and_arguments_replace_those_of_the_image(world: World):
    one = await container(world, entrypoint="/bin/serve --fast", arguments=["--port", "80"])
    await deploy(world, one)
    running = world.engine.running[one]
    assert (running.entrypoint, running.command) == (("/bin/serve", "--fast"), ("--port", "80"))


async def test_a_container_gets_its_declared_ports_storage_probes_and_size(world: World):
    probe = {"type": {"tcp": {"port": 80}}, "initial_delay_seconds": 0}
    one = await container(
        world,
        cpu=250,
        memory=64,
        ports=[{"internal_port": 80, "publicly_accessible": True}],
        storage=[{"size": 1, "mount_point": "/data"}],
        healthchecks={"readiness_probe": probe},
    )
    await deploy(world, one)
    running = world.engine.running[one]
    assert (running.cpu, running.memory, running.alone) == (250, 64, True)
    assert [port.internal for port in running.ports] == [80]
    assert [volume.mount for volume in running.volumes] == ["/data"]
    assert [known.port for known in running.ready] == [80]
    assert len((await world.get(f"/container/{one}/link"))["results"]) == 1


async def test_a_container_gets_its_variables_and_secrets(world: World):
    one = await container(world)
    await world.made(f"/container/{one}/environmentVariable", {"key": "COLOUR", "value": "red"})
    await world.made(f"/container/{one}/secret", {"key": "PASSWORD", "value": "canary"})
    await deploy(world, one)
    running = world.engine.running[one]
    assert (running.variables["COLOUR"], running.variables["PASSWORD"]) == ("red", "canary")
    assert "PASSWORD" in running.hidden


async def test_other_services_get_the_host_variable_of_a_container_with_a_port(world: World):
    environment = await world.environment()
    one = await container(world, environment, ports=[{"internal_port": 80}])
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert f"QOVERY_CONTAINER_Z{one[:8].upper()}_HOST_INTERNAL" in world.engine.running[app].variables


async def test_a_container_waits_for_the_databases_of_its_environment(world: World):
    environment = await world.environment()
    one, database = await container(world, environment), await world.database(environment)
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    assert [wanted.service for wanted in world.engine.applied] == [database, one]


# Tags


async def test_deploying_a_container_with_a_tag_stores_the_tag(world: World):
    one = await container(world)
    await deploy(world, one)
    ended = await deploy(world, one, image_tag="1.1")
    assert (ended["status"], ended["image_tag"]) == ("SUCCEEDED", "1.1")
    assert world.engine.running[one].artifact.ref == "ghcr.io/acme/shop:1.1"
    assert (await world.get(f"/container/{one}"))["tag"] == "1.1"
    assert await freshness(world, one) == "UP_TO_DATE"
    assert len(await world.events(Event.UPDATED)) == 1


async def test_a_deploy_with_an_empty_tag_keeps_the_tag(world: World):
    one = await container(world)
    assert (await deploy(world, one, image_tag=""))["image_tag"] == "1.0"
    assert (await world.get(f"/container/{one}"))["tag"] == "1.0"


async def test_a_container_whose_tag_differs_from_the_running_one_is_out_of_date(world: World):
    one = await container(world)
    await deploy(world, one)
    await world.patch(f"/container/{one}", {"tag": "1.1"})
    assert await freshness(world, one) == "OUT_OF_DATE"
    await deploy(world, one)
    assert await freshness(world, one) == "UP_TO_DATE"


async def test_a_tag_changed_during_a_deployment_is_kept_for_the_next_one(world: World):
    one = await container(world)
    await world.post(f"/container/{one}/deploy", {"image_tag": "1.1"})
    await world.patch(f"/container/{one}", {"tag": "1.2"})
    await world.settle()
    assert world.engine.running[one].artifact.ref == "ghcr.io/acme/shop:1.1"
    assert (await world.get(f"/container/{one}"))["tag"] == "1.2"
    assert await freshness(world, one) == "OUT_OF_DATE"


@pytest.mark.parametrize(("body", "tag"), [({}, "1.0"), ({"settings": "present"}, "1.1")])
async def test_a_rollback_runs_the_earlier_tag_and_may_keep_the_settings(world: World, body: Any, tag: str):
    one = await container(world)
    await deploy(world, one)
    await deploy(world, one, image_tag="1.1")
    answer = await world.post(f"/container/{one}/rollback", body)
    await world.settle()
    ended = await world.get(f"/container/{one}/deployment/{answer['id']}")
    assert (ended["status"], ended["image_tag"]) == ("SUCCEEDED", "1.0")
    assert world.engine.running[one].artifact.ref == "ghcr.io/acme/shop:1.0"
    assert (await world.get(f"/container/{one}"))["tag"] == tag
    assert await freshness(world, one) == ("UP_TO_DATE" if tag == "1.0" else "OUT_OF_DATE")


async def test_a_redeploy_uses_the_running_tag_and_not_a_changed_one(world: World):
    one = await container(world)
    await deploy(world, one)
    await world.patch(f"/container/{one}", {"tag": "1.1"})
    await world.post(f"/container/{one}/redeploy")
    await world.settle()
    assert world.engine.running[one].artifact.ref == "ghcr.io/acme/shop:1.0"


async def test_chosen_containers_are_deployed_each_with_its_tag(world: World):
    environment = await world.environment()
    one, other = await container(world, environment), await container(world, environment)
    chosen = [{"id": one, "image_tag": "2.0"}, {"id": other}]
    answer = await world.post(f"/environment/{environment}/service/deploy", {"containers": chosen})
    assert answer.status == 202, answer
    await world.settle()
    tags = [world.engine.running[id].artifact.ref.rpartition(":")[2] for id in (one, other)]
    assert tags == ["2.0", "1.0"]


async def test_a_container_that_is_chosen_with_two_tags_is_refused(world: World):
    environment = await world.environment()
    id = await container(world, environment)
    path = f"/environment/{environment}/service/deploy"
    for other, status in (({"id": id}, 400), ({"id": id, "image_tag": "3.0"}, 400), (None, 202)):
        entry = {"id": id, "image_tag": "2.0"}
        answer = await world.post(path, {"containers": [entry, other or entry]})
        assert (answer.status, b"name each container once" in answer.body) == (status, status == 400)


# Images that cannot be had


async def test_a_container_is_created_but_not_deployed_where_the_engine_runs_no_images(database_url):
    async with make_world(database_url) as world:
        environment = await world.environment()
        id = await container(world, environment)
        status = (await world.get(f"/container/{id}/status")).json
        assert (status["state"], status["message"].partition(":")[0]) == ("STOPPED", "image_name")
        assert "runs no images" in status["message"]
        ended = await deploy(world, id)
        assert (ended["status"], "runs no images" in ended["message"]) == ("FAILED", True)


async def test_an_image_that_cannot_be_pulled_leaves_the_earlier_one_running(world: World):
    one = await container(world, storage=[{"size": 1, "mount_point": "/data"}])
    await deploy(world, one)
    world.engine.missing = "Choose another tag: there is no 9.9"
    ended = await deploy(world, one, image_tag="9.9")
    reason, _, still = ended["message"].partition(". ")
    assert (ended["status"], reason) == ("FAILED", "Choose another tag: there is no 9.9")
    assert still.startswith("v1 (1.0, deployment ")
    assert still.endswith(") still serves")
    assert world.engine.running[one].artifact.ref == "ghcr.io/acme/shop:1.0"
    log = await world.get(f"/container/{one}/deployment/{ended['id']}/log")
    assert [line["message"] for line in log["results"]][-1] == "Failed: Choose another tag: there is no 9.9"


@pytest.mark.parametrize(
    "name",
    [
        "windlass/shop",
        "docker.io/windlass/shop",
        "index.docker.io/windlass/shop",
        "registry-1.docker.io/windlass/x",
    ],
)
async def test_a_container_cannot_use_an_image_built_for_another_service(world: World, name: str):
    environment = await world.environment()
    body = {"name": "thief", "image_name": name, "tag": "1"}
    answer = await world.post(f"/environment/{environment}/container", body)
    assert (answer.status, answer.message.partition(":")[0]) == (400, "image_name")
    one = await container(world, environment)
    assert (await world.patch(f"/container/{one}", {"image_name": name})).status == 400


@rows(
    ("field", "value"),
    [
        ("image_name", "Acme/Shop"),
        ("image_name", "shop:1.0"),
        ("image_name", "shop@sha256:" + "0" * 64),
        ("image_name", "../shop"),
        ("image_name", "sha256"),
        ("image_name", "https://ghcr.io/acme/shop"),
        ("tag", "-1"),
        ("tag", ""),
        ("tag", "a b"),
        ("tag", "x" * 129),
    ],
)
async def test_a_wrong_name_or_tag_is_refused_by_name(world: World, field: str, value: str):
    environment = await world.environment()
    answer = await world.post(f"/environment/{environment}/container", {"name": "web", **IMAGE, field: value})
    assert (answer.status, answer.message.partition(":")[0]) == (400, field)
    assert field == "tag" or "without its tag: `tag` is for that" in answer.message or value == "sha256"


@pytest.mark.parametrize(
    ("name", "host", "kind"),
    [
        ("nginx", "docker.io", "DOCKER_HUB"),
        ("acme/shop", "docker.io", "DOCKER_HUB"),
        ("docker.io/acme/shop", "docker.io", "DOCKER_HUB"),
        ("ghcr.io/acme/shop", "ghcr.io", "GENERIC_CR"),
        ("localhost:5000/shop", "localhost:5000", "GENERIC_CR"),
    ],
)
async def test_a_container_service_shows_the_name_and_kind_of_its_registry(
    world: World, name: str, host: str, kind: str
):
    one = await container(world, image_name=name)
    registry = (await world.get(f"/container/{one}"))["registry"]
    assert (registry["name"], registry["kind"]) == (host, kind)
    same = await container(world, image_name=name)
    assert (await world.get(f"/container/{same}"))["registry"] == registry
