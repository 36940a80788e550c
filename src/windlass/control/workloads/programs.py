"""What applications and containers have in common: ports, storage, probes, a command, and scaling."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.control.request.behaviour import Draft
from windlass.control.request.context import Context
from windlass.control.workloads.kind import ServiceKind
from windlass.core.declare.document import Document
from windlass.core.declare.resource import Base
from windlass.core.declare.shapes import VOLUME_DIGITS, Autoscaling
from windlass.core.deploy.workload import HealthProbe, ProbeKind, Volume, Workload, WorkloadPort
from windlass.core.words.variables import Unusable
from windlass.store.store import Row, Tx

MANY = 1000
"""As many instances as no limit means."""
MOST_CPU, MOST_MEMORY = 64_000, 1_048_576
BASE = Base.__struct_encode_fields__


class ProgramKind(ServiceKind):
    """A kind of service whose settings say on which ports it listens and how many instances of it run."""

    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        _identify_parts(draft.spec, {})
        draft.give(**_autoscaling(draft.spec, {}, draft.id, draft.org, stamp(tx.now)))
        draft.give(maximum_cpu=MOST_CPU, maximum_memory=MOST_MEMORY)

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Any, extras: Document
    ) -> None:
        _identify_parts(spec, before)
        extras |= _autoscaling(spec, before, row.id, row.org, stamp(tx.now))

    async def workload(self, ctx: Context, service: Row, document: Document, usual: Workload) -> Workload:
        return program(document, usual)


def program(document: Document, wanted: Workload) -> Workload:
    ports = tuple(_port(port) for port in document.get("ports", ()))
    checks = document.get("healthchecks") or {}
    readiness, liveness = checks.get("readiness_probe"), checks.get("liveness_probe")
    asked = probes(readiness, ports)
    # Of an image, arguments replace the command and leave the entrypoint; without one, both are one.
    image = wanted.artifact.kind == "image"
    entrypoint = _words(document.get("entrypoint"))
    arguments = tuple(document.get("arguments") or ())
    most = document["max_running_instances"]
    volumes = tuple(
        Volume(name=f"v{volume['id'][:VOLUME_DIGITS]}", mount=volume["mount_point"], size=volume["size"])
        for volume in document.get("storage", ())
    )
    return replace(
        wanted,
        entrypoint=entrypoint if image else (),
        command=arguments if image else (*entrypoint, *arguments),
        ports=ports,
        volumes=volumes,
        alone=bool(volumes),
        instances=document["min_running_instances"],
        most=MANY if most == -1 else most,
        ready=asked or derived(ports),
        watched=bool(asked),
        alive=probes(liveness, ports),
        patience=max([wanted.patience, *(p.initial_delay + p.period * p.failures for p in asked)]),
    )


def _words(entrypoint: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(entrypoint or ""))
    except ValueError as error:
        raise Unusable(f"entrypoint: {error}") from error


def _port(port: Document) -> WorkloadPort:
    return WorkloadPort(
        name=port["name"],
        internal=port["internal_port"],
        protocol=port["protocol"],
        public=port["publicly_accessible"],
        external=port.get("external_port"),
        path=port.get("public_path") or "/",
        rewrite=port.get("public_path_rewrite") or None,
        default=port["is_default"],
    )


def derived(ports: Sequence[WorkloadPort]) -> tuple[HealthProbe, ...]:
    """Nobody said how to tell that it is well: then it is, once it answers on its ports."""
    tcp = [port for port in ports if port.protocol != "UDP"]
    return tuple(HealthProbe(kind=ProbeKind.TCP, port=port.internal) for port in tcp)


def probes(asked: Document | None, ports: Sequence[WorkloadPort]) -> tuple[HealthProbe, ...]:
    """As a client sends it: one kind of probe, or none."""
    kinds: Document = (asked or {}).get("type") or {}
    assert asked is not None or not kinds
    first = ports[0].internal if ports else 0
    for kind, given in kinds.items():
        if given is not None and asked is not None:
            return (_probe(kind, given, asked, first),)
    return ()


def _probe(kind: str, given: Document, asked: Document, first: int) -> HealthProbe:
    times: dict[str, Any] = {
        "initial_delay": asked["initial_delay_seconds"],
        "period": asked["period_seconds"],
        "timeout": asked["timeout_seconds"],
        "successes": asked["success_threshold"],
        "failures": asked["failure_threshold"],
    }
    if kind == "exec":
        return HealthProbe(kind=ProbeKind.EXEC, command=tuple(given["command"]), **times)
    port = given.get("port") or first
    if kind == "http":
        scheme = (given.get("scheme") or "http").lower()
        return HealthProbe(
            kind=ProbeKind.HTTP, port=port, path=given.get("path") or "/", scheme=scheme, **times
        )
    # gRPC's own health service needs HTTP/2: what listens is taken for well.
    return HealthProbe(kind=ProbeKind.TCP, port=port, **times)


# Parts that keep their id from one version of the settings to the next


def _identify_parts(spec: Any, before: Document) -> None:
    """Ports and volumes keep their id from one version to the next."""
    _identify(spec.ports, "internal_port", before.get("ports", ()))
    _identify(spec.storage, "mount_point", before.get("storage", ()))


def _identify(items: Sequence[Any], key: str, before: Iterable[Document]) -> None:
    """Gives each item without an id that of the former item with the same key, or else a new one."""
    named = {item.id for item in items if item.id}
    known = {old[key]: old["id"] for old in before if old["id"] not in named}
    for item in items:
        item.id = item.id or known.pop(getattr(item, key), None) or ids.new_id()


def _autoscaling(spec: Any, before: Document, service: str, org: str, now: str) -> Document:
    """Returns the autoscaling policy with an id and base fields, which it keeps until it is removed."""
    policy = getattr(spec, "autoscaling", None)
    if not isinstance(policy, Autoscaling):
        return {}
    old = before.get("autoscaling") or {}
    sent = msgspec.to_builtins(policy)
    older = old.get("scalers", [])
    scalers = [
        _identified(_with_trigger(scaler, was, org, now), was, now)
        for scaler, was in zip(sent["scalers"], [*older, *[{}] * len(sent["scalers"])], strict=False)
    ]
    return {"autoscaling": _identified({**sent, "scalers": scalers, "service_id": service}, old, now)}


def _with_trigger(scaler: Document, old: Document, org: str, now: str) -> Document:
    if not (trigger := scaler.get("trigger_authentication")):
        return scaler
    was = old.get("trigger_authentication") or {}
    return {**scaler, "trigger_authentication": _identified({**trigger, "organization_id": org}, was, now)}


def _identified(new: Document, old: Document, now: str) -> Document:
    """Adds the base fields: the former ones, with a new `updated_at` if the part has changed."""
    same = {**new, **{name: old.get(name) for name in BASE}} == old
    created = old.get("created_at") or now
    return {
        **new,
        "id": old.get("id") or ids.new_id(),
        "created_at": created,
        "updated_at": old["updated_at"] if same else now,
    }
