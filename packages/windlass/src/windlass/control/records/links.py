"""Links of services: the URLs of their public ports."""

from __future__ import annotations

from typing import Final

from windlass.control.context.context import Context
from windlass.control.context.deployed_ports import Ports
from windlass.control.records.deployments import status_of
from windlass.control.records.domains import domain_names, plain_name, port_of_domains, redirects_of
from windlass.control.records.own_certificates import remark_about, secure_names
from windlass.control.records.sealed_workload import decrypt_workload, workload_of
from windlass.control.records.served_names import row_of
from windlass.core.declare.document import Document
from windlass.core.deploy.hosts import by_name, listens
from windlass.core.words.naming import enum_value
from windlass.engines.workload import Workload, WorkloadPort
from windlass.store import DeploymentRow, NameRow, Reads, Row

_MAX_SEARCHED_DEPLOYMENTS: Final = 20
"""The number of deployments among which the last workload is searched."""


async def links_of(ctx: Context, reads: Reads, service: Row) -> list[Document]:
    """Returns the links of a service's public ports; empty before its first deployment."""
    status = await status_of(reads, service)
    ports = await _ports_of(ctx, reads, service.id, status.serving)
    if not ports:
        return []
    names, place = await reads.names.of(service.id), await ctx.places.of(service.id)
    secure = await secure_names(ctx, reads, service.id)
    links: list[Document] = []
    if port := port_of_domains(ports):
        redirects = await redirects_of(reads, service.id, names)
        for name in sorted(map(plain_name, domain_names(names)), key=lambda name: name in redirects):
            number = ctx.settings.visited_https_port if name in secure else place.http_port
            url = _url(name, number, port.path, is_secure=name in secure)
            links.append(_link(service, port, url, number, default=False))
    for port in ports:
        if (external := listens(port)) is not None:
            scheme = "http" if by_name(port) else "tcp"
            url = f"{scheme}://{place.public_host}:{external}"
            links.append(_link(service, port, url, external, default=port.default and not by_name(port)))
        if by_name(port) and (held := row_of(port, names)):
            name = host_of(ctx, held, place.domain)
            is_secure = name in secure and place.router is ctx.places.local.router
            number = ctx.settings.visited_https_port if is_secure else place.http_port
            url = _url(name, number, port.path, is_secure=is_secure)
            remark = await remark_about(ctx, reads, name, is_secure=is_secure)
            links.append(_link(service, port, url, number, default=port.default, remark=remark))
    # Domains of the user come first: people and commands open the first address.
    of_domains = len(domain_names(names)) if links else 0
    return [*links[:of_domains], *sorted(links[of_domains:], key=lambda link: not link["is_default"])]


async def _ports_of(ctx: Context, reads: Reads, service: str, serving: str | None) -> Ports:
    """Returns the ports of the workload that serves, or else of the last one, as `last_workload` finds it."""
    deployment = await reads.deployments.past(serving) if serving else None
    if deployment is not None:
        return await _ports_of_deployment(ctx, reads, deployment)
    for row in await reads.deployments.latest(service, _MAX_SEARCHED_DEPLOYMENTS):
        if (ports := await _ports_of_deployment(ctx, reads, row)) is not None:
            return ports
    return None


async def _ports_of_deployment(ctx: Context, reads: Reads, deployment: DeploymentRow) -> Ports:
    if ctx.deployed_ports.knows(deployment):
        return ctx.deployed_ports.of(deployment)
    whole = await reads.deployments.get(deployment.id)
    workload = decrypt_workload(ctx, whole) if whole else None
    ports = tuple(workload.ports) if workload else None
    ctx.deployed_ports.keep(deployment, ports)
    return ports


def _link(
    service: Row, port: WorkloadPort, url: str, external: int, *, default: bool, remark: str = ""
) -> Document:
    return {
        "service_id": service.id,
        "service_type": enum_value(service.family),
        "url": url,
        "internal_port": port.internal,
        "external_port": external,
        "is_qovery_domain": False,
        "is_default": default,
        "remark": remark,
    }


def url_of_name(ctx: Context, host_row: NameRow, domain: str, number: int, path: str) -> str:
    """Returns the URL of a service by its host name, on the gateway with this domain and port."""
    return _url(host_of(ctx, host_row, domain), number, path, is_secure=False)


def _url(host: str, number: int, path: str, *, is_secure: bool) -> str:
    scheme, usual = ("https", 443) if is_secure else ("http", 80)
    tail = "" if number == usual else f":{number}"
    return f"{scheme}://{host}{tail}{'' if path == '/' else path}"


def host_of(ctx: Context, host_row: NameRow, domain: str = "") -> str:
    return f"{host_row.name}.{domain or ctx.settings.public_domain}".lower()


async def last_workload(ctx: Context, service: str) -> Workload | None:
    """Returns the last workload of a service that does not run. Its links then lead to a page with the
    reason."""
    for row in await ctx.store.reads.deployments.latest(service, _MAX_SEARCHED_DEPLOYMENTS):
        if workload := await workload_of(ctx, row.id):
            return workload
    return None
