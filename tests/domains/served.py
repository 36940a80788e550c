"""Things to test domains with."""

from __future__ import annotations

from typing import Any

from tests.fakes.name_server import NameServer
from tests.running.deployments import deployed
from tests.world import World

SHOP = "shop.example.com"


async def add(world: World, app: str, name: str = SHOP, **fields: Any) -> Any:
    """Adds a domain to an application. Returns its document."""
    body = {"domain": name, "generate_certificate": False} | fields
    answer = await world.post(f"/application/{app}/customDomain", body)
    assert answer.status == 201, answer
    await world.settle()
    return answer.json


async def read(world: World, app: str, id: str) -> Any:
    return (await world.get(f"/application/{app}/customDomain/{id}/status")).json


async def published(world: World, **fields: Any) -> str:
    """An application that is deployed, with a public port."""
    return await deployed(world, ports=[{"internal_port": 8080, "publicly_accessible": True}], **fields)


async def prove(world: World, dns: NameServer, document: Any) -> None:
    """Makes the CNAME record of a domain, and lets the time pass until it is looked at."""
    dns.set(document["domain"], ("CNAME", document["validation_domain"]))
    world.clock.turn(3600)
    await world.settle()


async def hosts(world: World, app: str) -> set[str]:
    """The names under which the gateway reaches an application."""
    world.installation.routes.note([app])
    await world.installation.routes.catch_up(10)
    return {host for route in world.router.routes.get(app, ()) for host in route.hosts}
