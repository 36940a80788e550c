"""The common parts of applications and containers: ports, storage, probes, commands and scaling."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import TypeVar

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.control.context.context import Context
from windlass.control.kinds.service_kind import PreviewSource, ServiceKind
from windlass.control.request.behaviour import Change, Draft
from windlass.core.declare.document import Document
from windlass.core.declare.program import VOLUME_DIGITS, Program
from windlass.core.declare.resource import Base
from windlass.core.declare.shapes import (
    Autoscaling,
    AutoscalingShown,
    Listener,
    PortRequest,
    Probe,
    Scaler,
    ScalerShown,
    ServicePort,
    StorageRequest,
    TriggerAuthentication,
    TriggerAuthenticationShown,
)
from windlass.core.deploy.automatic_port import name_of
from windlass.core.settings.values import AdvancedValues
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.workload import Artifact, HealthProbe, ProbeKind, Volume, Workload, WorkloadPort
from windlass.store import Row, Tx

P = TypeVar("P", bound=Program)
B = TypeVar("B", bound=Base)

UNLIMITED_INSTANCES = 1000
"""The number of instances that represents no limit."""
MAX_CPU, MAX_MEMORY = 64_000, 1_048_576
MAX_PROBE_SECONDS = 3600.0
"""The longest time in seconds for which a probe may delay a release. The operator may set a longer time for
all services."""


class ProgramKind(ServiceKind[P]):
    """A kind of service with settings for ports and for the number of instances."""

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[P]) -> None:
        spec = draft.spec
        _set_missing_ids(spec.ports or (), ())
        _set_missing_ids(spec.storage, ())
        if spec.autoscaling:
            scaling = _PolicyMaker(draft.id, draft.org, stamp(tx.now))
            draft.give(autoscaling=msgspec.to_builtins(scaling.policy(spec.autoscaling, None)))
        draft.give(maximum_cpu=MAX_CPU, maximum_memory=MAX_MEMORY)

    async def updating(self, ctx: Context, tx: Tx, change: Change[P]) -> None:
        spec, before, row = change.spec, change.before, change.row
        _set_missing_ids(spec.ports or (), before.ports or ())
        _set_missing_ids(spec.storage, before.storage)
        if spec.autoscaling:
            scaling = _PolicyMaker(row.id, row.org, stamp(tx.now))
            former = row.read(ScalingSettings).autoscaling or None
            change.extras["autoscaling"] = msgspec.to_builtins(scaling.policy(spec.autoscaling, former))

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        # A preview follows its pull request, and nothing else.
        changes: Document = {"auto_deploy": False}
        ports = service.read(Listener).ports
        if any(port.external_port for port in ports):  # the original holds these
            changes["ports"] = [_without_own(port) for port in ports]
        return changes

    async def workload(self, ctx: Context, service: Row, default_workload: Workload) -> Workload:
        return program(service.read(Program), default_workload, AdvancedValues(service.body))


def _without_own(port: ServicePort) -> Document:
    document: Document = msgspec.to_builtins(port)
    return {name: value for name, value in document.items() if name not in {"id", "external_port"}}


def program(spec: Program, default_workload: Workload, advanced: AdvancedValues) -> Workload:
    ports = tuple(_port(port) for port in spec.ports or ())
    checks = spec.healthchecks
    asked = probes(checks.readiness_probe or None, ports)
    # With an image, arguments replace its command and keep its entrypoint. Without an image, entrypoint and
    # arguments form one command.
    image = default_workload.artifact.kind == "image"
    entrypoint, arguments = _words(spec.entrypoint or ""), tuple(spec.arguments)
    alive = probes(checks.liveness_probe or None, ports)
    _check_probed({"readiness_probe": asked, "liveness_probe": alive}, ports, default_workload.artifact)
    most = spec.max_running_instances
    volumes = tuple(
        Volume(name=f"v{str(volume.id)[:VOLUME_DIGITS]}", mount=volume.mount_point, size=volume.size)
        for volume in spec.storage
    )
    read_only = bool(advanced["security.read_only_root_filesystem"])
    if read_only and default_workload.files:
        raise UnresolvableVariable(
            "security.read_only_root_filesystem: leave it off, or make variables of the service's files: the "
            "engine cannot write files into a root file system that is read-only"
        )
    return replace(
        default_workload,
        read_only=read_only,
        entrypoint=entrypoint if image else (),
        command=arguments if image else (*entrypoint, *arguments),
        ports=ports,
        volumes=volumes,
        alone=bool(volumes) or advanced["deployment.update_strategy.type"] == "Recreate",
        after_start=tuple(advanced["deployment.lifecycle.post_start_exec_command"]),
        instances=spec.min_running_instances,
        most=UNLIMITED_INSTANCES if most == -1 else most,
        ready=asked or derived_probes(ports),
        watched=bool(asked),
        alive=alive,
        patience=max(
            [default_workload.patience, *(min(_patience_of(probe), MAX_PROBE_SECONDS) for probe in asked)]
        ),
    )


def _patience_of(probe: HealthProbe) -> float:
    return probe.initial_delay + probe.period * probe.failures


def _check_probed(
    checks: Mapping[str, Sequence[HealthProbe]], ports: Sequence[WorkloadPort], artifact: Artifact
) -> None:
    """Refuses probes of ports that the service does not have or has only as UDP, because such probes never
    pass. The check needs the built artifact, which may add ports."""
    tcp_ports = {port.internal for port in ports if port.protocol != "UDP"} | {*artifact.ports}
    for name, asked in checks.items():
        for probe in asked:
            if probe.kind is not ProbeKind.EXEC and probe.port not in tcp_ports:
                wanted = f"port {probe.port}" if probe.port else "the port that it serves"
                raise UnresolvableVariable(
                    f"healthchecks.{name}: add {wanted} to `ports`, or probe another one: the "
                    "service has no such TCP port"
                )


def _words(entrypoint: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(entrypoint))
    except ValueError as error:
        raise UnresolvableVariable(f"entrypoint: write it as in a shell: {error}") from error


def _port(port: PortRequest) -> WorkloadPort:
    return WorkloadPort(
        name=port.name or name_of(port.internal_port),
        internal=port.internal_port,
        protocol=port.protocol,
        public=port.publicly_accessible,
        external=port.external_port or None,
        path=port.public_path or "/",
        rewrite=port.public_path_rewrite or None,
        default=bool(port.is_default),
    )


def derived_probes(ports: Sequence[WorkloadPort]) -> tuple[HealthProbe, ...]:
    """Returns the probes of a service that declares none: the service is healthy once it accepts connections
    on its TCP ports. `accepted` requires an accepted connection, because a server such as gunicorn opens its
    port before it has loaded the application."""
    tcp = [port for port in ports if port.protocol != "UDP"]
    return tuple(HealthProbe(kind=ProbeKind.TCP, port=port.internal, accepted=True) for port in tcp)


def probes(declared_probe: Probe | None, ports: Sequence[WorkloadPort]) -> tuple[HealthProbe, ...]:
    """Returns the probe that a client declares; empty if there is none."""
    if declared_probe is None or not declared_probe.type:
        return ()
    usual = HealthProbe(
        kind=ProbeKind.TCP,
        port=ports[0].internal if ports else 0,
        initial_delay=declared_probe.initial_delay_seconds,
        period=declared_probe.period_seconds,
        timeout=min(declared_probe.timeout_seconds, MAX_PROBE_SECONDS),
        successes=declared_probe.success_threshold,
        failures=declared_probe.failure_threshold,
    )
    if tcp := declared_probe.type.tcp:
        return (replace(usual, port=tcp.port or usual.port),)
    if http := declared_probe.type.http:
        scheme, path = (http.scheme or "http").lower(), http.path or "/"
        return (replace(usual, kind=ProbeKind.HTTP, port=http.port or usual.port, path=path, scheme=scheme),)
    if execute := declared_probe.type.exec:
        return (replace(usual, kind=ProbeKind.EXEC, port=0, command=tuple(execute.command)),)
    if grpc := declared_probe.type.grpc:
        # The health service of gRPC needs HTTP/2, so an open port counts as healthy.
        return (replace(usual, port=grpc.port or usual.port),)
    return ()


# Parts of settings that keep their ids across changes


def _set_missing_ids(
    items: Sequence[PortRequest] | Sequence[StorageRequest],
    previous_items: Iterable[PortRequest] | Iterable[StorageRequest],
) -> None:
    """Sets missing ids of items: the id of the previous item with the same port or path, or else a new id."""
    named = {item.id for item in items if item.id}
    former_ids = {_key(old): old.id for old in previous_items if old.id not in named}
    for item in items:
        item.id = item.id or former_ids.pop(_key(item), None) or ids.new_id()


def _key(item: PortRequest | StorageRequest) -> int | str:
    return item.internal_port if isinstance(item, PortRequest) else item.mount_point


class ScalingSettings(msgspec.Struct):
    """The scaling settings of a service."""

    autoscaling: AutoscalingShown | UnsetType | None = None


class _PolicyMaker:
    """Creates the documents of an autoscaling policy and its parts. Parts keep their ids and creation dates
    until they are removed."""

    def __init__(self, service: str, org: str, now: str) -> None:
        self._service, self._org, self._now = service, org, now

    def policy(self, sent_policy: Autoscaling, previous: AutoscalingShown | None) -> AutoscalingShown:
        older = chain(previous.scalers if previous else (), repeat(None))
        new = AutoscalingShown(
            **self._new_ids(),
            service_id=self._service,
            mode=sent_policy.mode,
            polling_interval_seconds=sent_policy.polling_interval_seconds or 0,
            cooldown_period_seconds=sent_policy.cooldown_period_seconds or 0,
            scalers=[
                self._scaler(scaler, old) for scaler, old in zip(sent_policy.scalers, older, strict=False)
            ],
        )
        return _keep_identity(new, previous)

    def _scaler(self, scaler: Scaler, previous: ScalerShown | None) -> ScalerShown:
        trigger = scaler.trigger_authentication
        new = ScalerShown(
            **self._new_ids(),
            scaler_type=scaler.scaler_type,
            role=scaler.role,
            enabled=scaler.enabled,
            config_json=scaler.config_json,
            config_yaml=scaler.config_yaml,
            trigger_authentication=(
                self._trigger(trigger, previous) if isinstance(trigger, TriggerAuthentication) else trigger
            ),
        )
        return _keep_identity(new, previous)

    def _trigger(
        self, authentication: TriggerAuthentication, scaler: ScalerShown | None
    ) -> TriggerAuthenticationShown:
        new = TriggerAuthenticationShown(
            **self._new_ids(),
            organization_id=self._org,
            name=authentication.name,
            config_yaml=authentication.config_yaml,
        )
        return _keep_identity(new, (scaler.trigger_authentication or None) if scaler else None)

    def _new_ids(self) -> dict[str, str]:
        return {"id": ids.new_id(), "created_at": self._now, "updated_at": self._now}


def _keep_identity(new_item: B, previous: B | None) -> B:
    """Returns a part with the id and creation date of the former part. The date of the last change is kept,
    too, if nothing else has changed."""
    if previous is None:
        return new_item
    same = replace(new_item, id=previous.id, created_at=previous.created_at, updated_at=previous.updated_at)
    is_same = msgspec.to_builtins(same) == msgspec.to_builtins(previous)
    return same if is_same else replace(same, updated_at=new_item.updated_at)
