"""Requests about API tokens."""

from __future__ import annotations

from typing import Any

from tests.world import Answer, World

DAY = 24 * 3600


def path(world: World, id: str = "") -> str:
    return f"/organization/{world.org}/apiToken" + (f"/{id}" if id else "")


async def make(world: World, **fields: Any) -> Answer:
    return await world.post(path(world), {"name": world.name("token")} | fields)


async def status(world: World, token: str | None, **options: Any) -> int:
    """Returns the status of a request with this credential; a 401 must say how to authenticate."""
    answer = await world.get("/organization", token=token, **options)
    if answer.status == 401:
        assert answer.headers["www-authenticate"].startswith("Token ")
        assert "x-ratelimit-remaining" in answer.headers
    return answer.status
