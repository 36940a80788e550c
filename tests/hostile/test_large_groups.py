"""Services show groups of annotations in full, but not more than a limit."""

from __future__ import annotations

from typing import Any

from tests.world import World
from windlass.control.request import references

KIB = 1024


def group_of(kib: int, name: str = "group") -> dict[str, Any]:
    values = [{"key": f"part-{number}", "value": "x" * KIB} for number in range(kib)]
    return {"name": name, "annotations": values, "scopes": []}


async def test_a_service_names_each_group_once(world: World):
    group = await world.made(f"/organization/{world.org}/annotationsGroups", group_of(1))
    app = await world.application()
    answer = await world.patch(f"/application/{app}", {"annotations_groups": [{"id": group}] * 2})
    assert answer.status == 400
    assert answer.message == "annotations_groups[1].id: is there twice. Leave one out"


async def test_a_service_does_not_show_more_of_its_groups_than_a_limit(monkeypatch, world: World):
    monkeypatch.setattr(references, "MAX_SHOWN_BYTES", 10 * KIB)
    path = f"/organization/{world.org}/annotationsGroups"
    first, second = [await world.made(path, group_of(6, name)) for name in ("first", "second")]
    app = await world.application(annotations_groups=[{"id": first}])
    refused = await world.patch(
        f"/application/{app}", {"annotations_groups": [{"id": first}, {"id": second}]}
    )
    assert refused.status == 400
    assert "choose fewer or smaller ones" in refused.message
    assert (await world.put(f"{path}/{first}", group_of(7))).status == 200
    grown = await world.put(f"{path}/{first}", group_of(11))
    assert grown.status == 409
    assert "shows at most" in grown.message
    assert len((await world.get(f"/application/{app}"))["annotations_groups"][0]["annotations"]) == 7
