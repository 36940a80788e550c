"""The port of a service for which no person named one: whether it has one, and its number. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.core.deploy.workload import HealthProbe, Workload, WorkloadPort


def with_port(workload: Workload, number: int) -> Workload:
    """Returns a workload whose only port has the number on which its program was found to listen."""
    (port,) = workload.ports
    return replace(
        workload,
        ports=(replace(port, internal=number, name=name_of(number)),),
        ready=tuple(_move(probe, port, number) for probe in workload.ready),
        alive=tuple(_move(probe, port, number) for probe in workload.alive),
    )


def name_of(number: int) -> str:
    """Returns the name of a port that has no other."""
    return f"p{number}"


def _move(probe: HealthProbe, port: WorkloadPort, number: int) -> HealthProbe:
    return replace(probe, port=number) if probe.port == port.internal else probe
