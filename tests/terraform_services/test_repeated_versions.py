"""Redeploy and rollback of a Terraform service repeat versions that were applied, and no other action."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.terraform_services.test_moved_states import ELSEWHERE, Modules, ran, service_of
from tests.world import World, make_world
from windlass.launch.terraform import APPLY, PLAN_ONLY, UNLOCK


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made_world:
        yield made_world


async def repeated(world: World, service: str, verb: str, body: Any = None) -> Any:
    answer = await world.post(f"/terraform/{service}/{verb}", body)
    assert answer.status == 202, answer
    await world.settle()
    return await world.get(f"/terraform/{service}/deployment/{answer['id']}")


def actions(programs: Modules) -> list[str]:
    return [
        msgspec.json.decode(workload.variables["WINDLASS_TERRAFORM"])["action"]
        for workload in programs.started
    ]


async def test_a_redeploy_releases_no_lock(world: World):
    programs = Modules(world)
    service = await service_of(world)
    for body in ({}, {"action": "PLAN"}, {"action": "FORCE_UNLOCK"}):
        assert await ran(world, service, **body) == ("SUCCEEDED", "")
    assert (await repeated(world, service, "redeploy"))["status"] == "SUCCEEDED"
    assert actions(programs) == [APPLY, PLAN_ONLY, UNLOCK, APPLY]


async def test_a_redeploy_of_a_service_that_was_only_planned_applies_nothing(world: World):
    programs = Modules(world)
    service = await service_of(world)
    assert await ran(world, service, action="PLAN") == ("SUCCEEDED", "")
    await repeated(world, service, "redeploy")
    assert actions(programs) == [PLAN_ONLY, PLAN_ONLY]


async def test_the_list_of_services_says_that_a_module_was_only_planned(world: World):
    Modules(world)
    service = await service_of(world)
    environment = (await world.get(f"/terraform/{service}"))["environment"]["id"]
    project = (await world.get(f"/environment/{environment}"))["project"]["id"]
    organization = (await world.get(f"/project/{project}"))["organization"]["id"]

    async def is_only_planned() -> bool:
        (listed,) = (await world.get(f"/organization/{organization}/services"))["results"]
        return bool(listed["only_planned"])

    assert not await is_only_planned()
    said = []
    for body in ({"action": "PLAN"}, {}, {"action": "PLAN"}):
        assert await ran(world, service, **body) == ("SUCCEEDED", "")
        said.append(await is_only_planned())
    assert said == [True, False, False]


async def test_a_rollback_applies_the_version_before_the_last_one(world: World):
    programs = Modules(world)
    service = await service_of(world)
    assert await ran(world, service) == ("SUCCEEDED", "")
    world.git.push("second")
    assert await ran(world, service) == ("SUCCEEDED", "")
    world.git.push("third")
    assert await ran(world, service, action="PLAN") == ("SUCCEEDED", "")
    assert (await repeated(world, service, "rollback"))["status"] == "SUCCEEDED"
    first, second, _, last = programs.started
    assert actions(programs)[-1] == APPLY
    assert last.artifact.key == first.artifact.key != second.artifact.key
    planned = (await world.get(f"/terraform/{service}/deployment"))["results"][1]["id"]
    refused = await world.post(f"/terraform/{service}/rollback", {"deployment_id": planned})
    assert (refused.status, "choose one that deployed a version" in refused.message) == (409, True)


async def test_a_rollback_after_a_changed_backend_is_refused(world: World):
    Modules(world)
    service = await service_of(world)
    assert await ran(world, service) == ("SUCCEEDED", "")
    world.git.push("second")
    assert await ran(world, service) == ("SUCCEEDED", "")
    await world.patch(f"/terraform/{service}", ELSEWHERE)
    answer = await repeated(world, service, "rollback")
    assert (answer["status"], "MIGRATE_STATE first" in answer["message"]) == ("FAILED", True)


async def test_a_terraform_rollback_uses_the_backend_of_the_version_that_it_repeats(world: World):
    Modules(world)
    service = await service_of(world)
    assert await ran(world, service) == ("SUCCEEDED", "")
    world.git.push("second")
    await world.patch(f"/terraform/{service}", ELSEWHERE)
    assert await ran(world, service, action="MIGRATE_STATE") == ("SUCCEEDED", "")
    first = (await world.get(f"/terraform/{service}/deployment"))["results"][-1]["id"]
    done = await repeated(world, service, "rollback", {"deployment_id": first})
    assert done["status"] == "SUCCEEDED", done
    shown = await world.get(f"/terraform/{service}")
    assert (
        shown["terraform_files_source"]["git_repository"]["deployed_commit_id"]
        == done["commit"]["git_commit_id"]
    )
