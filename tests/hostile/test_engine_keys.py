"""The key of an engine is used at the address, and under the authority, that it was stored with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.running.clusters import PEM, cluster, connector
from tests.world import World
from windlass.control.request import references

CHANGES: list[dict[str, Any]] = [
    {"engine_address": "tcp://10.0.0.6:2376"},
    {"engine_ca_certificate": PEM + PEM},
]


async def changed(world: World, change: dict[str, Any]) -> tuple[int, bool]:
    """The status of the change without the key, and whether an engine was called with the stored key then."""
    east = await cluster(world)
    known = len(connector(world).checked)
    answer = await world.patch(f"/organization/{world.org}/cluster/{east}", change)
    return answer.status, any(access.key for access in connector(world).checked[known:])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_the_key_of_an_engine_stays_with_its_address_and_authority(world, change):
    assert await changed(world, change) == (400, False)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_without_the_rule_the_key_would_be_used_elsewhere(world, change, monkeypatch):
    monkeypatch.setattr(references, "_is_turned", lambda new, old: False)
    assert await changed(world, change) == (200, True)
