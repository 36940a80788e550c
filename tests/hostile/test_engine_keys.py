"""The key of an engine is used at the address, and under the authority, that it was stored with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import UNSET

from tests.running.clusters import KEY, PEM, TLS, application_on, cluster, connector, engine_of
from tests.world import World
from windlass.control.request import references

CHANGES: list[dict[str, Any]] = [
    {"engine_address": "tcp://10.0.0.6:2376"},
    {"engine_ca_certificate": PEM + PEM},
]


async def changed(world: World, change: dict[str, Any], method: str = "PATCH") -> tuple[int, bool]:
    """The status of the change without the key, and whether an engine was called with the stored key then."""
    east = await cluster(world)
    known = len(connector(world).checked)
    path = f"/organization/{world.org}/cluster/{east}"
    body = change if method == "PATCH" else {"name": "east"} | change
    answer = await world.call(method, path, body)
    return answer.status, any(access.key for access in connector(world).checked[known:])


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_changing_a_clusters_address_or_ca_requires_sending_its_key_again(world, change, method):
    assert await changed(world, change, method) == (400, False)


ELSEWHERE = "tcp://10.0.0.6:2376"
OTHER_KEY = KEY.replace("MIIE", "MIIF")
AT_ONCE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"engine_address": ELSEWHERE, "engine_key": OTHER_KEY}, {"engine_certificate": PEM + PEM}),
    ({"engine_address": ELSEWHERE, "engine_key": OTHER_KEY}, {"router_port": 9001}),
    ({"engine_address": ELSEWHERE, "engine_key": OTHER_KEY}, {"engine_address": ELSEWHERE}),
    ({"engine_address": ELSEWHERE, "engine_key": OTHER_KEY}, dict.fromkeys(TLS) | {"engine_key": ""}),
]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("changes", AT_ONCE, ids=lambda changes: next(iter(changes[1])))
async def test_concurrent_changes_never_send_the_old_engine_key_to_the_new_address(world, changes, order):
    east = await cluster(world)
    path = f"/organization/{world.org}/cluster/{east}"
    answers = await asyncio.gather(*(world.patch(path, change) for change in changes[::order]))
    await world.settle()
    used = [*connector(world).checked, *connector(world).reconnected]
    keys = {access.address: access.key.strip() for access in used if access.address == ELSEWHERE}
    assert keys.get(ELSEWHERE, OTHER_KEY.strip()) == OTHER_KEY.strip()
    refused = [answer.message for answer in answers if answer.status == 400]
    assert ELSEWHERE in keys or refused, "one of them asked the engine there, or came too late for that"


async def test_a_cluster_change_with_an_outdated_etag_is_refused(world):
    east = await cluster(world)
    path = f"/organization/{world.org}/cluster/{east}"
    old = {"If-Match": (await world.get(path)).headers["etag"]}
    moved = {"engine_address": ELSEWHERE, "engine_key": OTHER_KEY}
    assert (await world.patch(path, {"description": "moved"})).status == 200
    assert (await world.put(path, {"name": "east"} | moved, headers=old)).status == 412
    await world.settle()
    assert not connector(world).reconnected
    assert (await world.get(path))["engine_address"] == TLS["engine_address"]


async def test_a_disconnected_cluster_has_lost_its_engine_key(world):
    east = await cluster(world)
    path = f"/organization/{world.org}/cluster/{east}"
    assert (await world.patch(path, dict.fromkeys(TLS) | {"engine_key": ""})).status == 200
    without = {key: value for key, value in TLS.items() if key != "engine_key"}
    answer = await world.patch(path, without | {"engine_address": ELSEWHERE})
    assert (answer.status, answer.message.partition(":")[0]) == (400, "engine_key")


# Permissions


async def test_a_cluster_is_changed_by_admins_of_its_own_organization_alone(world):
    east = await cluster(world)
    theirs, stranger = await world.organization()
    environment = await world.environment()
    tokens = [(await world.new_token(scope), 403) for scope in ("Read", "Write", "Deploy")]
    tokens += [(stranger, 404), (await world.new_token("Admin", limited_to=[environment]), 403)]
    known = len(connector(world).checked)
    for token, status in tokens:
        for org in (world.org, theirs) if status == 404 else (world.org,):
            path = f"/organization/{org}/cluster/{east}"
            for method, body in (
                ("PATCH", {"engine_key": KEY}),
                ("PUT", {"name": "x", "engine_key": KEY}),
                ("DELETE", UNSET),
            ):
                answer = await world.call(method, path, body, token=token)
                assert answer.status in {status, 404}, (status, method, answer)
    assert len(connector(world).checked) == known, "no engine was called for any of them"
    assert (await world.get(f"/organization/{world.org}/cluster/{east}"))["name"] == "east"


async def test_an_environment_is_moved_to_no_other_cluster(world):
    east = await cluster(world)
    environment = await world.environment()
    before = (await world.get(f"/environment/{environment}"))["cluster_id"]
    for method in ("PATCH", "PUT"):
        await world.call(method, f"/environment/{environment}", {"name": "blue", "cluster_id": east})
        assert (await world.get(f"/environment/{environment}"))["cluster_id"] == before


async def test_a_cluster_is_not_deleted_while_something_is_deployed_there_or_its_engine_is_away(world):
    east = await cluster(world)
    app = await application_on(world, east)
    path = f"/organization/{world.org}/cluster/{east}"
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    assert (await world.delete(path)).status == 409
    await world.settle()
    engine_of(world, east).away = True
    assert (await world.delete(path)).status == 409
    assert (await world.get(path)).status == 200


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_without_the_rule_the_stored_engine_key_would_be_used_at_another_address(
    world, change, monkeypatch
):
    monkeypatch.setattr(references, "_is_turned", lambda new, old: False)
    assert await changed(world, change) == (200, True)
