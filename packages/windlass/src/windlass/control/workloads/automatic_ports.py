"""The automatic port of an application whose `ports` were left out.

The document then has `automatic_port` set, and shows the port after a deployment has chosen it. Ports that a
person sets later replace the automatic port.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from windlass.base import ids
from windlass.core.declare.program import check_probes
from windlass.core.declare.shapes import PortRequest, ServicePort
from windlass.core.deploy.automatic_port import choose_port, name_of
from windlass.engines.workload import Workload
from windlass.families.application import Application, ApplicationShown


def settle_ports(spec: Application, previous: ApplicationShown | None, *, is_full: bool) -> None:
    """Fills in ports that a client has left out, and sets `automatic_port`. For clients of the full API,
    missing ports mean no ports."""
    kept = [*previous.ports] if previous and previous.automatic_port else []
    if spec.ports is UNSET:
        asked = spec.automatic_port
        spec.automatic_port = asked if isinstance(asked, bool) else not is_full
        sent = msgspec.to_builtins(kept) if spec.automatic_port else []
        spec.ports = msgspec.convert(sent, list[PortRequest])
    else:
        spec.automatic_port = _is_automatic(spec, spec.ports, previous)
    if not spec.automatic_port:
        check_probes(spec)


def _is_automatic(
    spec: Application, sent_ports: Sequence[PortRequest], previous: ApplicationShown | None
) -> bool:
    """Returns whether the sent ports are automatic. An empty list means no ports, unless the client sets
    `automatic_port`."""
    if spec.automatic_port is False:
        return False
    if spec.automatic_port:
        return not sent_ports or (
            len(sent_ports) == 1 if previous is None else _is_same(sent_ports, previous.ports)
        )
    was_automatic = previous is not None and previous.automatic_port
    return bool(was_automatic and sent_ports) and _is_same(sent_ports, previous.ports if previous else ())


def _is_same(sent_ports: Sequence[PortRequest], stored_ports: Sequence[ServicePort]) -> bool:
    """Returns whether a client sends stored ports back unchanged, which is recognized by their ids."""
    if not all(port.id for port in sent_ports):
        return False
    return bool(msgspec.to_builtins(sent_ports) == msgspec.to_builtins(stored_ports))


def with_automatic_port(spec: Application, default_workload: Workload) -> Application:
    """Returns the settings with the automatic port for a build, if `automatic_port` is set."""
    if not spec.automatic_port:
        return spec
    number = choose_port(
        default_workload.artifact,
        default_workload.variables,
        process=spec.process or "",
        command=spec.start_command or " ".join([spec.entrypoint or "", *spec.arguments]).strip(),
        probed=_probed_port(spec),
        former_port=spec.ports[0].internal_port if spec.ports else 0,
    )
    return replace(spec, ports=[] if number is None else [_public(number)])


def _probed_port(spec: Application) -> int | None:
    """Returns the port of a health check, 0 for a check without a port, and None without a check of a
    port."""
    checks = spec.healthchecks
    for probe in (checks.readiness_probe, checks.liveness_probe):
        kind = probe.type if probe and probe.type else None
        for asked in (kind.http, kind.tcp, kind.grpc) if kind else ():
            if asked:
                return asked.port or 0
    return None


def _public(number: int) -> PortRequest:
    return PortRequest(internal_port=number, publicly_accessible=True, name=name_of(number), is_default=True)


def shown_ports(workload: Workload, previous_ports: Sequence[ServicePort]) -> list[ServicePort]:
    """Returns the ports of a workload as shown in documents. The port keeps its id even if its number
    changes."""
    kept = previous_ports[0].id if previous_ports else ids.new_id()
    return [
        ServicePort(
            id=kept,
            internal_port=port.internal,
            protocol=port.protocol,
            publicly_accessible=port.public,
            name=port.name,
            is_default=port.default,
        )
        for port in workload.ports[:1]
    ]


def remark_on_ports(workload: Workload) -> str:
    """Returns a message about the automatic port, for the build log."""
    if not workload.ports:
        return (
            "It gets no public port: nothing in the repository says that it serves HTTP. If it does, name "
            "its `ports`."
        )
    if workload.artifact.static:
        return "It gets a public address, because `ports` was left out. An empty list means none."
    return (
        f"Port {workload.ports[0].internal} is made public, because `ports` was left out: it is in the "
        "variable PORT. Set `ports` to choose yourself; an empty list means none."
    )
