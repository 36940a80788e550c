"""Questions of tests to the audit."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.world import World

Event = dict[str, Any]


async def events(world: World, base: str = "", *, token: str | None = None, **query: Any) -> list[Event]:
    """The newest first, with all that is still to be written down."""
    return list((await page(world, base, token=token, **query))["events"])


async def page(world: World, base: str = "", *, token: str | None = None, **query: Any) -> dict[str, Any]:
    await world.installation.authenticator.note()
    path = f"{base}/organization/{world.org}/events?{urlencode({'pageSize': 1000, **query})}"
    answer = await world.get(path, **({"token": token} if token else {}))
    assert answer.status == 200, answer
    return dict(answer.json)


async def followed(world: World, link: str) -> dict[str, Any]:
    where = urlsplit(link)
    answer = await world.get(f"{where.path}?{where.query}")
    assert answer.status == 200, answer
    return dict(answer.json)


def told(event: Event) -> Any:
    return json.loads(event["change"])


def types(found: list[Event]) -> list[str]:
    return [event["event_type"] for event in found]


async def newest(world: World, kind: str, **query: Any) -> Event:
    return (await events(world, eventType=kind, **query))[0]
