"""A host or path of one organization is never answered by another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile import streets
from tests.hostile.names import port
from tests.hostile.streets import Street
from windlass.control.deploying import routes
from windlass.control.records import names
from windlass.routers.builtin.table import RoutingTable

VICTIMS = "api-web-prod.localhost"


@pytest.fixture
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are composed and not reserved, and the table merges services."""
    monkeypatch.setattr(names._HeldNames, "reserve", streets.compose)
    monkeypatch.setattr(routes, "row_of", streets.hold_anything)
    monkeypatch.setattr(RoutingTable, "_find", streets.merge_services)


async def neighbours(street: Street, **fields: Any) -> tuple[str, str]:
    """The victim, and the service of an attacker whose port makes the victim's name."""
    victim, attacker = await street.two_organizations()
    mine = await victim.deployed(await victim.environment("prod"), "api-web", port())
    ports = (port(), port(8001, name="api", **fields))
    theirs = await attacker.deployed(await attacker.environment("prod"), "web", *ports)
    return mine, theirs


async def test_a_public_path_does_not_take_part_of_another_organizations_host(street: Street):
    mine, _ = await neighbours(street, public_path="/login")
    for path in ("/", "/login", "/login/x"):
        assert await street.ask(VICTIMS, path) == mine
    await street.organizations[0].deploy(mine)
    assert await street.ask(VICTIMS, "/login") == mine


async def test_without_reservations_a_public_path_takes_part_of_another_organizations_host(
    street: Street, as_it_was: None
):
    mine, theirs = await neighbours(street, public_path="/login")
    assert [await street.ask(VICTIMS, path) for path in ("/", "/login")] == [mine, theirs]


async def test_a_restart_gives_no_host_to_another_organization(street: Street):
    mine, theirs = await neighbours(street)
    await street.restart(first=[theirs])
    assert await street.ask(VICTIMS) == mine


async def test_without_reservations_a_restart_gives_the_host_to_another_organization(
    street: Street, as_it_was: None
):
    _, theirs = await neighbours(street)
    await street.restart(first=[theirs])
    assert await street.ask(VICTIMS) == theirs


async def test_a_host_of_a_stopped_service_is_answered_by_no_other(street: Street):
    mine, theirs = await neighbours(street)
    await street.organizations[0].deploy(mine, "stop")
    await street.organizations[1].deploy(theirs)
    assert await street.ask(VICTIMS) == "503"
    await street.restart(first=[theirs])
    assert await street.ask(VICTIMS) == "503"


async def test_a_port_with_a_taken_name_gets_another_host(street: Street):
    _, theirs = await neighbours(street)
    links = await street.organizations[1].links(theirs)
    assert len(set(links)) == 2
    for link in links:
        assert await street.ask(link.removeprefix("http://").partition(":")[0]) == theirs


# Names come and go


async def test_a_name_is_free_again_when_its_service_is_deleted(street: Street):
    mine, theirs = await neighbours(street)
    await street.world.delete(f"/application/{mine}", token=street.organizations[0].token)
    await street.settle()
    assert await street.ask(VICTIMS) == "404"
    attacker = street.organizations[1]
    again = await attacker.deployed(await attacker.environment("prod"), "api-web", port())
    assert await street.ask(VICTIMS) == again
    assert "api-web-prod" not in {row.name for row in await street.ctx.store.reads.names.of(theirs)}


async def test_a_renamed_service_keeps_its_host_until_it_serves_under_the_new_one(street: Street):
    one, other = await street.two_organizations()
    app = await one.deployed(await one.environment("prod"), "web", port())
    await street.world.call("PATCH", f"/application/{app}", {"name": "shop"}, token=one.token)
    late = await other.deployed(await other.environment("prod"), "web", port())
    assert await street.ask("web-prod.localhost") == app
    await one.deploy(app)
    await street.settle()
    assert await street.ask("shop-prod.localhost") == app
    assert await street.ask("web-prod.localhost") == "404"
    assert (await other.links(late))[0].startswith(f"http://web-prod-{late[:8]}.localhost")


async def test_ports_of_one_service_with_similar_names_have_separate_hosts(street: Street):
    one, _ = await street.two_organizations()
    ports = [port(8000 + place, name=name) for place, name in enumerate(("p", "a.b", "a-b", "A B", "a_b"))]
    app = await one.deployed(await one.environment("prod"), "web", *ports)
    assert len(set(await one.links(app))) == 5


async def test_an_external_port_of_one_organization_is_refused_for_another(street: Street):
    one, other = await street.two_organizations()
    asked = {"internal_port": 5000, "external_port": 27_001, "protocol": "TCP", "publicly_accessible": True}
    app = await one.deployed(await one.environment("prod"), "secret-name", asked)
    late = await other.deployed(await other.environment("prod"), "web", asked)
    status = (await street.world.get(f"/application/{late}/status", token=other.token)).json
    assert status["state"] == "ERROR"
    assert "27001" in status["message"]
    assert "secret-name" not in str(status)
    await one.deploy(app, "stop")
    await other.deploy(late)
    assert (await street.world.get(f"/application/{late}/status", token=other.token))["state"] == "RUNNING"
