"""Verbs that services of several kinds share act on each of these kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.terraform_services.modules import document
from tests.world import World, make_world
from windlass.engines.workload import OutputLine

IMAGE = {"image_name": "acme/cache", "tag": "1.0"}
JOB = {"source": {"image": IMAGE}, "schedule": {"on_start": {"arguments": ["migrate"]}}}
DEPLOYED = ("application", "container", "database", "job")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


async def service(world: World, kind: str) -> str:
    """Returns the id of a new service."""
    environment = await world.environment()
    if kind == "application":
        return await world.application(environment)
    if kind == "database":
        return await world.database(environment)
    terraform: dict[str, Any] = document("https://git.example/acme/infra.git") | {"engine": "TERRAFORM"}
    bodies: dict[str, dict[str, Any]] = {
        "container": {"name": "cache", **IMAGE},
        "job": {"name": "migrate", **JOB},
    }
    return await world.made(f"/environment/{environment}/{kind}", bodies.get(kind, terraform))


async def deployed(world: World, kind: str) -> str:
    """Returns the path of a service that was deployed."""
    path = f"/{kind}/{await service(world, kind)}"
    assert (await world.post(f"{path}/deploy")).status == 202
    await world.settle()
    return path


async def test_a_database_is_restarted_redeployed_and_uninstalled(world: World):
    path = await deployed(world, "database")
    for verb, state in (("restart-service", "RESTARTED"), ("redeploy", "DEPLOYED"), ("uninstall", "READY")):
        body: dict[str, Any] = {"body": {}} if verb == "uninstall" else {}
        answer = await world.post(f"{path}/{verb}", **body)
        assert answer.status == 202, answer
        await world.settle()
        assert (await world.get(f"{path}/status"))["deployment_state"] == state, verb
    deployments = (await world.get(f"{path}/deployment"))["results"]
    assert len(deployments) >= 3


async def test_a_copied_database_has_the_settings_and_credentials_of_its_own(world: World):
    database = await service(world, "database")
    environment = await world.environment()
    body = {"name": "copy", "environment_id": environment}
    copy = await world.post(f"/database/{database}/clone", body)
    assert (copy.status, copy["name"], copy["environment"]["id"]) == (202, "copy", environment), copy
    original = await world.get(f"/database/{database}")
    assert [copy[name] for name in ("type", "version", "mode")] == [
        original[name] for name in ("type", "version", "mode")
    ]
    passwords = {
        (await world.get(f"/database/{id}/masterCredentials"))["password"] for id in (database, copy["id"])
    }
    assert len(passwords) == 2


async def test_chosen_services_are_uninstalled_and_others_stay(world: World):
    environment = await world.environment()
    first, second = [await world.application(environment) for _ in range(2)]
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    body = {"application_ids": [first]}
    assert (await world.post(f"/environment/{environment}/service/uninstall", body)).status == 200
    await world.settle()
    assert world.engine.running.keys() == {second}


async def test_the_addresses_of_an_environment_are_those_of_its_services(world: World):
    environment = await world.environment()
    ports = [{"internal_port": 80, "publicly_accessible": True}]
    services = [await world.application(environment, ports=ports) for _ in range(2)]
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    listed = (await world.get(f"/environment/{environment}/link"))["results"]
    single = [link for id in services for link in (await world.get(f"/application/{id}/link"))["results"]]
    assert {link["service_id"] for link in listed} == {*services}
    assert listed == single


async def test_sticky_sessions_of_an_application_are_kept(world: World):
    path = f"/application/{await service(world, 'application')}/network"
    assert (await world.get(path)).json == {"sticky_session": False}
    assert (await world.put(path, {"sticky_session": True})).status == 201
    assert (await world.get(path)).json == {"sticky_session": True}


@pytest.mark.parametrize("kind", ["application", "job", "terraform"])
async def test_each_kind_with_code_has_deployment_restrictions(world: World, kind: str):
    path = f"/{kind}/{await service(world, kind)}/deploymentRestriction"
    id = await world.made(path, {"mode": "MATCH", "type": "PATH", "value": "web"})
    replaced = await world.put(f"{path}/{id}", {"mode": "EXCLUDE", "type": "PATH", "value": "docs"})
    assert (replaced.status, replaced["mode"], replaced["value"]) == (200, "EXCLUDE", "docs"), replaced
    assert [one["value"] for one in (await world.get(path))["results"]] == ["docs"]
    assert (await world.delete(f"{path}/{id}")).status == 204
    assert (await world.get(path))["results"] == []


@pytest.mark.parametrize("kind", DEPLOYED)
async def test_each_kind_has_both_histories_of_deployments(world: World, kind: str):
    path = await deployed(world, kind)
    (first,) = (await world.get(f"{path}/deploymentHistory"))["results"]
    (second,) = (await world.get(f"{path}/deploymentHistoryV2"))["results"]
    assert second["identifier"]["service_id"] == path.rpartition("/")[2]
    assert first["id"] == (await world.get(f"{path}/deployment"))["results"][0]["id"]


async def test_a_terraform_service_without_deployments_has_an_empty_history(world: World):
    path = f"/terraform/{await service(world, 'terraform')}"
    assert (await world.get(f"{path}/deploymentHistoryV2"))["results"] == []


async def test_advanced_settings_of_a_terraform_service_are_kept(world: World):
    path = f"/terraform/{await service(world, 'terraform')}/advancedSettings"
    before = (await world.get(path)).json
    assert (await world.put(path, before | {"build.timeout_max_sec": 60})).status == 201
    assert (await world.get(path)).json == before | {"build.timeout_max_sec": 60}


async def test_the_lines_of_a_container_are_its_log(world: World):
    path = await deployed(world, "container")
    world.engine.says(path.rpartition("/")[2], OutputLine(world.clock.now(), "the cache is ready"))
    await world.settle()
    lines = (await world.get(f"{path}/log"))["results"]
    assert "the cache is ready" in {line["message"] for line in lines}


async def test_a_deployment_rule_of_a_project_is_read_and_replaced(world: World):
    path = f"/project/{await world.project()}/deploymentRule"
    cluster = (await world.get(f"/organization/{world.org}/cluster"))["results"][0]["id"]
    rule = {"name": "short", "wildcard": "test-*", "mode": "STAGING", "cluster_id": cluster}
    id = await world.made(path, rule)
    replaced = await world.put(f"{path}/{id}", rule | {"wildcard": "demo-*", "mode": "PRODUCTION"})
    assert (replaced.status, replaced["wildcard"]) == (200, "demo-*"), replaced
    read = await world.get(f"{path}/{id}")
    assert (read["mode"], read["wildcard"], read["priority_index"]) == ("PRODUCTION", "demo-*", 0)
