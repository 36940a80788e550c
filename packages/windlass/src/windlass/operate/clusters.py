"""Checks the clusters that are connected to engines at other addresses, for `windlass doctor`."""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.base.encryption import CannotDecrypt
from windlass.config import BadSetting, Settings
from windlass.control.background.holdings import INSTALLATION
from windlass.control.context.place import EngineAccess
from windlass.control.people.organizations import NO_PARENT
from windlass.control.services.engine_access import access_in
from windlass.control.telling.certificate_metrics import end_of
from windlass.core.declare.stored import NamedDocument
from windlass.docker import names
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.tls_failures import TLS_PORT
from windlass.docker.client.transports import BadIdentity, TlsIdentity, tls_context
from windlass.families.cluster import Cluster, cluster
from windlass.families.organization import organization
from windlass.install.connecting import DockerConnector, gateway_link
from windlass.install.database import looking
from windlass.install.key import WrongKey, load_encryption
from windlass.operate.findings import SECONDS, Finding, fail, ok, warn
from windlass.operate.listeners import is_gateway
from windlass.serve.server import listen
from windlass.store import Reads
from windlass.store.archive import Snapshot
from windlass.store.migrate import find_missing, migrations

_LEFT_ALONE: Final = (
    "until then its services are left alone: nothing is started, moved or erased, and deployments there wait "
    "for ready_seconds and fail"
)
_RENEW: Final = "docs/clusters.md says how, under `Renew certificates`"
_SOON: Final = 30
"""Days before its end from which a certificate is to be renewed."""
_APART: Final = 30.0
"""Seconds by which clocks may differ."""


class ConnectedCluster(Struct, frozen=True, kw_only=True):
    """A cluster with an engine at an address of its own, by the database."""

    title: str
    access: EngineAccess
    label: str
    """The label of its containers."""
    services: Mapping[str, str]
    """Names of the services that should run there, by id."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """The answers of an engine."""

    version: str
    ahead: float
    """Seconds by which its clock is ahead of this one."""
    instances: Mapping[str, int]
    """Running instances, by service."""
    certificate_end: datetime
    """The end of the certificate that it shows."""


async def clusters(settings: Settings) -> list[Finding]:
    """Checks all of them at once, so that several that are away take no longer than one."""
    try:
        clusters = await connected_clusters(settings)
    except (CannotDecrypt, WrongKey, BadSetting) as error:
        reason = f"bring back the key of this installation: {error}"
        return [fail("Clusters", reason, "it encrypts the keys of clusters, so none of them was asked")]
    connector = DockerConnector(settings, "", gateway_link(settings))
    checks = await asyncio.gather(
        *(_examine(settings, connector, found_cluster) for found_cluster in clusters)
    )
    return [finding for findings in checks for finding in findings]


async def connected_clusters(settings: Settings) -> list[ConnectedCluster]:
    """Reads them from the database; none from a database that the next start brings up to date."""
    async with looking(settings) as line:
        moment = Snapshot(line)
        applied = await moment.applied()
        if not applied or find_missing(migrations(), applied):
            return []
        reads, installation = moment.reads, (await moment.fact(INSTALLATION) or b"").decode()
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
        connector = DockerConnector(settings, installation, gateway_link(settings))
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
    settings: Settings, connector: DockerConnector, cluster: ConnectedCluster
) -> Sequence[Finding]:
    address = cluster.access.address
    findings: list[Finding] = []
    report: EngineReport | None = None
    try:
        async with asyncio.timeout(SECONDS):
            report = await _ask(connector, cluster)
    except TimeoutError:
        reason = f"check the host at {address}: its Docker engine did not answer within {SECONDS} seconds"
        findings.append(fail(cluster.title, reason, _LEFT_ALONE))
    except (Away, EngineRefused, BadIdentity, OSError) as error:
        findings.append(fail(cluster.title, str(error), _LEFT_ALONE))
    else:
        findings += [_report_running(cluster, report), _clock(cluster, report)]
    findings += _certificates(cluster, report)
    if cluster.access.router_port:
        findings.append(await asyncio.to_thread(_router_port, settings, cluster))
    return findings


# Asking


async def _ask(connector: DockerConnector, cluster: ConnectedCluster) -> EngineReport:
    docker = Docker(connector.transport(cluster.access))
    try:
        before = time.time()
        info = await docker.json("GET", "/info")
        now = (before + time.time()) / 2
        wanted = {"label": [f"{names.INSTALLATION}={cluster.label}"], "status": ["running"]}
        containers = await docker.json("GET", "/containers/json", params={"filters": wanted})
        return EngineReport(
            version=str(info.get("ServerVersion", "of an unknown version")),
            ahead=datetime.fromisoformat(info["SystemTime"]).timestamp() - now,
            instances=Counter(str(container["Labels"].get(names.SERVICE)) for container in containers),
            certificate_end=await _certificate_end(cluster.access),
        )
    finally:
        await docker.close()


async def _certificate_end(access: EngineAccess) -> datetime:
    """Returns the end of the certificate that the engine shows. Its address was admitted before."""
    parts = urlsplit(access.address)
    identity = TlsIdentity(access.ca_certificate, access.certificate, access.key)
    _, writer = await asyncio.open_connection(
        parts.hostname, parts.port or TLS_PORT, ssl=tls_context(identity)
    )
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert()
    finally:
        writer.transport.abort()
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(shown["notAfter"]), UTC)


# Judging


def _report_running(cluster: ConnectedCluster, report: EngineReport) -> Finding:
    engine = f"Docker {report.version} at {cluster.access.address}"
    runs = f"services {len(report.instances)} run there, with instances {sum(report.instances.values())}"
    absent = sorted(name for id, name in cluster.services.items() if id not in report.instances)
    if absent:
        reason = f"deploy {', '.join(absent)} again, or read their logs: they should run there, and do not"
        return warn(cluster.title, reason, f"{engine}: {runs}")
    return ok(cluster.title, f"{engine}; {runs}")


def _clock(cluster: ConnectedCluster, report: EngineReport) -> Finding:
    what, seconds = f"{cluster.title}: clock", abs(report.ahead)
    if seconds > _APART:
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
        yield fail(what, reason, _RENEW)
        return
    if report:
        ends["the certificate of dockerd"] = report.certificate_end
    now = datetime.now(UTC)
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        if end <= now:
            yield fail(what, f"renew {name}: it ended on {end:%Y-%m-%d}", _RENEW)
        elif (end - now).days < _SOON:
            yield warn(what, f"renew {name}: it ends on {end:%Y-%m-%d}", _RENEW)
    first = min(ends, key=lambda name: ends[name])
    if (ends[first] - now).days >= _SOON:
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
