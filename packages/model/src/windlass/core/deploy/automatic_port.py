"""Chooses the port of a service if the user configured none: whether the service has a port, and its number.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from windlass.builders.command_ports import asks_for_port, names_worker
from windlass.detect.recipe import WEB_PROCESS
from windlass.engines.workload import Artifact, HealthProbe, Workload, WorkloadPort

DEFAULT_PORT: Final = 8080
"""The default port of a web process. The process receives it in the variable PORT."""
STATIC_SITE_PORT: Final = 80


def choose_port(
    artifact: Artifact,
    variables: Mapping[str, str],
    *,
    process: str = "",
    command: str = "",
    probed: int | None = None,
    former_port: int = 0,
) -> int | None:
    """Returns the port of an artifact's web process or static site; None if the artifact has neither.

    `process` and `command`: what the user chose to run instead. `probed`: the port of a probe, 0 if the probe
    names none. `former_port`: the previous port, possibly one on which the program was found to listen.
    """
    if artifact.static and not (process or command):
        return STATIC_SITE_PORT
    if probed is None and not _is_web(artifact, process, command):
        return None
    if probed:
        return probed
    named = variables.get("PORT", "")
    if named.isascii() and named.isdecimal() and 0 < int(named[:6]) < 2**16:
        return int(named)
    exposed = artifact.ports[0] if artifact.ports else 0
    return exposed or former_port or artifact.web_port or DEFAULT_PORT


def _is_web(artifact: Artifact, process: str, command: str) -> bool:
    if asks_for_port(command or " ".join(artifact.command)):
        return True
    if process or (artifact.processes and not command):
        return (
            (process or WEB_PROCESS) == WEB_PROCESS
            and WEB_PROCESS in artifact.processes
            and _names_port(artifact)
        )
    return _names_port(artifact) and not names_worker(command)


def _names_port(artifact: Artifact) -> bool:
    return bool(artifact.ports or artifact.web_port)


def marked_as_automatic(workload: Workload) -> Workload:
    """Returns the workload with its ports marked as chosen by Windlass."""
    return replace(workload, ports=tuple(replace(port, automatic=True) for port in workload.ports))


def with_port(workload: Workload, number: int) -> Workload:
    """Returns the workload with its only port changed to the number on which its program was found to
    listen."""
    (port,) = workload.ports
    return replace(
        workload,
        ports=(replace(port, internal=number, name=name_of(number)),),
        ready=tuple(_move_probe(probe, port, number) for probe in workload.ready),
        alive=tuple(_move_probe(probe, port, number) for probe in workload.alive),
    )


def name_of(number: int) -> str:
    """Returns the default name of a port."""
    return f"p{number}"


def _move_probe(probe: HealthProbe, port: WorkloadPort, number: int) -> HealthProbe:
    return replace(probe, port=number) if probe.port == port.internal else probe
