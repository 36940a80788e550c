"""Containers take images of registries: names, logins, digests, new tags, copies, and who may do so."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import Answer, World, make_world
from windlass.engines.registries import RegistryLogin

FIRST, SECOND = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
LOGIN = RegistryLogin("reader", "reads-only")


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, engine=FakeEngine("image")) as made:
        yield made


async def registry(world: World, url: str = "https://registry.example.com", **fields: Any) -> str:
    body = {
        "name": world.name("registry"),
        "kind": "GENERIC_CR",
        "url": url,
        "config": {"username": LOGIN.username, "password": LOGIN.password},
    }
    return await world.made(f"/organization/{world.org}/containerRegistry", body | fields)


async def container(world: World, environment: str | None = None, **fields: Any) -> str:
    environment = environment or await world.environment()
    body = {"name": world.name("container"), "image_name": "acme/shop", "tag": "1.0"}
    return await world.made(f"/environment/{environment}/container", body | fields)


async def deployed(world: World, service: str, verb: str = "deploy", body: Any = None) -> Mapping[str, Any]:
    answer = await world.post(f"/container/{service}/{verb}", body)
    assert answer.status == 202, answer
    await world.settle()
    ended: Mapping[str, Any] = (await world.get(f"/container/{service}/deployment/{answer['id']}")).json
    assert ended["status"] == "SUCCEEDED", ended
    return ended


async def test_an_image_is_pulled_from_its_registry_with_that_registrys_login(world):
    service = await container(world, registry_id=await registry(world))
    await deployed(world, service)
    asked = world.engine.resolved[-1]
    assert (asked.ref, asked.login) == ("registry.example.com/acme/shop:1.0", LOGIN)
    assert (asked.is_registered, world.engine.logins[-1]) == (True, LOGIN)
    shown = (await world.get(f"/container/{service}"))["registry"]
    assert (shown["url"], shown["kind"]) == ("https://registry.example.com", "GENERIC_CR")


async def test_an_image_without_a_registry_is_pulled_without_a_login(world):
    await registry(world, url="https://docker.io", kind="DOCKER_HUB")
    service = await container(world)
    await deployed(world, service)
    assert [(asked.ref, asked.login, asked.is_registered) for asked in world.engine.resolved] == [
        ("acme/shop:1.0", None, False)
    ]


async def test_a_tag_is_resolved_at_each_deploy_and_kept_by_restart_redeploy_and_rollback(world):
    tag = "registry.example.com/acme/shop:1.0"
    world.engine.digests[tag] = FIRST
    service = await container(world, registry_id=await registry(world))
    first = await deployed(world, service)
    assert (first["image_tag"], first["image_digest"]) == ("1.0", FIRST)
    world.engine.digests[tag] = SECOND
    for verb in ("restart-service", "redeploy"):
        assert (await deployed(world, service, verb))["image_digest"] == FIRST
        assert world.engine.running[service].artifact.ref.endswith(FIRST)
    assert (await deployed(world, service))["image_digest"] == SECOND
    back = await deployed(world, service, "rollback", {})
    assert (back["image_tag"], back["image_digest"]) == ("1.0", FIRST)
    assert world.engine.running[service].artifact.ref == f"registry.example.com/acme/shop@{FIRST}"
    assert world.engine.logins[-1] == LOGIN, "an earlier image is pulled again where it is gone"


@pytest.mark.parametrize(("body", "login"), [({}, LOGIN), ({"settings": "present"}, None)])
async def test_a_rollback_uses_the_login_of_the_registry_to_which_the_container_refers(world, body, login):
    world.engine.digests |= {
        "registry.example.com/acme/shop:1.0": FIRST,
        "other.example.com/acme/shop:1.0": SECOND,
    }
    service = await container(world, registry_id=await registry(world))
    await deployed(world, service)
    other = await registry(world, url="https://other.example.com")
    assert (await world.patch(f"/container/{service}", {"registry_id": other})).status == 200
    await deployed(world, service)
    await deployed(world, service, "rollback", body)
    assert (world.engine.prepared[-1], world.engine.logins[-1]) == (
        f"registry.example.com/acme/shop@{FIRST}",
        login,
    )


async def test_a_registry_lists_the_services_that_use_it_and_cannot_be_deleted_while_in_use(world):
    path = f"/organization/{world.org}/containerRegistry"
    one, other = await registry(world), await registry(world)
    environment = await world.environment()
    service = await container(world, environment, registry_id=one, name="web")
    assert (await world.get(f"{path}/{one}"))["associated_services_count"] == 1
    refused = await world.delete(f"{path}/{one}")
    assert (refused.status, "1 use it (web)" in refused.message) == (409, True)
    [user] = (await world.get(f"{path}/{one}/associatedServices"))["results"]
    assert (user["service_id"], user["service_type"], user["environment_id"]) == (
        service,
        "CONTAINER",
        environment,
    )
    [status] = (await world.get(f"{path}/{one}/container/status"))["results"]
    assert status["id"] == service
    await world.patch(f"/container/{service}", {"registry_id": other})
    assert [(await world.get(f"{path}/{id}"))["associated_services_count"] for id in (one, other)] == [0, 1]
    assert (await world.delete(f"{path}/{one}")).status == 204
    await world.patch(f"/container/{service}", {"registry_id": None})
    assert (await world.get(f"{path}/{other}"))["associated_services_count"] == 0
    await world.patch(f"/container/{service}", {"registry_id": other})
    await world.delete(f"/environment/{environment}")
    await world.settle()
    assert (await world.get(f"{path}/{other}"))["associated_services_count"] == 0
    assert (await world.delete(f"{path}/{other}")).status == 204


async def test_services_show_the_new_name_of_their_registry(world):
    id = await registry(world)
    service = await container(world, registry_id=id)
    await world.patch(f"/organization/{world.org}/containerRegistry/{id}", {"name": "renamed"})
    assert (await world.get(f"/container/{service}"))["registry"]["name"] == "renamed"


def naming(family: str, id: str, image: str = "acme/shop") -> dict[str, Any]:
    """The body of a service that runs an image of this registry."""
    source = {"image_name": image, "tag": "1", "registry_id": id}
    if family == "container":
        return {"name": "c", **source}
    return {"name": "j", "source": {"image": source}, "schedule": {"on_start": {}}}


FIELDS = {"container": "registry_id", "job": "source.image.registry_id"}
each_family = pytest.mark.parametrize("family", FIELDS)


@each_family
async def test_a_registry_of_another_organization_is_refused_like_an_unknown_one(world, family):
    id, environment = await registry(world), await world.environment()
    other, token = await world.organization()
    assert (await world.get(f"/organization/{other}/containerRegistry/{id}", token=token)).status == 404
    project = await world.made(f"/organization/{other}/project", {"name": "p"}, token=token)
    theirs = await world.made(f"/project/{project}/environment", {"name": "e"}, token=token)
    refused, unknown = [
        await world.post(f"/environment/{theirs}/{family}", naming(family, named), token=token)
        for named in (id, str(uuid.uuid4()))
    ]
    assert (refused.status, refused.message.partition(":")[0]) == (400, FIELDS[family])
    assert refused.message == unknown.message
    assert (await world.post(f"/environment/{environment}/{family}", naming(family, id))).status == 201


async def test_a_stored_reference_to_another_organizations_registry_reveals_nothing(world):
    """Earlier versions stored any id."""
    service = await container(world, auto_deploy=True)
    other, token = await world.organization()
    body = {"name": "r", "kind": "GENERIC_CR", "url": "https://theirs.example.com", "config": {}}
    theirs = await world.made(f"/organization/{other}/containerRegistry", body, token=token)

    async def store(tx):
        row = await tx.resources.get(service)
        document = json.loads(row.body) | {"registry_id": theirs}
        await tx.resources.rewrite(service, json.dumps(document).encode())

    await world.installation.ctx.store.write(store)
    listed = await world.get(f"/container/{service}/version")
    assert (listed.status, "choose a registry of this organization" in listed.message) == (409, True)
    for name, count in (("theirs.example.com/acme/shop", 0), ("acme/shop", 1)):
        path = f"/organization/{world.org}/container/deploy"
        answer = await world.post(path, {"image_name": name, "tag": "2.0"})
        assert (answer.status, answer["deployment_requests_count"]) == (202, count)


@each_family
async def test_a_limited_token_cannot_set_a_registry_or_choose_another_image_of_one(world, family):
    environment = await world.environment()
    id = await registry(world)
    limited = await world.new_token("Write", "Deploy", limited_to=[environment])
    body = naming(family, id)
    refused = await world.post(f"/environment/{environment}/{family}", body, token=limited)
    assert (refused.status, refused.message.partition(":")[0]) == (400, FIELDS[family])
    service = await world.made(f"/environment/{environment}/{family}", body)
    change = {
        name: naming(family, id, "acme/payroll")[name] for name in body.keys() & {"image_name", "source"}
    }
    assert (await world.patch(f"/{family}/{service}", change, token=limited)).status == 403
    assert (await world.post(f"/{family}/{service}/deploy", {"image_tag": "2"}, token=limited)).status == 202


@pytest.mark.parametrize("name", ["ghcr.io/acme/shop", "localhost:5000/acme/shop"])
async def test_an_image_of_another_registry_is_refused(world, name):
    body = {"name": "c", "image_name": name, "tag": "1", "registry_id": await registry(world)}
    refused = await world.post(f"/environment/{await world.environment()}/container", body)
    assert refused.status == 400
    assert "image_name is relative to the registry" in refused.message


def host_for_engines(name: str) -> str:
    """The host that Docker reads in a name, as the reference of its project says."""
    first, slash, _ = name.partition("/")
    is_host = slash and ({".", ":"} & {*first} or first == "localhost" or first != first.lower())
    return first if is_host else "docker.io"


@pytest.mark.parametrize(
    "name",
    [
        "docker.io/evil.test/x", "docker.io/evil.test:8443/x", "docker.io/localhost/x", "EVIL/x", "Evil/a/b",
        "docker.io/docker.io/evil.test/x", "index.docker.io/evil.test/x", "docker.io/EVIL/x",
    ],
)  # fmt: skip
async def test_a_login_for_docker_hub_is_sent_to_no_host_in_the_name_of_an_image(world, name):
    """Negative control: an image of Docker Hub gets it."""
    hub = await registry(world, "https://docker.io")
    environment = await world.environment()
    for image in (name, "acme/shop"):
        body = {"name": world.name("c"), "image_name": image, "tag": "1", "registry_id": hub}
        made = await world.post(f"/environment/{environment}/container", body)
        if made.status == 201:
            await deployed(world, made["id"])
        else:
            assert (made.status, image) == (400, name)
    asked = [(host_for_engines(pull.ref), pull.login) for pull in world.engine.resolved]
    assert asked[-1] == ("docker.io", LOGIN)
    assert {host for host, _ in asked} <= {"docker.io", "index.docker.io"}


async def test_the_login_of_a_registry_with_a_one_word_host_is_not_sent_to_docker_hub(world):
    service = await container(world, registry_id=await registry(world, "https://harbor"))
    await deployed(world, service)
    assert host_for_engines(world.engine.resolved[-1].ref) == "harbor:443"
    restarted = world.engine.logins[-1]
    assert restarted == LOGIN


async def test_jobs_use_registries_like_containers(world):
    id, environment = await registry(world), await world.environment()
    body = {
        "name": "nightly",
        "source": {"image": {"image_name": "acme/report", "tag": "1", "registry_id": id}},
        "schedule": {"cronjob": {"scheduled_at": "0 3 * * *", "timezone": "Etc/UTC"}},
        "healthchecks": {},
    }
    job = await world.made(f"/environment/{environment}/job", body)
    path = f"/organization/{world.org}/containerRegistry/{id}"
    [user] = (await world.get(f"{path}/associatedServices"))["results"]
    assert (user["service_id"], user["service_type"]) == (job, "CRON")
    assert (await world.delete(path)).status == 409
    await world.post(f"/job/{job}/deploy")
    await world.settle()
    asked = world.engine.resolved[-1]
    assert (asked.ref, asked.login) == ("registry.example.com/acme/report:1", LOGIN)
    assert (await world.delete(f"/job/{job}")).status == 204
    await world.settle()
    assert (await world.delete(path)).status == 204


# Copies and network options


async def test_a_copy_has_settings_variables_and_secrets_and_no_data(world):
    source, place = await world.environment(), await world.environment()
    service = await container(
        world, source, registry_id=await registry(world), ports=[{"internal_port": 80}],
        storage=[{"size": 1, "mount_point": "/data"}], cpu=250,
    )  # fmt: skip
    variable = await world.made(
        f"/container/{service}/environmentVariable", {"key": "COLOUR", "value": "red"}
    )
    await world.made(f"/container/{service}/environmentVariable/{variable}/alias", {"key": "FARBE"})
    await world.made(f"/container/{service}/secret", {"key": "PASSWORD", "value": "canary"})
    copied = await world.post(f"/container/{service}/clone", {"name": "copy", "environment_id": place})
    assert (copied.status, copied["environment"]["id"], copied["cpu"]) == (202, place, 250)
    original = (await world.get(f"/container/{service}")).json
    for parts in ("ports", "storage"):
        assert copied[parts][0]["id"] != original[parts][0]["id"]
    await deployed(world, copied["id"])
    variables = world.engine.running[copied["id"]].variables
    assert (variables["COLOUR"], variables["FARBE"], variables["PASSWORD"]) == ("red", "red", "canary")
    values = (await world.get(f"/container/{copied['id']}/environmentVariable"))["results"]
    await world.patch(f"/container/{copied['id']}/environmentVariable/{values[0]['id']}", {"value": "blue"})
    assert (await world.get(f"/container/{service}/environmentVariable/{variable}"))["value"] == "red"
    twice = await world.post(f"/container/{service}/clone", {"name": "copy", "environment_id": place})
    assert twice.status == 409


async def test_a_container_can_be_cloned_only_into_an_environment_that_the_caller_may_write(world):
    place = await world.environment()
    service = await container(world, place)
    _, token = await world.organization()
    other = await world.environment()
    limited = await world.new_token("Write", limited_to=[place])
    for target, problem in ((other, 400), (service, 400), (place, 202)):
        body = {"name": "copy", "environment_id": target}
        assert (await world.post(f"/container/{service}/clone", body, token=limited)).status == problem
    gone: Answer = await world.post(f"/container/{service}/clone", body, token=token)
    assert gone.status == 404


async def test_sticky_sessions_are_one_setting_under_two_names(world):
    path, key = f"/container/{await container(world)}", "network.ingress.enable_sticky_session"
    await world.put(f"{path}/advancedSettings", {"network.ingress.proxy_body_size_mb": 8})
    for wanted in (True, False):
        assert (await world.put(f"{path}/network", {"sticky_session": wanted})).status == 201
        assert (await world.get(f"{path}/network")).json == {"sticky_session": wanted}
        settings = await world.get(f"{path}/advancedSettings")
        assert (settings[key], settings["network.ingress.proxy_body_size_mb"]) == (wanted, 8)


async def test_the_statuses_of_all_containers_of_an_environment_are_listed(world):
    environment = await world.environment()
    services = [await container(world, environment) for _ in range(2)]
    listed = (await world.get(f"/environment/{environment}/container/status"))["results"]
    assert [status["id"] for status in listed] == services
    assert json.dumps(listed).count("NEVER_DEPLOYED") == 2


@pytest.mark.parametrize("key", ["[" * 16_000, '{"a":' * 3_000, "{}", "no JSON", '["a"]'])
async def test_an_invalid_google_service_account_key_is_refused_by_field_name(world, key):
    config = {"region": "europe-west1", "json_credentials": key}
    body = {"name": "google", "kind": "GCP_ARTIFACT_REGISTRY", "config": config}
    refused = await world.post(f"/organization/{world.org}/containerRegistry", body)
    assert (refused.status, refused.message.partition(":")[0]) == (400, "config.json_credentials")


async def test_the_image_of_a_database_is_pulled_for_its_service(world: World):
    """The engine removes an image that no service uses, and counts those of an organization."""
    database = await world.database(version="15")
    assert (await world.post(f"/database/{database}/deploy", {})).status == 202
    await world.settle()
    assert world.engine.prepared[-1] == "postgres:15"
    assert world.engine.users[-1] == (world.org, database)
