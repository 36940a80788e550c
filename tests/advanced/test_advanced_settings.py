"""Advanced settings: one table, from which clients read all keys with their defaults and replace them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.advanced.page import PAGE, page
from tests.documented import schema
from tests.fakes.engine import FakeEngine
from tests.world import Answer, World, make_world
from windlass.core.settings.cluster_settings import OF_CLUSTERS
from windlass.core.settings.service_settings import (
    OF_APPLICATIONS,
    OF_CONTAINERS,
    OF_JOBS,
    TABLE,
)
from windlass.core.settings.setting import EVERY_ENGINE, SettingsOfKind
from windlass.helm.families.helm_defaults import OF_CHARTS
from windlass.terraform.families.terraform import OF_TERRAFORM

GRACE = "deployment.termination_grace_period_seconds"
STRATEGY = "deployment.update_strategy.type"
ALL = (OF_APPLICATIONS, OF_CONTAINERS, OF_JOBS, OF_CHARTS, OF_TERRAFORM, OF_CLUSTERS)
JOB = {
    "source": {"image": {"image_name": "acme/report", "tag": "1.0"}},
    "schedule": {"on_start": {"arguments": ["migrate"]}},
}


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, engine=FakeEngine("image"), stop_seconds=7) as made:
        yield made


async def subject(world: World, kind: SettingsOfKind) -> str:
    """The path of a new resource of a kind."""
    if kind is OF_CLUSTERS:
        path = f"/organization/{world.org}/cluster"
        return f"{path}/{(await world.get(path))['results'][0]['id']}"
    if kind is OF_APPLICATIONS:
        return f"/application/{await world.application()}"
    environment, name = await world.environment(), kind.title.lower()
    body: dict[str, Any] = {"name": world.name(name)}
    body |= JOB if kind is OF_JOBS else {"image_name": "acme/shop", "tag": "1.0"}
    return f"/{name}/{await world.made(f'/environment/{environment}/{name}', body)}"


async def replaced(world: World, path: str, **options: Any) -> Answer:
    answer = await world.put(f"{path}/advancedSettings", **options)
    assert answer.status == 201, answer
    return answer


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.title)
async def test_the_defaults_have_every_key_of_the_kind(world: World, kind: SettingsOfKind) -> None:
    answer = await world.get(f"/default{kind.title}AdvancedSettings")
    assert (answer.status, set(answer.json)) == (200, {row.name for row in kind.rows})


@pytest.mark.parametrize("base", ["", "/api/v1", "/compat"])
@pytest.mark.parametrize(
    "kind", [OF_APPLICATIONS, OF_CONTAINERS, OF_JOBS, OF_CLUSTERS], ids=lambda k: k.title
)
async def test_clients_send_back_what_they_read_and_nothing_changes(
    world: World, kind: SettingsOfKind, base: str
) -> None:
    path = base + await subject(world, kind)
    read = await world.get(f"{path}/advancedSettings", headers={"user-agent": "Terraform provider 1"})
    assert read.json == (await world.get(f"{base}/default{kind.title}AdvancedSettings")).json
    assert (await replaced(world, path, body=read.json)).json == read.json
    assert "advanced_settings" not in (await world.get(path)).json


async def test_a_replacement_sets_keys_that_are_left_out_to_their_defaults(world: World) -> None:
    path = f"/application/{await world.application()}"
    first = await replaced(world, path, body={GRACE: 30, STRATEGY: "Recreate"})
    assert (first[GRACE], first[STRATEGY]) == (30, "Recreate")
    second = await replaced(world, path, body={GRACE: 40})
    assert (second[GRACE], second[STRATEGY]) == (40, "RollingUpdate")
    assert (await world.get(f"{path}/advancedSettings")).json == second.json
    assert (await world.get(path))["advanced_settings"] == {GRACE: 40}
    await replaced(world, path, body={})
    assert "advanced_settings" not in (await world.get(path)).json


async def test_the_default_of_the_grace_period_is_the_servers_setting(world: World) -> None:
    assert (await world.get("/defaultJobAdvancedSettings"))[GRACE] == 7


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"deployment.grace": 1}, "deployment.grace: is not a field here"),
        ({GRACE: "30"}, f"{GRACE}: must be an integer, not a string"),
        ({GRACE: -1}, f"{GRACE}: must be at least 0"),
        ({GRACE: 3601}, f"{GRACE}: must be at most 3600"),
        ({GRACE: None}, f"{GRACE}: must be an integer, not null"),
        ({STRATEGY: "Restart"}, f"{STRATEGY}: must be one of Recreate, RollingUpdate"),
        (
            {"network.ingress.whitelist_source_range": "10.0.0.0/8, office"},
            "network.ingress.whitelist_source_range: office is no network such as 10.0.0.0/8",
        ),
        *(
            (
                {f"network.ingress.{name}": text},
                f"network.ingress.{name}: name a network such as 10.0.0.0/8, or leave the setting out",
            )
            for name, text in [
                ("whitelist_source_range", ""),
                ("whitelist_source_range", ", ,"),
                ("denylist_source_range", ","),
            ]
        ),
        (
            {"network.ingress.extra_headers": "X-Frame-Options: DENY"},
            "network.ingress.extra_headers: must be a JSON object of texts, such as "
            '{"X-Frame-Options": "DENY"}',
        ),
    ],
    ids=[
        "unknown",
        "type",
        "range",
        "longest",
        "null",
        "choice",
        "network",
        "no network",
        "only commas",
        "denied commas",
        "headers",
    ],
)
async def test_unknown_keys_and_wrong_values_are_refused_by_name(
    world: World, body: dict[str, Any], message: str
) -> None:
    answer = await world.put(f"/application/{await world.application()}/advancedSettings", body)
    assert answer.status == 400
    assert answer.message.startswith(message)


async def test_compatible_clients_may_send_keys_of_later_versions(world: World) -> None:
    path = f"/compat/application/{await world.application()}"
    assert (await replaced(world, path, body={GRACE: 30, "network.next": 1}))[GRACE] == 30


async def test_a_changed_setting_of_deployments_makes_a_service_out_of_date(world: World) -> None:
    path = f"/application/{await world.application()}"
    await world.post(f"{path}/deploy")
    await world.settle()
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == "UP_TO_DATE"
    await replaced(world, path, body={"security.service_account_name": "shop"})
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == "UP_TO_DATE"
    await replaced(world, path, body={GRACE: 30})
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == "OUT_OF_DATE"
    await world.post(f"{path}/deploy")
    await world.settle()
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == "UP_TO_DATE"


@pytest.mark.parametrize(
    ("kind", "status"), [(OF_CONTAINERS, "OUT_OF_DATE"), (OF_JOBS, "UP_TO_DATE")], ids=lambda k: str(k)[:9]
)
async def test_a_setting_acts_with_the_deployment_of_some_kinds_only(
    world: World, kind: SettingsOfKind, status: str
) -> None:
    path = await subject(world, kind)
    await world.post(f"{path}/deploy")
    await world.settle()
    await replaced(world, path, body={"security.read_only_root_filesystem": True})
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == status


async def test_other_changes_of_a_service_keep_its_settings(world: World) -> None:
    path = f"/application/{await world.application()}"
    await replaced(world, path, body={GRACE: 30})
    before = (await world.get(path)).json
    changed = await world.put(
        path, {"name": before["name"], "git_repository": {"url": before["git_repository"]["url"]}}
    )
    assert (changed.status, changed["advanced_settings"]) == (200, {GRACE: 30})
    assert (await world.patch(path, {"cpu": 250}))["advanced_settings"] == {GRACE: 30}


async def test_a_copy_of_a_service_or_of_its_environment_has_its_settings(world: World) -> None:
    environment = await world.environment()
    app = await world.application(environment)
    await replaced(world, f"/application/{app}", body={GRACE: 30})
    copy = await world.post(f"/application/{app}/clone", {"name": "copy", "environment_id": environment})
    assert (await world.get(f"/application/{copy['id']}/advancedSettings"))[GRACE] == 30
    whole = await world.post(f"/environment/{environment}/clone", {"name": "copies", "mode": "STAGING"})
    copies = (await world.get(f"/environment/{whole['id']}/application"))["results"]
    found = [(await world.get(f"/application/{copied['id']}/advancedSettings"))[GRACE] for copied in copies]
    assert found == [30, 30]


async def test_a_change_is_an_event_and_needs_write(world: World) -> None:
    path = f"/application/{await world.application()}"
    reader = await world.new_token("READ")
    assert (await world.get(f"{path}/advancedSettings", token=reader)).status == 200
    assert (await world.put(f"{path}/advancedSettings", {GRACE: 30}, token=reader)).status == 403
    before = len(await world.events("UPDATE"))
    await replaced(world, path, body={GRACE: 30})
    await replaced(world, path, body={GRACE: 30})
    assert len(await world.events("UPDATE")) == before + 1


async def test_the_settings_of_a_cluster_need_admin(world: World) -> None:
    path, body = await subject(world, OF_CLUSTERS), {"loki.log_retention_in_week": 4}
    writer = await world.new_token("WRITE")
    assert (await world.put(f"{path}/advancedSettings", body, token=writer)).status == 403
    assert (await replaced(world, path, body=body))["loki.log_retention_in_week"] == 4
    assert (await world.patch(path, {"description": "moved"})).status == 200
    assert (await world.get(f"{path}/advancedSettings"))["loki.log_retention_in_week"] == 4


async def test_a_change_of_an_older_version_is_refused(world: World) -> None:
    path = f"/application/{await world.application()}"
    old = (await world.get(f"{path}/advancedSettings")).headers["etag"]
    changed = await replaced(world, path, body={GRACE: 30}, headers={"if-match": old})
    assert changed.headers["etag"] == (await world.get(path)).headers["etag"] != old
    late = await world.put(f"{path}/advancedSettings", {GRACE: 40}, headers={"if-match": old})
    assert late.status == 412


async def test_instances_get_the_grace_period_of_their_service(world: World) -> None:
    app = await world.application()
    workloads = []
    for seconds in (7, 30):
        await replaced(world, f"/application/{app}", body={GRACE: seconds})
        await world.post(f"/application/{app}/deploy")
        await world.settle()
        workloads.append(world.engine.applied[-1])
    assert [workload.grace for workload in workloads] == [7, 30]


async def test_a_recreated_service_ends_before_its_new_version_starts(world: World) -> None:
    app = await world.application()
    await replaced(world, f"/application/{app}", body={STRATEGY: "Recreate"})
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert world.engine.applied[-1].alone


def test_the_schema_says_when_each_setting_acts() -> None:
    fields = schema("ApplicationAdvancedSettingsRequest")["properties"]
    assert fields[GRACE]["x-acts"] == "DEPLOYMENT"
    for row in OF_APPLICATIONS.rows:
        assert ("x-acts" in fields[row.name]) is row.acts
        assert fields[row.name].get("x-without-effect", False) is not row.acts


def test_every_setting_that_acts_has_a_test_that_names_it() -> None:
    """Tests of this folder and of the gateway change it, and look at what it does."""
    own = {Path(__file__), PAGE}
    files = [file for file in Path(__file__).parents[1].rglob("test_*.py") if file not in own]
    tests = "\n".join(file.read_text() for file in files)
    names = [row.name for row in TABLE if row.acts]
    untested = [name for name in names if not re.search(rf"\b{name.rpartition('.')[2]}\b", tests)]
    assert untested == []
    assert "no.such_setting" not in tests, "the control"


def test_every_setting_has_a_type_that_people_read() -> None:
    kinds = {row.type_in_words.split(",")[0].partition(" of ")[0] for kind in ALL for row in kind.rows}
    assert kinds <= {
        "integer", "integer or null", "text", "text or null", "true or false", "one", "list", "object",
        "true or false or null", "number",
    }, kinds  # fmt: skip


def test_every_setting_has_a_sentence_of_its_own() -> None:
    for row in (*TABLE, *OF_CLUSTERS.rows):
        assert row.about[0].isupper()
        assert not row.about.endswith(".")


@pytest.mark.parametrize(
    ("key", "field"), [(GRACE, "grace"), ("security.read_only_root_filesystem", "read_only")]
)
def test_a_setting_names_the_engines_whose_code_reads_it(key: str, field: str) -> None:
    named = next(row for row in TABLE if row.name == key).engines.lower().split(", ")
    assert named == [engine for engine in EVERY_ENGINE.lower().split(", ") if reads_field(engine, field)]


def reads_field(engine: str, field: str) -> bool:
    """Whether the package of an engine reads a field of a workload."""
    files = (PAGE.parents[1] / "packages" / engine / "src").rglob("*.py")
    return any(re.search(rf"\bwork(load)?\.{field}\b", file.read_text()) for file in files)


def test_a_setting_without_effect_on_a_kind_says_why() -> None:
    root = next(row for row in OF_JOBS.rows if row.name == "security.read_only_root_filesystem")
    assert not root.acts
    assert root.note == "Runs write their output into the root file system"


def test_the_page_of_the_manual_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.advanced.page`"
