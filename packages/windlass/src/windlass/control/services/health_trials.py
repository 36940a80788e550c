"""Tries a health check on the running instances of a service."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from msgspec.structs import replace

from windlass.base.errors import Invalid, Unavailable
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import probes
from windlass.control.records.reachability import check_here
from windlass.control.request.paths import target
from windlass.core.declare.health_trials import HealthTrial, HealthTrialResult, TriedInstance
from windlass.engines.engine import Engine, EngineError, EngineUnavailable
from windlass.engines.workload import HealthProbe, Instance, Phase, ProbeKind

_MAX_TIMEOUT: Final = 10.0
"""Maximum seconds of a trial: a person waits for it."""
_MAX_INSTANCES: Final = 20
"""Maximum number of instances that are asked."""
_OPEN_PORT: Final = HealthProbe(kind=ProbeKind.TCP)
"""What is tried without a type: whether the first port is open."""


@reads("*.checkHealth")
async def try_health_check(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    (asked,) = probes(call.sent(HealthTrial).probe, ()) or (_OPEN_PORT,)
    if asked.kind is ProbeKind.EXEC:
        raise Invalid("probe.type.exec: run the command in a terminal, where it is written to the audit")
    await check_here(ctx, service.id)
    place = await ctx.places.of(service.id)
    try:
        observed = await place.engine.observe(service.id)
    except EngineUnavailable as away:
        raise Unavailable(str(away)) from away
    running = [copy for copy in observed.instances if copy.phase is Phase.RUNNING][:_MAX_INSTANCES]
    tried = await asyncio.gather(*(_try_instance(place.engine, copy, asked) for copy in running))
    return Reply(encode(HealthTrialResult(instances=[*tried])))


async def _try_instance(engine: Engine, instance: Instance, probe: HealthProbe) -> TriedInstance:
    port = probe.port or min(instance.ports, default=0)
    began = time.monotonic()
    try:
        trouble = await engine.probe(
            instance, replace(probe, port=port, timeout=min(probe.timeout, _MAX_TIMEOUT))
        )
    except EngineError as error:
        trouble = str(error)
    took = round((time.monotonic() - began) * 1000)
    name = f"{instance.generation}-{instance.index}"
    return TriedInstance(instance=name, is_healthy=not trouble, message=trouble, took_ms=took)
