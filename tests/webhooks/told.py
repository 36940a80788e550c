"""Webhooks, and the deliveries that they got."""

from __future__ import annotations

from typing import Any

from tests.webhooks.receivers import Sent
from tests.world import World

URL = "https://receiver.example/hook"


ALL = ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED", "DEPLOYMENT_CANCELLED"]


HOUR = 3600


async def webhook(world: World, url: str = URL, **fields: Any) -> str:
    body = {"target_url": url, "events": ALL, "enabled": True} | fields
    return await world.made(f"/organization/{world.org}/webhook", body)


def path(world: World, id: str, rest: str = "") -> str:
    return f"/organization/{world.org}/webhook/{id}{rest}"


async def deploy(world: World, app: str) -> str:
    answer = await world.post(f"/application/{app}/deploy")
    assert answer.status == 202, answer
    await world.settle()
    return str(answer["id"])


async def pass_by(world: World, seconds: int, step: int = 30) -> None:
    """Lets time pass in larger steps than a second."""
    for _ in range(0, seconds, step):
        await world.settle()
        world.clock.turn(step)
    await world.settle()


def kinds(sent: list[Sent]) -> list[str]:
    return [one.kind for one in sent]
