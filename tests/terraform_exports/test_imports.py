"""A plan that imports an exported environment shows no change: the files have what the provider reads, and
leave out of plans what it does not read.

The rules are those of the public provider, which was run against the server by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.terraform_exports.test_exports import (
    CANARY,
    CRON,
    Shop,
    exported,
    rebuilt,
    seen,
    shop,
    world,
)
from tests.world import World

__all__ = ("shop", "world")

SCALERS = [
    {"scaler_type": "cron", "role": "PRIMARY", "config_yaml": "timezone: UTC\n"},
    {
        "scaler_type": "prometheus",
        "enabled": False,
        "role": "SAFETY",
        "config_json": {"query": 'up{job="${a}"}'},
        "trigger_authentication": {"name": "login", "config_yaml": "a: 1\n"},
    },
]
PORTS = [{"internal_port": number, "name": name} for number, name in ((90, "a"), (80, "c"), (80, "b"))]


async def test_attributes_that_the_provider_does_not_read_are_left_out_of_plans_that_import(shop: Shop):
    found = (await shop.export()).not_compared
    assert found == {
        ("qovery_project", "project_1"): {"secrets"},
        ("qovery_environment", "env_2"): {"secret_files"},
        ("qovery_deployment_stage", "first"): {"is_before"},
        ("qovery_application", "web_x"): {"environment_variable_files", "labels_group_ids"},
        ("qovery_terraform_service", "bucket"): {"variables"},
    }


async def test_a_described_variable_is_left_out_of_plans_and_a_plain_one_is_compared(world: World):
    environment = await world.environment()
    found = {}
    for name, fields in (("plain", {}), ("told", {"description": "Where people buy rope"})):
        service = await world.application(environment, name=name)
        variable = {"key": "A", "value": "1"} | fields
        await world.made(f"/application/{service}/environmentVariable", variable)
        found = (await exported(world, environment)).not_compared
    assert found == {("qovery_application", "told"): {"environment_variables"}}


async def test_files_say_how_an_import_ends(shop: Shop):
    readme = (await shop.export()).files["README.md"]
    assert "keep `imports.tf` and `imports_override.tf`" in readme
    assert "delete `imports.tf` and `imports_override.tf`" in readme


@pytest.mark.parametrize("kind", ["environmentVariable", "secret"])
async def test_an_alias_of_an_alias_is_exported_as_an_alias_of_its_value(world: World, shop: Shop, kind: str):
    own = f"/application/{shop.web}/{kind}"
    first = await world.made(own, {"key": "FIRST", "value": CANARY})
    second = await world.made(f"{own}/{first}/alias", {"key": "SECOND"})
    await world.made(f"{own}/{second}/alias", {"key": "THIRD"})
    configuration = await shop.export()
    ((name, body),) = configuration.of_type("qovery_application").items()
    attribute = "secret_aliases" if kind == "secret" else "environment_variable_aliases"
    targets = {item["key"]: item["value"] for item in body[attribute]}
    assert (targets["SECOND"], targets["THIRD"]) == ("FIRST", "FIRST")
    assert attribute in configuration.not_compared["qovery_application", name]
    await rebuilt(world, configuration)


async def test_ports_keep_their_order_and_are_compared_only_in_that_of_the_provider(world: World):
    environment = await world.environment()
    ordered = sorted(PORTS, key=lambda port: (port["internal_port"], port["name"]))
    await world.application(environment, name="ordered", ports=ordered)
    await world.application(environment, name="other", ports=PORTS)
    configuration = await exported(world, environment)
    ports = configuration.of_type("qovery_application")["other"]["ports"]
    assert [port["name"] for port in ports] == ["a", "c", "b"]
    assert configuration.not_compared == {("qovery_application", "other"): {"ports"}}


async def test_numbers_that_the_provider_refuses_are_raised_and_told(world: World):
    environment = await world.environment()
    await world.database(environment, name="db", cpu=100, memory=64, storage=3)
    await world.application(environment, name="web", cpu=5, min_running_instances=0)
    configuration = await exported(world, environment)
    database = configuration.of_type("qovery_database")["db"]
    assert (database["cpu"], database["memory"], database["storage"]) == (250, 100, 10)
    web = configuration.of_type("qovery_application")["web"]
    assert (web["cpu"], web["min_running_instances"]) == (10, 1)
    assert configuration.not_compared == {
        ("qovery_database", "db"): {"cpu", "memory", "storage"},
        ("qovery_application", "web"): {"cpu", "min_running_instances"},
    }
    for told in ("cpu = 100", "memory = 64", "storage = 3", "cpu = 5", "min_running_instances = 0"):
        assert told in configuration.files["README.md"]


@pytest.mark.parametrize("family", ["application", "container"])
async def test_a_policy_of_events_is_exported_and_allows_no_instance(world: World, family: str):
    environment = await world.environment()
    body = {"name": "a", "min_running_instances": 0, "autoscaling": {"mode": "KEDA", "scalers": SCALERS}}
    if family == "container":
        await world.made(f"/environment/{environment}/container", body | {"image_name": "a/b", "tag": "1"})
    else:
        await world.application(environment, **body)
    configuration = await exported(world, environment)
    (made,) = configuration.of_type(f"qovery_{family}").values()
    assert made["min_running_instances"] == 0
    assert (made["autoscaling"]["polling_interval_seconds"], configuration.not_compared) == (30, {})
    assert "autoscaling" not in configuration.files["README.md"]
    copy = await rebuilt(world, configuration)
    before, after = await seen(world, environment), await seen(world, copy)
    assert after["settings of a"]["autoscaling"] == before["settings of a"]["autoscaling"]


async def test_a_repository_of_a_host_that_the_provider_does_not_take_is_told(world: World):
    environment = await world.environment()
    for name, host in (("known", "github.com"), ("other", "git.example.com")):
        repository = {"url": f"https://{host}/acme/shop.git", "branch": "main"}
        await world.application(environment, name=name, git_repository=repository)
    told = [
        line
        for line in (await exported(world, environment)).files["README.md"].splitlines()
        if "it takes addresses of github.com, gitlab.com, bitbucket.org" in line
    ]
    assert told == [
        "- `qovery_application.other`: url = https://git.example.com/acme/shop.git: it takes addresses of "
        "github.com, gitlab.com, bitbucket.org"
    ]


async def test_a_stage_whose_name_has_a_comma_tells_why_it_is_not_imported(world: World):
    environment = await world.environment()
    await world.made(f"/environment/{environment}/deploymentStage", {"name": "first, of all"})
    files = (await exported(world, environment)).files
    assert "first, of all" not in files["imports.tf"]
    assert "rename the stage, so that its name has no comma" in files["README.md"]


# What the provider reads under /compat


async def test_a_job_of_a_public_image_names_its_registry_for_clients_of_the_full_interface(world: World):
    environment = await world.environment()
    image = {"image_name": "ghcr.io/acme/report", "tag": "1"}
    job = await world.made(
        f"/environment/{environment}/job", {"name": "a", "source": {"image": image}, "schedule": CRON}
    )
    container = await world.made(f"/environment/{environment}/container", {"name": "b", **image})
    registry = (await world.get(f"/compat/container/{container}"))["registry"]["id"]
    answer = await world.get(f"/compat/job/{job}")
    assert answer["source"]["image"]["registry_id"] == registry
    listed = (await world.get(f"/compat/environment/{environment}/job"))["results"]
    assert listed[0]["source"]["image"]["registry_id"] == registry
    changed: dict[str, Any] = answer.json | {"name": "c"}
    assert (await world.put(f"/compat/job/{job}", changed))["source"]["image"]["registry_id"] == registry
    assert "registry_id" not in (await world.get(f"/job/{job}"))["source"]["image"]


async def test_a_database_in_a_container_has_an_instance_type_for_clients_of_the_full_interface(world: World):
    environment = await world.environment()
    path = f"/compat/database/{await world.database(environment)}"
    answer = await world.get(path)
    assert answer["instance_type"] == "aws-ebs-gp3-0"
    assert (await world.put(path, answer.json))["instance_type"] == "aws-ebs-gp3-0"
    assert "instance_type" not in (await world.get(path.removeprefix("/compat"))).json
    assert "instance_type" not in (await exported(world, environment)).files["databases.tf"]


async def test_a_version_that_the_module_decides_is_one_that_the_provider_takes(world: World, shop: Shop):
    path = f"/compat/terraform/{shop.bucket}"
    answer = await world.get(path)
    assert answer["provider_version"] == {"read_from_terraform_block": True, "explicit_version": "1"}
    changed = await world.put(path, answer.json)
    assert (changed.status, changed["provider_version"]) == (200, answer["provider_version"])
    present = await world.get(f"/terraform/{shop.bucket}")
    assert present["provider_version"] == {"read_from_terraform_block": True, "explicit_version": ""}
    service = (await shop.export()).of_type("qovery_terraform_service")["bucket"]
    assert service["engine_version"] == answer["provider_version"]


async def test_a_terraform_service_without_further_options_has_no_attribute_for_them(
    world: World, shop: Shop
):
    path = f"/terraform/{shop.bucket}"
    assert "action_extra_arguments" not in (await shop.export()).files["terraforms.tf"]
    options = {"plan": ["-parallelism=2"]}
    assert (await world.patch(path, {"action_extra_arguments": options})).status == 200
    service = (await shop.export()).of_type("qovery_terraform_service")["bucket"]
    assert service["action_extra_arguments"] == options
