"""A body that has begun to arrive is not taken to its end with a token that was deleted meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from tests.world import World
from windlass.api import uploads

PIECE = b"x" * 1000


@pytest.mark.parametrize(("is_deleted", "status", "arrived"), [(True, 403, 0), (False, 200, 3000)])
async def test_an_upload_ends_with_its_token(
    world: World, monkeypatch, is_deleted: bool, status: int, arrived: int
):
    monkeypatch.setattr(uploads, "CHECK_INTERVAL", 0.0)
    body = {"name": "uploaded", "source": "UPLOAD"}
    app = await world.made(f"/environment/{await world.environment()}/application", body)
    tokens = f"/organization/{world.org}/apiToken"
    made = await world.post(tokens, {"name": "robot", "scopes": ["Deploy"]})
    size = {"size": 3 * len(PIECE), "sha256": "0" * 64}
    path = f"/application/{app}/upload"
    upload = (await world.post(path, size, token=made["token"]))["id"]
    arriving: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    answers: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": "PUT",
        "path": f"{path}/{upload}/content",
        "query_string": b"offset=0",
        "headers": [(b"authorization", f"Token {made['token']}".encode())],
        "client": ("203.0.113.7", 50_000),
    }
    part = {"type": "http.request", "body": PIECE}
    sending = asyncio.create_task(world.installation.app(scope, arriving.get, send))
    await arriving.put({**part, "more_body": True})
    await asyncio.sleep(0.05)
    if is_deleted:
        assert (await world.delete(f"{tokens}/{made['id']}")).status == 204
    await arriving.put({**part, "more_body": True})
    await arriving.put({**part, "more_body": False})
    await asyncio.wait_for(sending, 5)
    assert answers[0]["status"] == status
    assert (await world.get(f"{path}/{upload}"))["offset"] == arrived
