"""The address of a webhook may hold a secret, as all of Slack do: only Admin sees more than its host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.webhooks.receivers import Receivers
from tests.world import World, make_world

CANARY = "CANARYxyz0123456789"
SLACK = f"https://hooks.slack.example/services/T000/B000/{CANARY}"
SHOWN = "https://hooks.slack.example/***"
EVENTS = ["DEPLOYMENT_STARTED"]


@pytest.fixture
def receivers() -> Receivers:
    return Receivers()


@pytest.fixture
async def world(database_url: str, receivers: Receivers) -> Any:
    async with make_world(database_url, out=receivers) as made:
        yield made


async def made(world: World, **fields: Any) -> str:
    body = {"target_url": SLACK, "events": EVENTS, "kind": "SLACK"} | fields
    webhook = await world.made(f"/organization/{world.org}/webhook", body)
    return f"/organization/{world.org}/webhook/{webhook}"


async def used(world: World, path: str) -> None:
    await world.post(f"{path}/test")
    await world.post(f"/application/{await world.application()}/deploy")
    await world.settle()


@pytest.mark.parametrize("scope", ["Read", "Write", "Deploy"])
async def test_readers_without_admin_see_the_host_of_an_address_alone(world: World, scope: str):
    path = await made(world)
    await made(world, target_url=f"https://example.com/hook?key={CANARY}", kind="STANDARD")
    await used(world, path)
    token = await world.new_token(scope)
    collection = path.rpartition("/")[0]
    for base in ("", "/compat"):
        for where in (path, collection, f"{path}/event", f"/organization/{world.org}/events"):
            answer = await world.get(base + where, token=token)
            assert answer.status == 200
            assert CANARY.encode() not in answer.body, where
    assert (await world.get(path, token=token))["target_url"] == SHOWN
    assert [one["target_url"] for one in (await world.get(collection, token=token))["results"]] == [
        SHOWN,
        "https://example.com/***",
    ]


async def test_admins_see_the_unredacted_webhook_address(world: World):
    path = await made(world)
    assert (await world.get(path))["target_url"] == SLACK
    assert (await world.get(path.rpartition("/")[0]))["results"][0]["target_url"] == SLACK


async def test_a_webhook_address_without_a_path_is_shown_in_full(world: World):
    path = await made(world, target_url="https://example.com:8443/")
    token = await world.new_token("Read")
    assert (await world.get(path, token=token))["target_url"] == "https://example.com:8443/"


async def test_a_redacted_webhook_address_sent_back_keeps_the_stored_one(world: World, receivers: Receivers):
    path = await made(world, kind="STANDARD", target_secret="a secret of the tests")
    for token in (await world.new_token("Write"), world.token):
        shown = (await world.get(path, token=token)).json
        sent = {"target_url": SHOWN, "events": shown["events"], "description": str(token)}
        assert (await world.put(path, sent, token=token)).status == 200
        assert (await world.get(path))["target_url"] == SLACK
    await used(world, path)
    assert receivers.got[SLACK]
    assert set(receivers.tried) == {SLACK}


@pytest.mark.parametrize("address", [SHOWN, "https://elsewhere.example/***"])
async def test_a_redacted_webhook_address_cannot_be_stored_as_the_address(world: World, address: str):
    body = {"target_url": address, "events": EVENTS}
    answer = await world.post(f"/organization/{world.org}/webhook", body)
    assert (answer.status, answer.message.partition(":")[0]) == (400, "target_url")
    path = await made(world)
    answer = await world.put(path, {"target_url": "https://elsewhere.example/***"})
    assert (answer.status, answer.message.partition(":")[0]) == (400, "target_url")


async def test_no_webhook_address_is_stored_in_plain_text_in_the_database_or_a_backup(tmp_path: Path):
    receivers = Receivers()
    data = tmp_path / "data"
    async with make_world(folder=data, out=receivers) as world:
        path = await made(world)
        await used(world, path)
        receivers.away.add(SLACK)
        await used(world, path)
        assert (await world.get(f"{path}/event"))["results"]
        assert receivers.got[SLACK], "the canary was on its way"
        assert found(data) == []
        assert await world.events("WEBHOOK_TESTED")
    assert found(data) == []


def found(folder: Path) -> list[str]:
    """The files that hold the secret."""
    return [str(one) for one in folder.rglob("*") if one.is_file() and CANARY.encode() in one.read_bytes()]


def test_the_search_finds_a_planted_secret(tmp_path: Path):
    (tmp_path / "planted").write_text(f"x{CANARY}x")
    assert len(found(tmp_path)) == 1
