"""Services whose usage and requests a test determines, and looks at them."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.world import World
from windlass.engines.workload import Usage
from windlass.gateway.messages import ServiceTraffic
from windlass.routers.builtin.traffic import LATENCY_BOUNDS

STEP = 15.0
"""Seconds between two checks."""


def use(engine: FakeEngine, service: str, cpu_ms: int = 0, memory: int = 1) -> None:
    """Sets what each instance of a service has used."""
    ids = [instance.id for instance in engine.instances.values() if instance.service == service]
    engine.load |= dict.fromkeys(ids, Usage(cpu_ms=cpu_ms, memory=memory))


def traffic(
    service: str, by_class: tuple[int, ...] = (), times: dict[int, int] | None = None
) -> ServiceTraffic:
    """The requests of a service so far: by class from `none` to `5xx`, and by the bucket of their time."""
    answers = (*by_class, *[0] * (6 - len(by_class)))
    buckets = tuple((times or {}).get(bucket, 0) for bucket in range(len(LATENCY_BOUNDS) + 1))
    return ServiceTraffic(service, sum(answers), 0, answers, buckets, 0.0)


def count(world: World, service: str, ok: int, failed: int = 0, times: dict[int, int] | None = None) -> None:
    """Sets the requests that the gateway has counted."""
    world.router.told[service] = traffic(service, (0, 0, ok, 0, 0, failed), times or {0: ok + failed})


async def look(world: World, seconds: float = STEP) -> None:
    world.clock.turn(seconds)
    await world.installation.sampler.add_points()


async def metrics(world: World, service: str, family: str = "application") -> Any:
    answer = await world.get(f"/{family}/{service}/metrics")
    assert answer.status == 200, answer
    return answer.json
