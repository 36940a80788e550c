"""Checks of clusters with engines on other machines, for `windlass doctor`."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.clock import SystemClock
from windlass.base.encryption import CannotDecrypt
from windlass.base.errors import Invalid
from windlass.builders.detecting import bounded_detection
from windlass.config import BadSetting, Settings
from windlass.control.background.service_data import INSTALLATION_KEY
from windlass.control.context.place import EngineAccess
from windlass.control.people.organizations import NO_PARENT
from windlass.control.reporting.metrics import end_of
from windlass.control.services.cluster_registries import SHARED_LOGIN_ADVICE, has_shared_login
from windlass.control.services.clusters import access_in
from windlass.core.declare.stored import NamedDocument
from windlass.engines.engine import EngineError
from windlass.engines.findings import TIMEOUT, Finding, fail, ok, warn
from windlass.engines.provider import EngineReport, Server
from windlass.families.cluster import Cluster, cluster
from windlass.families.organization import organization
from windlass.install.connecting import ClusterConnector, gateway_link
from windlass.install.database import reading_snapshot
from windlass.install.key import WrongKey, load_encryption
from windlass.operate.listeners import is_gateway
from windlass.serve.server import listen
from windlass.store import Reads
from windlass.store.archive import Snapshot
from windlass.store.migrate import find_missing, migrations

_UNMANAGED_NOTE: Final = (
    "until then its services are left alone: nothing is started, moved or erased, and deployments there wait "
    "for ready_seconds and fail"
)
_RENEW_ADVICE: Final = "docs/clusters.md says how, under `Renew certificates`"
_CERTIFICATE_WARNING_DAYS: Final = 30
"""Days before the end of a certificate from which `doctor` warns."""
_MAX_CLOCK_DIFFERENCE_SECONDS: Final = 30.0
"""Seconds by which the clocks of two machines may differ."""


class ConnectedCluster(Struct, frozen=True, kw_only=True):
    """A cluster with an engine on another machine, as recorded in the database."""

    title: str
    access: EngineAccess
    label: str
    """The label of the cluster's containers."""
    services: Mapping[str, str]
    """Names of the services that should run on the cluster, by id."""


async def clusters(settings: Settings) -> list[Finding]:
    """Checks all connected clusters concurrently, so that several unreachable clusters take no longer than
    one."""
    try:
        clusters = await connected_clusters(settings)
    except (CannotDecrypt, WrongKey, BadSetting) as error:
        reason = f"bring back the key of this installation: {error}"
        return [fail("Clusters", reason, "it encrypts the keys of clusters, so none of them was asked")]
    connector = _connector(settings, "")
    checks = await asyncio.gather(
        *(_examine(settings, connector, found_cluster) for found_cluster in clusters)
    )
    return [finding for findings in checks for finding in findings] + await _shared_logins(settings)


async def _shared_logins(settings: Settings) -> list[Finding]:
    """Names the clusters whose nodes have the login that pushes builds."""
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        applied = await moment.applied()
        if not applied or find_missing(migrations(), applied):
            return []
        specs = [
            row.read(Cluster)
            for org in await moment.reads.resources.of_parent(NO_PARENT, organization.name)
            for row in await moment.reads.resources.of_parent(org.id, cluster.name)
        ]
    advice, _, reason = SHARED_LOGIN_ADVICE.partition(": ")
    return [
        warn(f"Cluster {spec.name}: login of the nodes", reason, f"{advice[0].lower()}{advice[1:]}")
        for spec in specs
        if has_shared_login(spec)
    ]


def _connector(settings: Settings, installation: str) -> ClusterConnector:
    folder = Path(settings.data_dir)
    server = Server(folder=folder, clock=SystemClock(), installation=installation, calls=bounded_detection())
    return ClusterConnector(settings, server, gateway_link(settings))


async def connected_clusters(settings: Settings) -> list[ConnectedCluster]:
    """Reads the connected clusters from the database. Returns an empty list if the database needs
    migrations."""
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        applied = await moment.applied()
        if not applied or find_missing(migrations(), applied):
            return []
        reads, installation = moment.reads, (await moment.fact(INSTALLATION_KEY) or b"").decode()
        organizations = await reads.resources.of_parent(NO_PARENT, organization.name)
        rows = [
            (row, f" ({org.read(NamedDocument).name})" if len(organizations) > 1 else "")
            for org in organizations
            for row in await reads.resources.of_parent(org.id, cluster.name)
            if row.read(Cluster).engine_address
        ]
        if not rows:
            return []
        encryption = load_encryption(settings)
        connector = _connector(settings, installation)
        return [
            ConnectedCluster(
                title=f"Cluster {row.read(Cluster).name}{where}",
                access=access_in(encryption, row),
                label=connector.label(row.id),
                services=await _should_run(reads, row.id),
            )
            for row, where in rows
        ]


async def _should_run(reads: Reads, id: str) -> dict[str, str]:
    places: dict[str, str] = {}
    for service in await reads.statuses.on_cluster(id):
        status, row = await reads.statuses.get(service), await reads.resources.get(service)
        if status and row and status.serving and status.instances:
            places[service] = row.read(NamedDocument).name
    return places


async def _examine(
    settings: Settings, connector: ClusterConnector, cluster: ConnectedCluster
) -> Sequence[Finding]:
    address = cluster.access.address
    findings: list[Finding] = []
    report: EngineReport | None = None
    try:
        async with asyncio.timeout(TIMEOUT):
            report = await connector.report(cluster.access, cluster.label)
    except TimeoutError:
        reason = f"check the host at {address}: its engine did not answer within {TIMEOUT} seconds"
        findings.append(fail(cluster.title, reason, _UNMANAGED_NOTE))
    except (EngineError, Invalid) as error:
        findings.append(fail(cluster.title, str(error), _UNMANAGED_NOTE))
    else:
        findings += [_report_running(cluster, report), _clock(cluster, report)]
    findings += _certificates(cluster, report)
    if cluster.access.router_port:
        findings.append(await asyncio.to_thread(_router_port, settings, cluster))
    return findings


# Findings


def _report_running(cluster: ConnectedCluster, report: EngineReport) -> Finding:
    engine = f"{report.title} at {cluster.access.address}"
    runs = f"services {len(report.instances)} run there, with instances {sum(report.instances.values())}"
    absent = sorted(name for id, name in cluster.services.items() if id not in report.instances)
    if absent:
        reason = f"deploy {', '.join(absent)} again, or read their logs: they should run there, and do not"
        return warn(cluster.title, reason, f"{engine}: {runs}")
    return ok(cluster.title, f"{engine}; {runs}")


def _clock(cluster: ConnectedCluster, report: EngineReport) -> Finding:
    what, seconds = f"{cluster.title}: clock", abs(report.ahead)
    if seconds > _MAX_CLOCK_DIFFERENCE_SECONDS:
        way = "ahead of" if report.ahead > 0 else "behind"
        reason = "set the clock of the host or of this machine, by NTP if you can: the host is"
        return warn(
            what,
            f"{reason} {seconds:.0f} seconds {way} this one",
            "certificates expire by it, and log lines have its time",
        )
    return ok(what, "as this one")


def _certificates(cluster: ConnectedCluster, report: EngineReport | None) -> Iterator[Finding]:
    what, access = f"{cluster.title}: certificates", cluster.access
    try:
        ends = {
            "engine_ca_certificate": end_of(access.ca_certificate),
            "engine_certificate": end_of(access.certificate),
        }
    except ValueError:
        reason = "send engine_ca_certificate and engine_certificate again: they cannot be read"
        yield fail(what, reason, _RENEW_ADVICE)
        return
    if report:
        ends["the certificate of the engine"] = datetime.fromtimestamp(report.certificate_end, UTC)
    now = datetime.now(UTC)
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        if end <= now:
            yield fail(what, f"renew {name}: it ended on {end:%Y-%m-%d}", _RENEW_ADVICE)
        elif (end - now).days < _CERTIFICATE_WARNING_DAYS:
            yield warn(what, f"renew {name}: it ends on {end:%Y-%m-%d}", _RENEW_ADVICE)
    first = min(ends, key=lambda name: ends[name])
    if (ends[first] - now).days >= _CERTIFICATE_WARNING_DAYS:
        yield ok(what, f"valid until {ends[first]:%Y-%m-%d}, when {first} ends")


def _router_port(settings: Settings, cluster: ConnectedCluster) -> Finding:
    what, host, port = f"{cluster.title}: router port", settings.gateway_host, cluster.access.router_port
    try:
        listen(host, port).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE and is_gateway(host, port):
            return ok(what, f"{host}, port {port}: the router of a Windlass is there")
        why = "another program has it" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
        reason = f"free port {port} on {host}, or choose another router_port for the cluster: {why}"
        return fail(what, reason, "until then services of the cluster are not reached by their names")
    return ok(what, f"{host}, port {port} is free")
