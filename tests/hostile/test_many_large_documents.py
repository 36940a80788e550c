"""Large resources of an organization are limited together, because lists and deployments read all of them."""

from __future__ import annotations

from tests.world import World
from windlass.control.records import large_documents

KIB = 1024
LARGE = "x" * 20 * KIB


async def test_large_variables_of_a_level_are_limited_together(monkeypatch, world: World):
    monkeypatch.setattr(large_documents, "MAX_BYTES_OF_PARENT", 100 * KIB)
    path = f"/application/{await world.application()}/environmentVariable"
    answers = [await world.post(path, {"key": f"A{number}", "value": LARGE}) for number in range(6)]
    assert [answer.status for answer in answers] == [201] * 4 + [409] * 2
    assert "larger than 16 KiB" in answers[-1].message
    small = await world.made(path, {"key": "SMALL", "value": "x"})
    grown = await world.put(f"{path}/{small}", {"key": "SMALL", "value": LARGE})
    assert grown.status == 409
    assert (await world.put(f"{path}/{answers[0]['id']}", {"key": "A0", "value": "x"})).status == 200
    assert (await world.put(f"{path}/{small}", {"key": "SMALL", "value": LARGE})).status == 200


async def test_values_of_secrets_count(monkeypatch, world: World):
    monkeypatch.setattr(large_documents, "MAX_BYTES_OF_PARENT", 100 * KIB)
    path = f"/application/{await world.application()}/secret"
    answers = [await world.post(path, {"key": f"A{number}", "value": LARGE}) for number in range(6)]
    assert [answer.status for answer in answers] == [201] * 4 + [409] * 2


async def test_large_services_of_an_organization_are_limited_together(monkeypatch, world: World):
    monkeypatch.setattr(large_documents, "MAX_BYTES_OF_ORGANIZATION", 100 * KIB)
    container = {"name": "one", "image_name": "acme/cache", "tag": "1", "arguments": [LARGE]}
    environments = [await world.environment() for _ in range(6)]
    answers = [await world.post(f"/environment/{id}/container", container) for id in environments]
    assert [answer.status for answer in answers] == [201] * 4 + [409] * 2
    other, admin = await world.organization()
    project = (await world.post(f"/organization/{other}/project", {"name": "p"}, token=admin))["id"]
    theirs = (await world.post(f"/project/{project}/environment", {"name": "e"}, token=admin))["id"]
    assert (await world.post(f"/environment/{theirs}/container", container, token=admin)).status == 201
