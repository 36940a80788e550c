"""An environment is exported as Terraform files, and rebuilt from them through the API."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from tests.contract.contract import is_refused
from tests.fakes.engine import FakeEngine
from tests.terraform_exports.configuration import Configuration
from tests.terraform_exports.pictures import picture
from tests.terraform_exports.provider import Provider
from tests.terraform_services.modules import document
from tests.world import World, make_world
from windlass.control.services import terraform_exports

HOSTILE: Final = (
    '"}\n${file("/etc/passwd")} %{ for x in y }$${z} \\" <<EOT\r\n\tEOT \\${a} %%{b} $$${c} é\u2028$'
)
CANARY: Final = "canary-of-a-secret"
PROBE: Final = {"type": {"http": {"path": "/up", "port": 80, "scheme": "HTTP"}}, "initial_delay_seconds": 3}
CRON: Final = {"cronjob": {"scheduled_at": "0 3 * * *", "arguments": ["sh", "-c", HOSTILE]}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


class Shop:
    """An environment with a service of each kind, whose settings and variables are of each form."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def make(self) -> None:
        made, above = self.world.made, f"/organization/{self.world.org}"
        token = await made(f"{above}/gitToken", {"name": "t", "type": "GITHUB", "token": CANARY})
        groups = await made(f"{above}/labelsGroups", {"name": "l", "labels": [{"key": "k", "value": "v"}]})
        self.project = await self.world.project(description=HOSTILE.replace("\n", "").replace("\r", "")[:9])
        self.id = await self.world.environment(self.project, mode="STAGING")
        self.path = f"/environment/{self.id}"
        await self._variables_above()
        repository = {
            "url": "https://github.com/acme/shop.git",
            "branch": "main",
            "root_path": "/web",
            "git_token_id": token,
        }
        self.database = await self.world.database(self.id, name="orders", accessibility="PUBLIC")
        self.web = await made(
            f"{self.path}/application",
            {
                "name": "web ${x}",
                "git_repository": repository,
                "ports": [{"internal_port": 80, "publicly_accessible": True, "external_port": 443}],
                "storage": [{"size": 2, "mount_point": "/data"}],
                "healthchecks": {"readiness_probe": PROBE},
                "arguments": ["sh", "-c", HOSTILE],
                "labels_groups": [{"id": groups}],
            },
        )
        image = {"image_name": "acme/cache", "tag": "1.0"}
        self.cache = await made(f"{self.path}/container", {"name": "web-x", **image})
        self.job = await made(
            f"{self.path}/job", {"name": "nightly", "source": {"image": image}, "schedule": CRON}
        )
        infra = document("https://git.example/acme/infra.git") | {"engine": "TERRAFORM", "name": "bucket"}
        infra["terraform_variables_source"] = {
            "tf_vars": [{"key": "size", "value": HOSTILE}, {"key": "word", "value": CANARY, "secret": True}]
        }
        self.bucket = await made(f"{self.path}/terraform", infra)
        await self._stages()
        await self._variables()
        settings = f"/application/{self.web}/advancedSettings"
        present = (await self.world.get(settings)).json
        await self.world.put(settings, present | {"deployment.termination_grace_period_seconds": 7})
        domain = {"domain": "shop.example.com", "generate_certificate": False}
        await made(f"/application/{self.web}/customDomain", domain)
        restriction = {"mode": "EXCLUDE", "type": "PATH", "value": "docs"}
        await made(f"/application/{self.web}/deploymentRestriction", restriction)

    async def _variables_above(self) -> None:
        made = self.world.made
        self.city = await made(
            f"/project/{self.project}/environmentVariable", {"key": "CITY", "value": HOSTILE}
        )
        await made(f"/project/{self.project}/secret", {"key": "PASSWORD", "value": CANARY})
        self.colour = await made(f"{self.path}/environmentVariable", {"key": "COLOUR", "value": ""})
        await made(f"{self.path}/secret", {"key": "KEY", "value": CANARY, "mount_path": "/run/key"})

    async def _variables(self) -> None:
        made, own = self.world.made, f"/application/{self.web}/environmentVariable"
        file = {"key": "CONFIG", "value": HOSTILE, "mount_path": "/etc/shop.ini", "description": "${d}"}
        await made(own, file)
        await made(f"{own}/{self.city}/override", {"value": "Oslo"})
        self.farbe = await made(f"{own}/{self.colour}/alias", {"key": "FARBE"})
        listed = (await self.world.get(f"/compat{self.path}/environmentVariable"))["results"]
        host = next(one for one in listed if one["key"].endswith(f"Z{self.digits}_HOST_INTERNAL"))
        await made(f"{own}/{host['id']}/alias", {"key": "DB_HOST"})
        await made(own, {"key": "DB", "value": f"tcp://{{{{{host['key']}}}}}:1"})

    @property
    def digits(self) -> str:
        return self.database[:8].upper()

    async def _stages(self) -> None:
        stage = {"name": "${first}", "description": "Before all others"}
        first = await self.world.made(f"{self.path}/deploymentStage", stage)
        stages = (await self.world.get(f"{self.path}/deploymentStage"))["results"]
        await self.world.put(f"/deploymentStage/{first}/moveBefore/{stages[0]['id']}")
        await self.world.put(f"/deploymentStage/{first}/service/{self.job}", {"is_skipped": True})
        jobs = next(stage["id"] for stage in stages if stage["name"] == "default-jobs")
        await self.world.put(f"/deploymentStage/{jobs}/service/{self.cache}", {})

    async def export(self, **options: Any) -> Configuration:
        return await exported(self.world, self.id, **options)


@pytest.fixture
async def shop(world: World) -> Shop:
    made = Shop(world)
    await made.make()
    return made


async def exported(world: World, environment: str, **options: Any) -> Configuration:
    answer = await world.get(f"/environment/{environment}/terraformExport", **options)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream"), answer
    return Configuration(answer.body)


def sender(world: World) -> Callable[[str, str, Any], Any]:
    async def send(method: str, path: str, body: Any) -> Any:
        options = {} if body is None else {"body": body}
        answer = await world.call(method, f"/compat{path}", **options)
        assert answer.status < 300, (method, path, body, answer)
        return json.loads(answer.body) if answer.body else None

    return send


async def rebuilt(world: World, configuration: Configuration) -> str:
    """Applies a configuration under other names. Returns the id of the environment."""
    (project,) = configuration.of_type("qovery_project").values()
    project["name"] += " again"
    inputs = dict.fromkeys(configuration.secrets, CANARY)
    for service in configuration.of_type("qovery_application").values():
        for domain in service.get("custom_domains", []):
            domain["domain"] = f"again.{domain['domain']}"
    provider = Provider(sender(world), configuration, inputs)
    await provider.apply()
    (label,) = configuration.of_type("qovery_environment")
    return provider.id("qovery_environment", label)


async def seen(world: World, environment: str) -> dict[str, Any]:
    async def read(path: str) -> Any:
        answer = await world.get(path)
        assert answer.status == 200, (path, answer)
        return answer.json

    return await picture(read, f"/environment/{environment}")


async def test_an_environment_is_rebuilt_from_its_export_as_it_was(world: World, shop: Shop):
    configuration = await shop.export()
    copy = await rebuilt(world, configuration)
    before, after = await seen(world, shop.id), await seen(world, copy)
    for name, value in before.items():
        assert after[name] == value, name
    assert after == before
    again = await exported(world, copy)
    assert {name: without_ids(text) for name, text in again.files.items()} == {
        name: without_ids(text) for name, text in configuration.files.items()
    }


def without_ids(text: str) -> str:
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[ _]again|again\.", "", text)


async def test_an_export_has_no_value_of_a_secret_but_an_input_variable_for_each(shop: Shop):
    configuration = await shop.export()
    assert CANARY not in "".join(configuration.files.values())
    assert configuration.secrets == {"project_1_password", "env_2_key", "bucket_word"}
    assert all("default" not in configuration.variables[name] for name in configuration.secrets)


async def test_values_of_secrets_cannot_be_asked_for(world: World, shop: Shop):
    answer = await world.get(f"{shop.path}/terraformExport?exportSecrets=true")
    is_refused(answer, 400, "exportSecrets: leave it out")
    assert (await world.get(f"{shop.path}/terraformExport?exportSecrets=false")).status == 200


async def test_what_the_provider_cannot_express_is_told_in_comments(world: World, shop: Shop):
    assert (await world.patch(f"/application/{shop.web}", {"watch_paths": ["web"]})).status == 200
    files = (await shop.export()).files
    assert (
        '# Not in the provider: watch_paths = ["web"]\nresource "qovery_application" "web_x"'
        in (files["applications.tf"])
    )
    assert "- `qovery_application.web_x`: watch_paths = [" in files["README.md"]


async def test_an_export_needs_no_more_than_read_and_shows_no_more(world: World, shop: Shop):
    reader = await world.new_token("Read")
    assert (await shop.export(token=reader)).files == (await shop.export()).files
    limits = {"limited_to": [shop.id]}
    limited = (await shop.export(token=await world.new_token("Read", **limits))).files
    assert 'resource "qovery_project"' not in limited["environment.tf"]
    assert "CITY" not in "".join(limited.values()).replace('CITY"\n      value = "Oslo', "")
    _, stranger = await world.organization()
    assert (await world.get(f"{shop.path}/terraformExport", token=stranger)).status == 404


async def test_an_export_that_is_too_large_is_refused_with_its_limit(
    world: World, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(terraform_exports, "MAX_EXPORT_BYTES", 1000)
    answer = await world.get(f"{shop.path}/terraformExport")
    is_refused(answer, 409, "Remove values that are large")
