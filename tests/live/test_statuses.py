"""Statuses of an environment and its services, followed through a socket while they change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.logs.streams import Client, asked, settled
from tests.schemathesis.serving import served
from tests.world import World


@pytest.fixture
async def environment(world: World) -> str:
    return await world.environment()


def path(environment: str, query: str = "") -> str:
    return f"/environment/{environment}/status/stream{query}"


async def statuses(world: World, environment: str) -> Any:
    return (await world.get(f"/environment/{environment}/statuses")).json


def services(data: Any) -> dict[str, Any]:
    return {
        one["id"]: one for shown in data.values() if isinstance(shown, list) for one in shown if "id" in one
    }


async def until(client: Client, state: dict[str, Any], wanted: dict[str, str]) -> None:
    """Lays what comes over what is known, as a client does, until the services are in these states."""
    while {id: one["state"] for id, one in state.items()} != wanted:
        (event,) = await client.events(1)
        if event.data["complete"]:
            state.clear()
        state |= services(event.data)
        for id in event.data["removed"]:
            del state[id]


async def test_a_status_stream_begins_with_the_same_statuses_as_the_read_endpoint(
    world: World, address: str, environment: str
):
    app, database = await world.application(environment), await world.database(environment)
    async with asked(address, path(environment)) as client:
        assert (client.status, client.headers["content-type"]) == (200, "text/event-stream")
        (event,) = await client.events(1)
    assert event.kind == ""
    assert event.id
    assert event.data == {**await statuses(world, environment), "complete": True, "removed": []}
    assert services(event.data).keys() == {app, database}


async def test_a_status_stream_sends_only_changed_statuses(world: World, address: str, environment: str):
    app, other = await world.application(environment), await world.application(environment)
    async with asked(address, path(environment)) as client:
        await client.events(1)
        await world.post(f"/application/{app}/deploy")
        (event,) = await client.events(1)
        assert services(event.data).keys() == {app}
        assert services(event.data)[app] == (await world.get(f"/application/{app}/status")).json
        assert event.data["environment"] == (await world.get(f"/environment/{environment}/status")).json
        assert (event.data["complete"], event.data["removed"]) == (False, [])
        await world.delete(f"/application/{other}")
        (event,) = await client.events(1)
        assert (services(event.data), event.data["removed"]) == ({}, [other])


async def test_applying_each_status_message_yields_the_complete_current_statuses(
    world: World, address: str, environment: str
):
    known: dict[str, Any] = {}
    async with asked(address, path(environment)) as client:
        app, database = await world.application(environment), await world.database(environment)
        await until(client, known, {app: "STOPPED", database: "STOPPED"})
        await world.post(f"/environment/{environment}/deploy")
        await world.settle()
        await until(client, known, {app: "RUNNING", database: "RUNNING"})
        await world.post(f"/application/{app}/stop")
        await world.settle()
        await world.delete(f"/database/{database}")
        await world.settle()
        await until(client, known, {app: "STOPPED"})
        assert known == services(await statuses(world, environment))


async def test_a_variable_change_that_needs_a_deployment_is_sent_as_out_of_date(
    world: World, address: str, environment: str
):
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    project = (await world.get(f"/environment/{environment}"))["project"]["id"]
    for place in (f"/application/{app}", f"/environment/{environment}", f"/project/{project}"):
        async with asked(address, path(environment)) as client:
            (event,) = await client.events(1)
            assert services(event.data)[app]["service_deployment_status"] == "UP_TO_DATE"
            variable = await world.made(f"{place}/environmentVariable", {"key": "COLOUR", "value": "red"})
            (event,) = await client.events(1)
            assert services(event.data)[app]["service_deployment_status"] == "OUT_OF_DATE"
            await world.delete(f"{place}/environmentVariable/{variable}")
            (event,) = await client.events(1)
            assert services(event.data)[app]["service_deployment_status"] == "UP_TO_DATE"


async def test_many_changes_at_once_are_streamed_in_few_events(world: World, address: str, environment: str):
    async with asked(address, path(environment)) as client:
        await client.events(1)
        made = [await world.application(environment) for _ in range(50)]
        known: dict[str, Any] = {}
        count = 0
        while len(known) < len(made):
            known |= services((await client.events(1))[0].data)
            count += 1
        assert count < len(made)


async def test_a_reconnected_status_stream_begins_with_all_current_statuses(
    world: World, address: str, environment: str
):
    app = await world.application(environment)
    async with asked(address, path(environment)) as client:
        (first,) = await client.events(1)
    await world.post(f"/application/{app}/deploy")
    async with asked(address, path(environment), last_event_id=first.id) as client:
        (event,) = await client.events(1)
        assert event.data["complete"]
        assert services(event.data)[app]["state"] == "QUEUED"


async def test_a_new_status_stream_begins_with_current_statuses_although_others_are_connected(
    world: World, address: str, environment: str
):
    app = await world.application(environment)
    async with asked(address, path(environment)) as other:
        await other.events(1)
        await world.post(f"/application/{app}/deploy")
        async with asked(address, path(environment)) as client:
            (event,) = await client.events(1)
            assert services(event.data)[app]["state"] == "QUEUED"


async def test_a_stream_ends_with_its_environment(world: World, address: str):
    project = await world.project()
    one, other = await world.environment(project), await world.environment(project)
    async with asked(address, path(one)) as first, asked(address, path(other)) as second:
        await first.events(1)
        await second.events(1)
        await world.delete(f"/environment/{one}")
        assert [event.kind for event in await first.rest()] == ["end"]
        await world.delete(f"/project/{project}")
        assert [event.kind for event in await second.rest()] == ["end"]
        assert first.ended
        assert second.ended


async def test_a_status_stream_with_follow_false_ends_after_the_current_statuses(
    world: World, environment: str
):
    answer = await world.get(path(environment, "?follow=false"))
    assert answer.body.count(b"\ndata: ") == 2
    assert answer.body.endswith(b'event: end\ndata: {"message":"Nothing more comes"}\n\n')
    assert len(world.installation.ctx.readers) == 0


async def test_a_stream_uses_the_vocabulary_of_its_base_path(world: World, address: str, environment: str):
    app = await world.application(environment)
    for base, state in (("", "STOPPED"), ("/compat", "READY")):
        async with asked(address, base + path(environment)) as client:
            (event,) = await client.events(1)
            assert services(event.data)[app]["state"] == state


async def test_a_reader_without_access_cannot_follow(world: World, environment: str):
    _, stranger = await world.organization()
    elsewhere = await world.new_token("Read", limited_to=[await world.project()])
    service = await world.new_token("Read", limited_to=[await world.application(environment)])
    for token, status in ((stranger, 404), (elsewhere, 404), (service, 404), (None, 401)):
        assert (await world.get(path(environment), token=token)).status == status


async def test_a_status_stream_ends_when_its_token_is_revoked(world: World, address: str, environment: str):
    token = await world.new_token("Read")
    made = (await world.get(f"/organization/{world.org}/apiToken"))["results"][-1]["id"]
    async with asked(address, path(environment), token=token) as client:
        await client.events(1)
        await world.delete(f"/organization/{world.org}/apiToken/{made}")
        await world.application(environment)
        assert [event.kind for event in await client.rest()] == ["refused"]
        assert client.ended


async def test_an_idle_status_stream_ends_when_its_token_is_revoked(
    world: World, address: str, environment: str
):
    world.installation.app._streams._ask = world.installation.app._streams._quiet = 0.02
    token = await world.new_token("Read")
    made = (await world.get(f"/organization/{world.org}/apiToken"))["results"][-1]["id"]
    async with (
        asked(address, path(environment), token=token) as client,
        asked(address, path(environment)) as other,
    ):
        await client.events(1)
        await other.events(1)
        await world.delete(f"/organization/{world.org}/apiToken/{made}")
        assert [event.kind for event in await client.rest()] == ["refused"]
        assert client.ended
        app = await world.application(environment)
        assert services((await other.events(1))[0].data).keys() == {app}  # the control


async def test_all_clients_of_a_status_stream_share_one_reader_that_ends_with_the_last_client(
    world: World, address: str, environment: str
):
    readers = world.installation.ctx.readers
    async with asked(address, path(environment)) as one, asked(address, path(environment)) as other:
        await one.events(1)
        await other.events(1)
        assert len(readers) == 1
        await world.application(environment)
        assert await one.events(1) == await other.events(1)
    await settled(lambda: len(readers) == 0)
    assert not world.installation.ctx.nudges._waiting


async def test_a_change_at_one_replica_is_streamed_at_the_other(replicas: tuple[World, World]):
    one, other = replicas
    environment = await one.environment()
    async with served(other) as address, asked(address, path(environment)) as client:
        await client.events(1)
        app = await one.application(environment)
        assert services((await client.events(1))[0].data).keys() == {app}
        await one.post(f"/application/{app}/deploy")
        assert services((await client.events(1))[0].data)[app]["state"] == "QUEUED"
        other.installation.app.stop_streams()
