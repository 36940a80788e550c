"""What exactly a deployment runs: computed once, sealed with the deployment, and the same ever after."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from windlass.config import Settings
from windlass.control.context import Context
from windlass.control.databases import database_wanted
from windlass.control.inputs import Inputs
from windlass.core.document import Document
from windlass.core.runtime import Artifact, PortWanted, Probe, ProbeKind, Volume, Wanted
from windlass.core.shapes import VOLUME_DIGITS
from windlass.core.variables import Unusable
from windlass.store.store import DeploymentRow, Row

MANY = 1000
"""As many instances as no limit means."""

_decode = msgspec.msgpack.Decoder(Wanted).decode


async def wanted_of(
    ctx: Context, service: Row, deployment: DeploymentRow, artifact: Artifact, inputs: Inputs
) -> Wanted:
    document = msgspec.json.decode(service.body)
    wanted = Wanted(
        service=service.id,
        family=service.family,
        name=document["name"],
        environment=service.parent,
        org=service.org,
        generation=deployment.number,
        deployment=deployment.id,
        artifact=artifact,
        variables=inputs.variables,
        files=inputs.files,
        hidden=inputs.secrets | inputs.secret_files,
        cpu=document["cpu"],
        memory=document["memory"],
        settle=ctx.settings.settle_seconds,
        patience=ctx.settings.ready_seconds,
        grace=ctx.settings.stop_seconds,
    )
    if service.family == "database":
        return await database_wanted(ctx, service, document, wanted)
    return application_wanted(document, wanted, ctx.settings)


def application_wanted(document: Document, wanted: Wanted, settings: Settings) -> Wanted:
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


def _port(port: Document) -> PortWanted:
    return PortWanted(
        name=port["name"],
        internal=port["internal_port"],
        protocol=port["protocol"],
        public=port["publicly_accessible"],
        external=port.get("external_port"),
        path=port.get("public_path") or "/",
        rewrite=port.get("public_path_rewrite") or None,
        default=port["is_default"],
    )


def derived(ports: Sequence[PortWanted]) -> tuple[Probe, ...]:
    """Nobody said how to tell that it is well: then it is, once it answers on its ports."""
    tcp = [port for port in ports if port.protocol != "UDP"]
    return tuple(Probe(kind=ProbeKind.TCP, port=port.internal) for port in tcp)


def probes(asked: Document | None, ports: Sequence[PortWanted]) -> tuple[Probe, ...]:
    """As a client sends it: one kind of probe, or none."""
    kinds: Document = (asked or {}).get("type") or {}
    assert asked is not None or not kinds
    first = ports[0].internal if ports else 0
    for kind, given in kinds.items():
        if given is not None and asked is not None:
            return (_probe(kind, given, asked, first),)
    return ()


def _probe(kind: str, given: Document, asked: Document, first: int) -> Probe:
    times: dict[str, Any] = {
        "initial_delay": asked["initial_delay_seconds"],
        "period": asked["period_seconds"],
        "timeout": asked["timeout_seconds"],
        "successes": asked["success_threshold"],
        "failures": asked["failure_threshold"],
    }
    if kind == "exec":
        return Probe(kind=ProbeKind.EXEC, command=tuple(given["command"]), **times)
    port = given.get("port") or first
    if kind == "http":
        scheme = (given.get("scheme") or "http").lower()
        return Probe(kind=ProbeKind.HTTP, port=port, path=given.get("path") or "/", scheme=scheme, **times)
    # gRPC's own health service needs HTTP/2: what listens is taken for well.
    return Probe(kind=ProbeKind.TCP, port=port, **times)


# Sealed with its deployment


def seal_wanted(ctx: Context, wanted: Wanted) -> bytes:
    ctx.logs.masks.add(wanted.deployment, wanted.secrets)
    return ctx.seal.close(msgspec.msgpack.encode(wanted), wanted.org, wanted.deployment, "wanted", "1")


def open_wanted(ctx: Context, deployment: DeploymentRow) -> Wanted | None:
    if deployment.sealed is None:
        return None
    wanted = _decode(ctx.seal.open(deployment.sealed, deployment.org, deployment.id, "wanted", "1"))
    ctx.logs.masks.know(deployment.id, wanted.secrets)
    return wanted


async def find_secrets(ctx: Context, deployment: str) -> None:
    """Looks up the secrets to hide in logs of a deployment; there are none if it is gone."""
    row = await ctx.store.reads.deployment(deployment)
    if row is None or open_wanted(ctx, row) is None:
        ctx.logs.masks.know(deployment, ())
