"""Settings of Terraform services that are refused, kept and answered: a world without the program."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.free_ports import free_port
from tests.stub_server import StubServer
from tests.tables import rows
from tests.terraform_services.modules import document
from tests.world import World, make_world
from windlass.base.errors import Invalid
from windlass.config import Settings
from windlass.control.context.server_addresses import address_for_containers
from windlass.launch.launcher import LaunchRefused
from windlass.launch.run_server import RunServer
from windlass.launch.terraform_environment import program_environment
from windlass.terraform.families.terraform import Terraform
from windlass.terraform.programs import InstalledProgram, InstalledPrograms
from windlass.terraform.run_programs import launcher_archive, program_of

URL = "https://git.example/acme/infra.git"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


def body(**fields: Any) -> dict[str, Any]:
    return document(URL) | {"engine": "TERRAFORM"} | fields


async def made(world: World, **fields: Any) -> str:
    return await world.made(f"/environment/{await world.environment()}/terraform", body(**fields))


@rows(
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
        *(
            ({"action_extra_arguments": {"plan": [option]}}, "action_extra_arguments.plan[0]: leave out")
            for option in ("-show-sensitive", "--show-sensitive=true", "-json-into=/tmp/x", "-cloud=false")
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
    def find_all(self) -> Sequence[InstalledProgram]:
        return []


async def told(world: World, service: str) -> str:
    """Returns why the service cannot run: its status says it, and its deployment ends with it."""
    path = f"/terraform/{service}"
    said = str((await world.get(f"{path}/status"))["message"])
    assert (await world.post(f"{path}/deploy", {})).status == 202
    await world.run(8)
    status = await world.get(f"{path}/status")
    assert (status["state"], said in status["message"]) == ("ERROR", True), status
    return said


async def test_a_place_without_the_program_says_which_command_installs_it_and_refuses_to_deploy():
    async with make_world(programs=NoPrograms()) as world:
        said = await told(world, await made(world))
        assert "engine: the machine of this server has no terraform: install it" in said
        assert "apt-get install terraform" in said
        assert (await world.get("/terraform/availableVersion"))["results"] == []


async def test_a_version_that_is_not_installed_can_be_chosen_and_is_not_deployed(world: World):
    service = await made(world, provider_version={"explicit_version": "1.5.0"})
    said = "provider_version.explicit_version: choose one of 1.11.4, which the machine of this server has"
    assert (await told(world, service)).startswith(said)


async def test_a_service_tells_the_version_that_is_missing_until_it_has_another_one(world: World):
    service = await made(world)
    path = f"/terraform/{service}"
    for version, says in (("1.5.0", "choose one of 1.11.4"), ("1.11", "")):
        chosen = {"explicit_version": version, "read_from_terraform_block": False}
        changed = await world.patch(path, {"provider_version": chosen})
        assert changed.status == 200
        message = (await world.get(f"{path}/status"))["message"]
        assert says in message if says else not message


@rows(
    ("settings", "server_host", "address"),
    [
        ({"host": "0.0.0.0"}, "machine.here", "http://machine.here:8080"),
        ({"host": "10.0.0.5", "port": 80}, "machine.here", "http://10.0.0.5:80"),
        ({"public_url": "https://windlass.example.com/"}, "machine.here", "https://windlass.example.com"),
        (
            {"host": "0.0.0.0", "public_url": "https://windlass.example.com"},
            "",
            "https://windlass.example.com",
        ),
        ({"host": "0.0.0.0", "containers_url": "http://10.0.0.5:1"}, "machine.here", "http://10.0.0.5:1"),
        ({}, "machine.here", ""),
        ({"host": "0.0.0.0"}, "", ""),
        ({"public_url": "http://localhost:8080"}, "machine.here", ""),
    ],
)
def test_the_server_address_for_containers_is_derived_from_settings_or_refused(
    settings: dict[str, Any], server_host: str, address: str
):
    if address:
        assert address_for_containers(Settings(**settings), server_host) == address
        return
    with pytest.raises(Invalid, match="ask the operator to set containers_url"):
        address_for_containers(Settings(**settings), server_host)


async def test_a_place_with_images_deploys_nothing_while_containers_do_not_reach_the_server():
    async with make_world(engine=FakeEngine("image"), containers_url="") as world:
        said = await told(world, await made(world))
        assert said.startswith("engine: containers do not reach this server")


async def test_a_place_with_images_runs_the_version_that_is_asked_for():
    chosen = {"provider_version": {"explicit_version": "1.9"}}
    async with make_world(engine=FakeEngine("image"), programs=NoPrograms()) as world:
        listed = (await world.get("/terraform/availableVersion"))["results"]
        assert {"engine": "TERRAFORM", "version": "1.11.4"} in listed
        for fields, image in ((chosen, "hashicorp/terraform:1.9"), ({}, "hashicorp/terraform:1.11.4")):
            service = await made(world, **fields)
            row = await world.installation.ctx.store.reads.resources.get(service)
            assert row is not None
            ctx = world.installation.ctx
            program = await program_of(
                ctx.settings, NoPrograms(), await ctx.places.of(service), row.read(Terraform)
            )
            assert (program.image, program.path) == (image, "terraform")


def test_a_run_that_cannot_reach_the_server_names_the_setting_containers_url(
    capsys: pytest.CaptureFixture[str],
):
    server = RunServer([f"http://127.0.0.1:{free_port()}"], "none", ": set containers_url")
    with pytest.raises(LaunchRefused, match=r"does not answer: .*: set containers_url"):
        server.send("GET", "/run", timeout=0.1)
    assert "set containers_url" in capsys.readouterr().err


def test_a_run_that_reaches_another_program_names_the_setting_containers_url():
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with StubServer(("127.0.0.1", 0), Other) as server, server.in_thread():
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(LaunchRefused, match="status 404, and not as Windlass does: set containers_url"):
            RunServer([address], "none", ": set containers_url").greet()


def test_the_launcher_archive_runs_with_only_its_own_files(tmp_path: Path):
    file = tmp_path / "launcher.pyz"
    file.write_bytes(launcher_archive())
    done = subprocess.run([sys.executable, "-I", "-S", file], env={}, capture_output=True, text=True)
    assert "KeyError: 'WINDLASS_TERRAFORM'" in done.stderr, done
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            ast.parse(archive.read(name), feature_version=(3, 10))


async def test_installed_terraform_versions_are_listed(world: World):
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


async def test_a_name_conflict_does_not_affect_secrets_of_services_created_concurrently(world: World):
    """Changes of one group run again when one of them fails: settings are as they were sent each time."""
    environment = await world.environment()
    source = {"tf_vars": [{"key": "password", "value": "hunter2-hunter2", "secret": True}]}
    answers = await asyncio.gather(
        *(
            world.post(
                f"/environment/{environment}/terraform", body(name=name, terraform_variables_source=source)
            )
            for name in ("first", "bucket", "Bucket", "last")
        )
    )
    assert sorted(answer.status for answer in answers) == [201, 201, 201, 409], answers
    (refused,) = (answer for answer in answers if answer.status == 409)
    assert refused.message.startswith("name: there is already one Terraform service")
    for answer in answers:
        if answer.status == 201:
            assert await values_of(world, answer["id"]) == {"password": "hunter2-hunter2"}


async def values_of(world: World, service: str) -> dict[str, str]:
    """The sealed values, as a run gets them."""
    from windlass.terraform.inputs import secrets_of

    ctx = world.installation.ctx
    row = await ctx.store.reads.resources.get(service)
    assert row is not None
    return secrets_of(ctx, row)


async def test_an_answer_has_one_backend_and_the_repository_in_both_formats(world: World):
    service = await made(world, backend={"kubernetes": {}, "user_provided": None})
    shown = await world.get(f"/terraform/{service}")
    assert shown["backend"] == {"kubernetes": {}}
    files = shown["terraform_files_source"]
    assert files["git"]["git_repository"] == files["git_repository"]
    assert files["git_repository"]["url"] == URL


async def test_turning_on_automatic_apply_requires_the_deploy_scope(world: World):
    """Negative control: a token with Deploy turns each of them on, and anyone who may write turns it off."""
    service = await made(world)
    writer = await world.new_token("Write")

    async def choose(action: str, **options: str) -> int:
        change = {"auto_deploy_config": {"auto_deploy": True, "terraform_action": action}}
        return (await world.patch(f"/terraform/{service}", change, **options)).status

    for before, action, status in (
        ("NOOP", "PLAN", 403),
        ("NOOP", "DEFAULT", 403),
        ("PLAN", "DEFAULT", 403),
        ("PLAN", "NOOP", 200),
        ("DEFAULT", "NOOP", 200),
        ("DEFAULT", "DEFAULT", 200),
    ):
        assert await choose(before) == 200
        assert await choose(action, token=writer) == status


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


@pytest.mark.parametrize(
    ("action", "part", "trigger"),
    [
        (None, "TERRAFORM_PLAN_AND_APPLY", "DEPLOY"),
        ("PLAN", "TERRAFORM_PLAN_ONLY", "DEPLOY_DRY_RUN"),
        ("FORCE_UNLOCK", "TERRAFORM_FORCE_UNLOCK_STATE", "TERRAFORM_FORCE_UNLOCK"),
        ("MIGRATE_STATE", "TERRAFORM_MIGRATE_STATE", "TERRAFORM_MIGRATE_STATE"),
    ],
)
async def test_statuses_histories_and_queues_show_the_terraform_action(
    world: World, action: str | None, part: str, trigger: str
):
    """Negative control: an application does no part of a deployment."""
    environment = await world.environment()
    service = await world.made(f"/environment/{environment}/terraform", body())
    await world.post(f"/terraform/{service}/deploy", {"action": action})
    [queued] = (await world.get(f"/environment/{environment}/deploymentQueue"))["results"]
    [waiting] = (await world.get(f"/service/{service}/deploymentQueue"))["results"]
    [listed] = (await world.get(f"/environment/{environment}/statuses"))["terraforms"]
    status = await world.get(f"/terraform/{service}/status")
    [past] = (await world.get(f"/environment/{environment}/deploymentHistoryV2"))["results"]
    assert {queued["trigger_action"], past["trigger_action"]} == {trigger}
    shown = [one["status_details"]["sub_action"] for one in (waiting, listed, status)]
    assert shown == [part] * 3
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    assert (await world.get(f"/application/{app}/status"))["status_details"]["sub_action"] == "NONE"


async def test_a_copy_has_the_secret_values_and_no_state(world: World):
    source = {"tf_vars": [{"key": "password", "value": "hunter2-hunter2", "secret": True}]}
    service, other = await made(world, terraform_variables_source=source), await world.environment()
    copied = await world.post(f"/terraform/{service}/clone", {"name": "copy", "environment_id": other})
    assert copied.status == 202, copied
    assert copied["environment"] == {"id": other}
    assert await values_of(world, copied["id"]) == {"password": "hunter2-hunter2"}
    assert (await world.get(f"/terraform/{copied['id']}/stateVersion"))["results"] == []


@pytest.mark.parametrize(("length", "is_refused"), [(10_000, False), (20_000, True)])
def test_variable_values_too_long_for_a_process_are_refused_with_advice(
    tmp_path: Path, length: int, is_refused: bool
):
    keys = [f"v{number}" for number in range(8)]
    variables = {f"TF_VAR_{key}": "x" * length for key in keys} | {"TMPDIR": str(tmp_path)}
    request = {"var_files": [], "vars": keys, "mirror": "", "downloads": False}
    with pytest.raises(LaunchRefused, match="tf_vars: give shorter") if is_refused else nullcontext():
        environment = program_environment(variables, request, tmp_path, "")
        subprocess.run(["true"], env=dict(environment), check=True)


@pytest.mark.parametrize("closed", ["folder", "n" * 300])
def test_unreadable_folders_in_path_are_skipped(tmp_path, closed):
    (tmp_path / "folder" / "bin").mkdir(parents=True)
    open_folder, program = tmp_path / "open", tmp_path / "open" / "tofu"
    open_folder.mkdir()
    program.write_text('#!/bin/sh\necho \'{"terraform_version": "1.9.4"}\'')
    program.chmod(0o755)
    (open_folder / "terraform").symlink_to(tmp_path / closed / "bin" / "terraform")
    (tmp_path / "folder").chmod(0)  # for all but root, whose long name cannot be entered either
    path = f"{tmp_path / closed / 'bin'}:{open_folder}"
    try:
        assert [found.path for found in InstalledPrograms({"PATH": path}).find_all()] == [str(program)]
    finally:
        (tmp_path / "folder").chmod(0o700)
