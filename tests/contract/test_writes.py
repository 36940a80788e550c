"""Beyond the contract: a write can be repeated without harm, and two writers do not overwrite each other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.contract.contract import CREATIONS, NOWHERE, Endpoint, is_refused, place_of, read_back, stocked
from tests.world import Answer, World, make_world

DAY = 24 * 3600
CREATES = [pytest.param(endpoint, id=endpoint.path.rsplit("/", 1)[1]) for endpoint in CREATIONS]


def under(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def project(world: World, key: str, name: str = "shop", **options: Any) -> Answer:
    path = f"/organization/{world.org}/project"
    return await world.post(path, {"name": name}, headers=under(key), **options)


async def projects(world: World) -> list[str]:
    return [one["name"] for one in (await world.get(f"/organization/{world.org}/project"))["results"]]


# Idempotency-Key


@pytest.mark.parametrize("endpoint", CREATES)
async def test_a_request_with_a_repeated_idempotency_key_takes_effect_once_and_gets_the_same_answer(
    embedded, endpoint: Endpoint
) -> None:
    ids = await stocked(embedded)
    first = await endpoint.call(embedded, ids, headers=under("k"))
    again = await endpoint.call(embedded, ids, headers=under("k"))
    assert first.status in {200, 201}
    assert (again.status, again.body, again.headers["etag"]) == (
        first.status,
        first.body,
        first.headers["etag"],
    )
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    listed = (await embedded.get(endpoint.path.format(**ids) + "?page_size=1000"))["results"]
    assert [one["id"] for one in listed].count(first["id"]) == 1
    assert len({one["id"] for one in listed}) == len(listed)


async def test_without_a_key_the_same_request_is_done_twice(world) -> None:
    body = {"target_url": "https://hooks.example/", "events": ["DEPLOYMENT_FAILED"]}
    webhooks = f"/organization/{world.org}/webhook"
    one, other = await world.post(webhooks, body), await world.post(webhooks, body)
    assert one["id"] != other["id"]


async def test_repeating_a_deploy_with_its_idempotency_key_deploys_once(world) -> None:
    deploy = f"/application/{await world.application()}/deploy"
    first = await world.post(deploy, headers=under("k"))
    await world.settle()
    again = await world.post(deploy, headers=under("k"))
    await world.settle()
    assert (again.status, again["id"]) == (202, first["id"])
    assert len(world.engine.applied) == 1


async def test_an_idempotency_key_with_another_body_is_refused(world) -> None:
    await project(world, "k", "shop")
    is_refused(await project(world, "k", "blog"), 409, "Idempotency-Key")
    assert await projects(world) == ["shop"]


async def test_an_idempotency_key_for_another_path_is_refused(world) -> None:
    await project(world, "k", "shop")
    answer = await world.post(f"/organization/{world.org}/apiToken", {"name": "shop"}, headers=under("k"))
    is_refused(answer, 409, "Idempotency-Key")


async def test_an_idempotency_key_expires_after_24_hours(world) -> None:
    first = await project(world, "k", "shop")
    world.clock.turn(DAY - 1)
    assert (await project(world, "k", "shop")).body == first.body
    is_refused(await project(world, "k", "blog"), 409)
    world.clock.turn(1)
    assert (await project(world, "k", "blog")).status == 200
    assert await projects(world) == ["shop", "blog"]


async def test_a_key_is_kept_over_a_sweep_and_a_restart(tmp_path: Path) -> None:
    async with make_world(folder=tmp_path) as world:
        first = await project(world, "k")
        world.clock.turn(DAY // 2)
        await world.settle()
        later = world.clock
    async with make_world(folder=tmp_path, clock=later) as world:
        assert (await project(world, "k")).body == first.body


async def test_idempotency_keys_of_different_callers_are_independent(world) -> None:
    await project(world, "k", "shop")
    other = await project(world, "k", "blog", token=await world.new_token("Write"))
    assert other.status == 200
    assert await projects(world) == ["shop", "blog"]


async def test_a_refused_request_may_be_tried_again_under_the_same_key(world) -> None:
    await world.project(name="shop")
    is_refused(await project(world, "k", "shop"), 409, "name: ")
    assert (await project(world, "k", "blog")).status == 200


async def test_simultaneous_duplicate_requests_take_effect_once(world) -> None:
    answers = await asyncio.gather(*(project(world, "k") for _ in range(5)))
    assert {(answer.status, answer.body) for answer in answers} == {(200, answers[0].body)}
    assert sum("idempotency-replayed" in answer.headers for answer in answers) == 4
    assert await projects(world) == ["shop"]


async def test_a_repeated_request_is_answered_with_the_token_shown_once(world) -> None:
    tokens = f"/organization/{world.org}/apiToken"
    first, again = [await world.post(tokens, {"name": "ci"}, headers=under("k")) for _ in range(2)]
    assert first["token"] == again["token"]


@pytest.mark.parametrize("key", ["", "x" * 256, "é"])
async def test_an_invalid_idempotency_key_is_refused(embedded, key: str) -> None:
    is_refused(await project(embedded, key), 400, "Idempotency-Key")


@pytest.mark.parametrize(
    "key", ["x", "x" * 255, "2f6f1a0e-8f58-4b2e-9a3c-0d6a1f7c9e55", "a key: with 'all' kinds"]
)
async def test_an_idempotency_key_may_be_any_text_within_the_limits(embedded, key: str) -> None:
    first = await project(embedded, key)
    assert (await project(embedded, key)).body == first.body


# ETag and If-Match


@pytest.mark.parametrize("endpoint", CREATES)
async def test_every_resource_has_an_etag_that_is_stable_between_reads(embedded, endpoint: Endpoint) -> None:
    ids = await stocked(embedded)
    created = await endpoint.call(embedded, ids)
    read, again = [await read_back(embedded, endpoint, ids, created["id"]) for _ in range(2)]
    assert created.headers["etag"] == read.headers["etag"] == again.headers["etag"]
    assert read.headers["etag"].startswith('"')


async def test_the_etag_changes_only_when_the_resource_changes(world) -> None:
    id = await world.project(name="shop")
    before = await world.get(f"/project/{id}")
    same = await world.put(f"/project/{id}", {"name": "shop"})
    await world.environment(id)
    unmoved = await world.get(f"/project/{id}")
    changed = await world.put(f"/project/{id}", {"name": "store"})
    after = await world.get(f"/project/{id}")
    assert before.headers["etag"] == same.headers["etag"] == unmoved.headers["etag"]
    assert changed.headers["etag"] == after.headers["etag"] != before.headers["etag"]


async def test_changing_the_value_of_a_secret_changes_its_etag(world) -> None:
    secrets = f"/application/{await world.application()}/secret"
    made = await world.post(secrets, {"key": "PASSWORD", "value": "one"})
    changed = await world.put(f"{secrets}/{made['id']}", {"value": "two"})
    assert changed.status == 200
    assert changed.headers["etag"] != made.headers["etag"]


@pytest.mark.parametrize("endpoint", CREATES)
async def test_a_change_of_an_older_version_is_refused_and_nothing_changes(
    embedded, endpoint: Endpoint
) -> None:
    ids = await stocked(embedded)
    first = await endpoint.call(embedded, ids)
    item = place_of(endpoint, ids, first["id"])
    field, one, other = (
        ("mode", "PRODUCTION", "STAGING") if "mode" in first.json else ("description", "1", "2")
    )
    if endpoint.path.endswith("/database"):
        field, one, other = "version", "15", "14"
    assert (await embedded.put(item, {field: one}, headers=matching(first))).status == 200
    current = await embedded.get(item)
    for answer in (
        await embedded.put(item, {field: other}, headers=matching(first)),
        await embedded.delete(item, headers=matching(first)),
    ):
        is_refused(answer, 412, "ETag")
    assert (await embedded.get(item)).body == current.body
    assert (await embedded.delete(item, headers=matching(current))).status == 204


def matching(answer: Answer) -> dict[str, str]:
    return {"If-Match": answer.headers["etag"]}


async def test_one_of_two_changes_of_the_same_version_is_refused(world) -> None:
    item = f"/project/{await world.project()}"
    read = await world.get(item)
    answers = await asyncio.gather(
        *(world.put(item, {"description": str(n)}, headers=matching(read)) for n in range(5))
    )
    assert sorted(answer.status for answer in answers) == [200, 412, 412, 412, 412]


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("{tag}", 200),
        ("*", 200),
        ('"other", {tag}', 200),
        ("W/{tag}", 412),
        ('"other"', 412),
        ("", 412),
        ("{bare}", 412),
    ],
)
async def test_if_match_compares_etags_exactly(embedded, form: str, status: int) -> None:
    item = f"/project/{await embedded.project()}"
    tag = (await embedded.get(item)).headers["etag"]
    headers = {"If-Match": form.format(tag=tag, bare=tag.strip('"'))}
    assert (await embedded.put(item, {"description": "New"}, headers=headers)).status == status


async def test_without_if_match_the_last_writer_wins(world) -> None:
    item = f"/project/{await world.project()}"
    for description in ("one", "two"):
        assert (await world.put(item, {"description": description})).status == 200
    assert (await world.get(item))["description"] == "two"


async def test_a_missing_resource_is_not_found_whatever_etag_is_sent(embedded) -> None:
    is_refused(await embedded.put(f"/project/{NOWHERE}", {}, headers={"If-Match": '"x"'}), 404)


# Changes


async def test_a_patch_leaves_other_fields_unchanged(world) -> None:
    application = await world.application(cpu=750, arguments=["serve"])
    before = (await world.get(f"/application/{application}")).json
    after = (await world.patch(f"/application/{application}", {"memory": 1024})).json
    moved = {name for name in before if before[name] != after[name]}
    assert moved <= {"memory", "updated_at"}
    assert after["memory"] == 1024
