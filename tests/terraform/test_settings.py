"""Settings of Terraform services that are refused, kept and answered: a world without the program."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.terraform.modules import document
from tests.world import World, make_world
from windlass.builders.terraform import InstalledProgram

URL = "https://git.example/acme/infra.git"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


def body(**fields: Any) -> dict[str, Any]:
    return document(URL) | {"engine": "TERRAFORM"} | fields


async def made(world: World, **fields: Any) -> str:
    return await world.made(f"/environment/{await world.environment()}/terraform", body(**fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"backend": {}}, "backend: must have exactly one of kubernetes and user_provided"),
        (
            {"backend": {"kubernetes": {}, "user_provided": {}}},
            "backend: must have exactly one of kubernetes and user_provided",
        ),
        ({"backend": {"blueprint": {"type": "s3"}}}, "backend.blueprint: choose kubernetes or user_provided"),
        ({"engine": "PULUMI"}, "engine: must be one of"),
        (
            {"provider_version": {"explicit_version": "1.12"}},
            "provider_version.explicit_version: choose one of 1.11.4, which the machine of this server has",
        ),
        (
            {"terraform_variables_source": {"tf_vars": [{"key": "a"}]}},
            "terraform_variables_source.tf_vars[0].value: is required, unless secret is true",
        ),
        (
            {"terraform_variables_source": {"tf_vars": [{"key": "a", "secret": True}]}},
            "terraform_variables_source.tf_vars[0].value: is required: there is no earlier value of a",
        ),
        (
            {"terraform_variables_source": {"tf_vars": [{"key": "a", "value": "1"}] * 2}},
            "terraform_variables_source.tf_vars[1].key: there is already a value for a",
        ),
        (
            {"terraform_variables_source": {"tf_var_file_paths": ["../other.tfvars"]}},
            "terraform_variables_source.tf_var_file_paths[0]: must be a file of the repository",
        ),
        ({"action_extra_arguments": {"login": ["-x"]}}, "action_extra_arguments.login: must be one of init"),
        (
            {"action_extra_arguments": {"plan": ["-out=/tmp/x"]}},
            "action_extra_arguments.plan[0]: leave out -out=/tmp/x: Windlass itself sets this option",
        ),
        ({"dockerfile_fragment": {"type": "inline"}}, "dockerfile_fragment: leave it out"),
    ],
)
async def test_a_wrong_setting_is_refused_by_name(world: World, fields: dict[str, Any], words: str):
    environment = await world.environment()
    refused = await world.post(f"/environment/{environment}/terraform", body(**fields))
    assert refused.status == 400
    assert refused.message.startswith(words), refused.message


class NoPrograms:
    def look(self) -> Sequence[InstalledProgram]:
        return []


async def test_a_place_without_the_program_refuses_with_the_command_that_installs_it():
    async with make_world(programs=NoPrograms()) as world:
        environment = await world.environment()
        refused = await world.post(f"/environment/{environment}/terraform", body())
        assert refused.status == 400
        assert "engine: the machine of this server has no terraform: install it" in refused.message
        assert "apt-get install terraform" in refused.message
        assert (await world.get("/terraform/availableVersion"))["results"] == []


async def test_installed_versions_are_listed(world: World):
    listed = (await world.get("/terraform/availableVersion"))["results"]
    assert {"engine": "TERRAFORM", "version": "1.11.4"} in listed


async def test_a_secret_value_is_never_answered_and_kept_until_it_is_sent_again(world: World):
    source = {"tf_vars": [{"key": "password", "value": "hunter2-hunter2", "secret": True}]}
    service = await made(world, terraform_variables_source=source)
    path = f"/terraform/{service}"
    shown = await world.get(path)
    assert shown["terraform_variables_source"]["tf_vars"] == [{"key": "password", "secret": True}]
    assert "hunter2" not in str(shown.json)
    replaced = await world.put(path, body(terraform_variables_source=shown["terraform_variables_source"]))
    assert replaced.status == 200, replaced
    assert await values_of(world, service) == {"password": "hunter2-hunter2"}
    source["tf_vars"][0]["value"] = "another-secret"
    await world.patch(path, {"terraform_variables_source": source})
    assert await values_of(world, service) == {"password": "another-secret"}
    assert all("hunter2" not in str(event.body) for event in await world.events())


async def values_of(world: World, service: str) -> dict[str, str]:
    """The sealed values, as a run gets them."""
    from windlass.control.workloads.terraform_inputs import secrets_of

    ctx = world.installation.ctx
    row = await ctx.store.reads.resources.get(service)
    assert row is not None
    return secrets_of(ctx, row)


async def test_an_answer_has_one_backend_and_the_repository_in_both_forms(world: World):
    service = await made(world, backend={"kubernetes": {}, "user_provided": None})
    shown = await world.get(f"/terraform/{service}")
    assert shown["backend"] == {"kubernetes": {}}
    files = shown["terraform_files_source"]
    assert files["git"]["git_repository"] == files["git_repository"]
    assert files["git_repository"]["url"] == URL


async def test_a_plan_of_another_service_is_not_applied(world: World):
    first, second = await made(world), await made(world)
    planned = await world.post(f"/terraform/{first}/deploy", {"action": "PLAN"})
    assert planned["status_details"]["sub_action"] == "TERRAFORM_PLAN_ONLY"
    refused = await world.post(f"/terraform/{second}/deploy", {"plan_id": planned["id"]})
    assert refused.status == 404
    both = await world.post(f"/terraform/{first}/deploy", {"plan_id": planned["id"], "action": "PLAN"})
    assert both.status == 400
    assert both.message.startswith("plan_id: leave out git_commit_id and action")


async def test_chosen_services_are_deployed_with_their_action_and_shown_in_statuses(world: World):
    environment = await world.environment()
    service = await world.made(f"/environment/{environment}/terraform", body())
    chosen = {"terraforms": [{"id": service, "action": "PLAN"}]}
    answer = await world.post(f"/environment/{environment}/service/deploy", chosen)
    assert answer.status == 202, answer
    statuses = await world.get(f"/environment/{environment}/statuses")
    assert [status["id"] for status in statuses["terraforms"]] == [service]
    (deployment,) = (await world.get(f"/terraform/{service}/deployment"))["results"]
    assert deployment["status_details"]["sub_action"] == "TERRAFORM_PLAN_ONLY"


async def test_a_copy_has_the_secret_values_and_no_state(world: World):
    source = {"tf_vars": [{"key": "password", "value": "hunter2-hunter2", "secret": True}]}
    service, other = await made(world, terraform_variables_source=source), await world.environment()
    copied = await world.post(f"/terraform/{service}/clone", {"name": "copy", "environment_id": other})
    assert copied.status == 202, copied
    assert copied["environment"] == {"id": other}
    assert await values_of(world, copied["id"]) == {"password": "hunter2-hunter2"}
    assert (await world.get(f"/terraform/{copied['id']}/stateVersion"))["results"] == []
