"""Beyond the contract: under /compat the same objects are served in the full interface's words."""

from __future__ import annotations

import pytest

from tests.contract.contract import KINDS, is_refused, stocked
from tests.world import World

FULL = ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCESSFUL", "DEPLOYMENT_FAILURE"]
KINDS_OF_SERVICE = ["application", "database"]


async def made(world: World, kind: str) -> str:
    return await (world.application() if kind == "application" else world.database())


@pytest.mark.parametrize("kind", KINDS_OF_SERVICE)
async def test_states_use_the_words_of_the_full_interface(world, kind: str) -> None:
    service = f"/{kind}/{await made(world, kind)}"
    seen = [await states(world, service)]
    await world.post(f"{service}/deploy")
    seen.append(await states(world, service))
    await world.settle()
    seen.append(await states(world, service))
    world.engine.broken = "no room"
    await world.post(f"/compat{service}/deploy")
    await world.settle()
    seen.append(await states(world, service))
    assert seen == [
        ("STOPPED", "READY"),
        ("QUEUED", "DEPLOYMENT_QUEUED"),
        ("RUNNING", "DEPLOYED"),
        ("ERROR", "DEPLOYMENT_ERROR"),
    ]


async def states(world, service: str) -> tuple[str, str]:
    """The state, in both vocabularies."""
    return await world.state(service), await world.state(f"/compat{service}")


@pytest.mark.parametrize("kind", KINDS_OF_SERVICE)
async def test_deploy_under_compat_returns_the_service_id_and_its_state(world, kind: str) -> None:
    service = await made(world, kind)
    answer = await world.post(f"/compat/{kind}/{service}/deploy")
    assert answer.status == 202
    assert (answer["id"], answer["state"]) == (service, "DEPLOYMENT_QUEUED")
    assert {"deployment_state", "service_deployment_status", "status_details"} <= answer.json.keys()
    plain = await world.post(f"/{kind}/{service}/deploy")
    assert plain["id"] not in {service, answer["deployment_request_id"]}


async def test_webhook_events_are_returned_in_the_vocabulary_of_the_requested_base_path(world) -> None:
    webhooks = f"/organization/{world.org}/webhook"
    body = {"target_url": "https://hooks.example/", "events": FULL}
    made = await world.post(f"/compat{webhooks}", body)
    assert (made.status, made["events"]) == (201, FULL)
    for base, words in (("/compat", FULL), ("", KINDS), ("/api/v1", KINDS)):
        read = await world.get(f"{base}{webhooks}/{made['id']}")
        assert read["events"] == words
        assert (await world.get(base + webhooks))["results"][0]["events"] == words
        changed = await world.patch(f"{base}{webhooks}/{made['id']}", {"description": base})
        assert changed["events"] == words


async def test_the_words_of_the_contract_are_taken_under_compat_too(embedded) -> None:
    body = {"target_url": "https://hooks.example/", "events": KINDS}
    made = await embedded.post(f"/compat/organization/{embedded.org}/webhook", body)
    assert (made.status, made["events"]) == (201, FULL)


async def test_lists_under_compat_are_complete_unless_a_page_is_requested(embedded) -> None:
    projects = f"/organization/{embedded.org}/project"
    for number in range(101):
        await embedded.post(projects, {"name": f"p{number}"})
    whole = await embedded.get(f"/compat{projects}")
    assert [one["name"] for one in whole["results"]] == [f"p{number}" for number in range(101)]
    assert len((await embedded.get(projects))["results"]) == 100
    assert len((await embedded.get(f"/compat{projects}?page=2"))["results"]) == 1
    assert len((await embedded.get(f"/compat{projects}?page_size=7"))["results"]) == 7


async def test_lists_of_variables_are_complete_too(embedded) -> None:
    variables = f"/application/{await embedded.application()}/environmentVariable"
    for number in range(101):
        await embedded.post(variables, {"key": f"K{number}"})
    whole = await embedded.get(f"/compat{variables}")
    assert len([one for one in whole["results"] if one["key"].startswith("K")]) == 101


async def test_all_other_objects_are_identical_under_compat(world) -> None:
    ids = await stocked(world)
    for path in ("/aws/region", "/project/{project_id}", "/environment/{env_id}", "/application/{app_id}",
                 "/organization/{org_id}/cluster?page=1"):  # fmt: skip
        path = path.format(**ids)
        plain, full = await world.get(path), await world.get(f"/compat{path}")
        assert plain.status == full.status == 200
        assert plain.body == full.body
        assert plain.headers.get("etag") == full.headers.get("etag")


async def test_error_answers_under_compat_equal_those_at_the_root(embedded) -> None:
    for path in ("/nowhere", "/project/1", "/organization?page=0"):
        plain, full = await embedded.get(path), await embedded.get(f"/compat{path}")
        assert plain.status >= 400
        assert (plain.status, plain.body) == (full.status, full.body)
    is_refused(await embedded.get("/compat/organization", token=None), 401)


@pytest.mark.parametrize(
    "path",
    [
        "/compatible/organization",
        "/compat2/organization",
        "/compat/compat/organization",
        "/api/v1/compat/organization",
    ],
)
async def test_a_path_that_merely_starts_with_compat_is_not_found(embedded, path: str) -> None:
    is_refused(await embedded.get(path), 404)
