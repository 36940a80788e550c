"""Each operation of domains, of applications and of containers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.domains.served import SHOP
from tests.fakes.name_server import NameServer
from tests.world import World

Make = Callable[[World], Awaitable[str]]


async def application(world: World) -> str:
    return f"/application/{await world.application()}"


async def container(world: World) -> str:
    registry = await world.made(
        f"/organization/{world.org}/containerRegistry",
        {"name": "r", "kind": "DOCKER_HUB", "url": "https://docker.io", "config": {}},
    )
    body = {"name": "web", "image_name": "library/nginx", "tag": "1", "registry_id": registry}
    return f"/container/{await world.made(f'/environment/{await world.environment()}/container', body)}"


@pytest.mark.parametrize("make", [application, container])
async def test_a_domain_is_made_read_checked_changed_and_deleted(world: World, dns: NameServer, make: Make):
    service = await make(world)
    domains = f"{service}/customDomain"
    body: dict[str, Any] = {"domain": SHOP, "generate_certificate": False}
    made = await world.post(domains, body)
    assert made.status == 201, made
    at = f"{domains}/{made['id']}"
    await world.settle()

    assert [each["id"] for each in (await world.get(domains))["results"]] == [made["id"]]
    assert (await world.get(at))["validation_domain"] == made["validation_domain"]
    assert (await world.get(f"{at}/status"))["state"] == "UNPROVED"
    [checked] = (await world.get(f"{service}/checkCustomDomain"))["results"]
    assert (checked["domain_name"], checked["status"]) == (SHOP, "DOMAIN_NOT_CONFIGURED")

    dns.set(SHOP, ("CNAME", made["validation_domain"]))
    world.clock.turn(3600)
    await world.settle()
    shown = await world.get(f"{at}/status")
    assert (shown["state"], shown["status"]) == ("PROVED", "VALIDATION_PENDING")
    [checked] = (await world.get(f"{service}/checkCustomDomain"))["results"]
    assert checked["status"] == "MATCHES_LOAD_BALANCER_HOST"

    changed = await world.call("PUT", at, body | {"domain": "new.example.com", "use_cdn": True})
    assert (changed.status, changed["state"], changed["use_cdn"]) == (200, "UNPROVED", True)
    assert changed["id"] == made["id"]
    assert (await world.delete(at)).status == 204
    assert (await world.get(domains))["results"] == []
    assert (await world.get(at)).status == 404
