"""Which service is ended when the machine of the Docker engine runs short of memory."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.docker import memory_watch, names
from windlass.docker.memory_watch import MemoryWatch

GIB, MIB = 1 << 30, 1 << 20
HOGS = [("hogs", f"place-{number % 2}", f"hog-{number}", 100 + number) for number in range(20)]
"""Many small services of one organization, in two environments."""
OTHERS = [("acme", "prod", "database", 900), ("acme", "prod", "shop", 100)]


@pytest.fixture
def available(monkeypatch) -> list[int]:
    left = [100 * MIB]
    monkeypatch.setattr(memory_watch, "available_memory", lambda: (left[0], 4 * GIB))
    return left


async def ended(containers: list[tuple[str, str, str, int]]) -> list[str]:
    """Returns the services that are ended."""
    chosen: list[str] = []

    async def list_running() -> Any:
        return [
            {
                "Id": str(number),
                "Labels": {
                    names.ORGANIZATION_LABEL: org,
                    names.ENVIRONMENT_LABEL: environment,
                    names.SERVICE_LABEL: service,
                },
            }
            for number, (org, environment, service, _) in enumerate(containers)
        ]

    async def measure(container: Any) -> int:
        return containers[int(container["Id"])][3] * MIB

    async def end(container: Any, reason: str) -> None:
        assert "the machine ran short of memory" in reason
        chosen.append(container["Labels"][names.SERVICE_LABEL])

    assert await MemoryWatch(list_running, measure, end).check() is bool(chosen)
    return chosen


async def test_the_largest_service_of_the_largest_organization_is_ended(available):
    assert await ended([*HOGS, *OTHERS]) == ["hog-19"]


async def test_all_instances_of_the_service_are_ended(available):
    instances = [("hogs", "place-1", "many", 150)] * 3
    assert await ended([*HOGS, *instances, *OTHERS]) == ["many"] * 3


@pytest.mark.parametrize("left", [GIB, 2 * GIB])
async def test_nothing_is_ended_while_there_is_enough_memory(available, left):
    available[0] = left
    assert await ended([*HOGS, *OTHERS]) == []


async def test_very_many_small_containers_count_what_the_engine_needs_for_them(available):
    crowd = [("hogs", "place", "crowd", 0)] * 500
    assert await ended([*crowd, *OTHERS]) == ["crowd"] * 500
    assert await ended([*crowd[:200], *OTHERS]) == []


async def test_nothing_is_ended_for_an_organization_alone_on_the_machine(available):
    assert await ended(HOGS) == []


async def test_nothing_is_ended_if_other_programs_use_the_memory(available):
    assert await ended([("hogs", "place", "hog", 300), ("acme", "prod", "shop", 100)]) == []
