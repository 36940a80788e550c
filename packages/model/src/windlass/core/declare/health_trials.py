"""A health check that is tried on the running instances of a service, before it is saved."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.fields import example
from windlass.core.declare.resource import Shown
from windlass.core.declare.shapes import Http, Probe, ProbeType
from windlass.core.declare.spec import Spec


class HealthTrial(Spec):
    probe: Annotated[Probe, example(Probe(type=ProbeType(http=Http(path="/healthz", port=8080))))]


class TriedInstance(Shown):
    instance: Annotated[str, Meta(description="Generation and number of the instance"), example("3-0")]
    is_healthy: bool
    message: Annotated[str, Meta(description="Why it does not pass; empty if it passes")] = ""
    took_ms: Annotated[int, Meta(description="Milliseconds until it answered"), example(3)] = 0


class HealthTrialResult(Shown):
    instances: Annotated[list[TriedInstance], Meta(description="Those that run; at most 20")]


HEALTH_TRIAL: Final = (
    "Asks each running instance once, at most 10 seconds, and changes nothing. The probe is one with `http`, "
    "`tcp` or `grpc`; without a type, its first port is tried. A command is tried in a terminal."
)
