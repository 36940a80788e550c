"""An environment is exported as plain manifests, which need nothing of Windlass."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import yaml
from msgspec.structs import replace

from tests.contract.contract import is_refused
from tests.fakes.engine import FakeEngine
from tests.terraform_services.modules import document
from tests.world import World, make_world
from windlass.control.services import manifest_exports
from windlass.engines.workload import Artifact

CANARY: Final = "canary-of-a-secret"
PROBE: Final = {"type": {"http": {"path": "/up", "port": 80, "scheme": "HTTP"}}, "initial_delay_seconds": 3}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


class File:
    """An exported file, by kind and name of its objects."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.head = "".join(line for line in text.splitlines(True) if line.startswith("#"))
        self.objects: dict[tuple[str, str], Any] = {}
        for found in yaml.safe_load_all(text):
            key = (found["kind"], found["metadata"]["name"])
            assert key not in self.objects, key
            self.objects[key] = found

    def __getitem__(self, key: tuple[str, str]) -> Any:
        return self.objects[key]

    def container(self, kind: str, name: str) -> Any:
        (container,) = self.pod(kind, name)["containers"]
        return container

    def pod(self, kind: str, name: str) -> Any:
        spec = self[kind, name]["spec"]
        if kind == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        return spec["template"]["spec"]


async def exported(world: World, environment: str, **options: Any) -> File:
    answer = await world.get(f"/environment/{environment}/manifestExport", **options)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/yaml"), answer
    return File(answer.body.decode())


@pytest.fixture
async def shop(world: World) -> str:
    """An environment with a service of each kind. Returns its id."""
    made = world.made
    project = await world.project(name="acme")
    shop = await world.environment(project, name="shop")
    await made(f"/project/{project}/secret", {"key": "LICENSE", "value": CANARY})
    orders = await world.database(shop, name="orders", type="POSTGRESQL", version="16")
    await world.database(shop, name="cache", type="REDIS", version="7", accessibility="PUBLIC")
    web = await made(
        f"/environment/{shop}/container",
        {
            "name": "web",
            "image_name": "acme/web",
            "tag": "1.0",
            "arguments": ["sh", "-c", "echo $HOME"],
            "cpu": 200,
            "memory": 64,
            "min_running_instances": 2,
            "max_running_instances": 3,
            "ports": [{"internal_port": 80, "publicly_accessible": True, "external_port": 443}],
            "healthchecks": {"readiness_probe": PROBE},
        },
    )
    own = f"/container/{web}"
    await made(f"{own}/environmentVariable", {"key": "GREETING", "value": "$(hello): 'you'"})
    await made(f"{own}/secret", {"key": "TOKEN", "value": CANARY})
    await made(f"{own}/secret", {"key": "KEY_FILE", "value": CANARY, "mount_path": "/run/key"})
    digits = orders[:8].upper()
    url = f"{{{{QOVERY_POSTGRESQL_Z{digits}_DATABASE_URL_INTERNAL}}}}?ssl=0"
    await made(f"{own}/environmentVariable", {"key": "DATABASE_URL", "value": url})
    await made(f"{own}/customDomain", {"domain": "shop.example.com", "generate_certificate": False})
    await made(
        f"/environment/{shop}/container",
        {
            "name": "files",
            "image_name": "acme/files",
            "tag": "2",
            "storage": [{"size": 2, "mount_point": "/data"}],
        },
    )
    cron = {"cronjob": {"scheduled_at": "0 3 * * *", "timezone": "Europe/Berlin", "arguments": ["purge"]}}
    await made(
        f"/environment/{shop}/job",
        {
            "name": "nightly",
            "source": {"image": {"image_name": "acme/web", "tag": "1.0"}},
            "schedule": cron,
            "max_nb_restart": 2,
        },
    )
    await made(
        f"/environment/{shop}/terraform", document("https://git.example/acme/infra.git") | {"name": "bucket"}
    )
    await world.application(shop, name="api")
    return shop


async def test_each_service_with_an_image_is_in_the_file_with_all_that_it_runs_with(world: World, shop: str):
    file = await exported(world, shop)
    assert {kind for kind, _ in file.objects} == {
        "NetworkPolicy",
        "ConfigMap",
        "Secret",
        "Service",
        "Deployment",
        "StatefulSet",
        "PersistentVolumeClaim",
        "CronJob",
    }
    deployment, web = file["Deployment", "web"], file.container("Deployment", "web")
    assert deployment["spec"]["replicas"] == 2
    assert web["image"] == "acme/web:1.0"
    assert web["args"] == ["sh", "-c", "echo $$HOME"]
    assert web["resources"]["limits"] == {"cpu": "200m", "memory": "64Mi"}
    assert web["readinessProbe"]["httpGet"] == {"port": 80, "path": "/up", "scheme": "HTTP"}
    assert web["envFrom"] == [{"configMapRef": {"name": "web"}}, {"secretRef": {"name": "web"}}]
    assert file["ConfigMap", "web"]["data"]["GREETING"] == "$(hello): 'you'"
    assert file["ConfigMap", "web"]["data"]["PORT"] == "80"
    assert file["Service", "web"]["spec"]["ports"] == [{"name": "tcp-80", "port": 80, "protocol": "TCP"}]
    (claim,) = file.pod("StatefulSet", "files")["volumes"]
    name = claim["persistentVolumeClaim"]["claimName"]
    assert file["PersistentVolumeClaim", name]["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    cron = file["CronJob", "nightly"]["spec"]
    assert (cron["schedule"], cron["timeZone"]) == ("0 3 * * *", "Europe/Berlin")
    assert cron["jobTemplate"]["spec"]["backoffLimit"] == 2
    assert file.container("CronJob", "nightly")["args"] == ["purge"]


async def test_the_manifests_name_no_namespace_and_nothing_of_windlass(world: World, shop: str):
    for found in (await exported(world, shop)).objects.values():
        metadata = found["metadata"]
        assert metadata.keys() <= {"name", "labels"}
        assert not [key for key in metadata.get("labels", {}) if "windlass" in key]


async def test_secrets_are_placeholders_that_are_in_secrets_only_and_listed_once_each(
    world: World, shop: str
):
    file = await exported(world, shop)
    assert CANARY not in file.text
    secret = file["Secret", "web"]["stringData"]
    assert secret["TOKEN"] == "__REPLACE_WEB_TOKEN__"
    assert secret["LICENSE"] == "__REPLACE_ACME_LICENSE__"
    assert secret["DATABASE_URL"] == (
        "postgresql://postgres:__REPLACE_ORDERS_PASSWORD__@orders:5432/postgres?ssl=0"
    )
    assert file["Secret", "orders"]["stringData"] == {"POSTGRES_PASSWORD": "__REPLACE_ORDERS_PASSWORD__"}
    assert file.container("StatefulSet", "cache")["args"][:3] == [
        "redis-server",
        "--requirepass",
        "$(REDIS_PASSWORD)",
    ]
    (volume,) = file.pod("Deployment", "web")["volumes"]
    assert file["Secret", volume["secret"]["secretName"]]["stringData"] == {
        "content": "__REPLACE_WEB_KEY_FILE__"
    }
    without = [found for (kind, _), found in file.objects.items() if kind != "Secret"]
    assert "__REPLACE" not in str(without)
    for word in ("WEB_TOKEN", "ACME_LICENSE", "ORDERS_PASSWORD", "CACHE_PASSWORD", "WEB_KEY_FILE"):
        assert file.head.count(f"__REPLACE_{word}__") == 1, file.head


async def test_only_the_environment_itself_connects_except_to_public_ports(world: World, shop: str):
    file = await exported(world, shop)
    everyone = file["NetworkPolicy", "same-namespace"]["spec"]
    assert everyone["podSelector"] == {}
    assert everyone["ingress"] == [{"from": [{"podSelector": {}}]}]
    public = file["NetworkPolicy", "web-public"]["spec"]
    assert public["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "web"}}
    assert public["ingress"] == [{"ports": [{"port": 80, "protocol": "TCP"}]}]
    assert {name for kind, name in file.objects if kind == "NetworkPolicy"} == {
        "same-namespace",
        "web-public",
        "cache-public",
    }


async def test_what_cannot_be_exported_is_named_with_what_to_do_instead(world: World, shop: str):
    head = (await exported(world, shop)).head
    assert "# - bucket: its resources are outside of the cluster" in head
    assert "# - api: it is built from its files: deploy it first" in head
    assert "public ports 80 (HTTP) with the domains shop.example.com: add an Ingress" in head
    assert "# - web: its scaling to up to 3 instances: add a HorizontalPodAutoscaler" in head


async def test_a_build_is_exported_by_the_digest_that_a_registry_has(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    environment = await world.environment()
    api = await world.application(environment, name="api")
    await deployed(world, api)
    head = (await exported(world, environment)).head
    assert "# - api: its build is in no registry: give the server a registry" in head

    ref, build = f"registry.example/acme/api@sha256:{'7' * 64}", world.builder.build

    async def pushed(order: Any, say: Any) -> Artifact:
        artifact: Artifact = await build(order, say)
        return replace(artifact, ref=ref)

    monkeypatch.setattr(world.builder, "build", pushed)
    await world.patch(f"/application/{api}", {"build_command": "make"})
    await deployed(world, api)
    file = await exported(world, environment)
    assert file.container("Deployment", "api")["image"] == ref
    (login,) = file.pod("Deployment", "api")["imagePullSecrets"]
    document = json.loads(file["Secret", login["name"]]["stringData"][".dockerconfigjson"])
    assert document["auths"]["registry.example"]["password"].startswith("__REPLACE_")


async def deployed(world: World, application: str) -> None:
    await world.post(f"/application/{application}/deploy", {})
    await world.settle()
    assert (await world.get(f"/application/{application}/status"))["state"] == "RUNNING"


async def test_an_export_needs_no_more_than_read_and_shows_no_more(world: World, shop: str):
    reader = await world.new_token("Read")
    assert (await exported(world, shop, token=reader)).text == (await exported(world, shop)).text
    project = (await world.get(f"/environment/{shop}"))["project"]["id"]
    await world.made(f"/project/{project}/environmentVariable", {"key": "CITY", "value": "Oslo"})
    assert "Oslo" in (await exported(world, shop)).text
    limited = await exported(world, shop, token=await world.new_token("Read", limited_to=[shop]))
    assert "Oslo" not in limited.text
    assert limited["Secret", "web"]["stringData"]["CITY"] == "__REPLACE_ACME_CITY__"
    _, stranger = await world.organization()
    assert (await world.get(f"/environment/{shop}/manifestExport", token=stranger)).status == 404


async def test_an_export_that_is_too_large_is_refused(
    world: World, shop: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(manifest_exports, "MAX_EXPORT_BYTES", 100)
    is_refused(await world.get(f"/environment/{shop}/manifestExport"), 409, "Remove values that are large")
