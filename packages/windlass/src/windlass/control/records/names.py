"""Reserves names for services: host name labels on the gateway, names inside the environment, and ports of
the machine.

A name is reserved in the database for one service before the router serves it. The first service to request a
name gets it, with all paths below it. It keeps the name until it is deleted, or until it neither declares nor
serves the name any more. If the requested label is in use, the service gets a label with its id. The router
receives only reserved names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.records.domains import domain_names
from windlass.control.records.own_certificates import schedule_own
from windlass.control.records.ports import (
    API_PREFIX,
    PORT_PREFIX,
    PortOwner,
    allowed_ports,
    share_refusal,
    take_public_port,
)
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.control.records.served_names import INSIDE_PREFIX, host_names, known_as, row_of
from windlass.core.declare.shapes import Listener, ServicePort
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.hosts import BY_NAME, by_name, candidates, is_candidate, key_of, label, listens
from windlass.engines.engine import EngineError
from windlass.engines.workload import Workload, WorkloadPort
from windlass.families.environment import environment
from windlass.routers.router import RouteError
from windlass.store import NameRow, Reads, Row, Tx

_AT_ONCE = 200
MAX_PUBLIC_PORTS = 32
"""The largest number of public TCP ports of one service. All organizations share the ports of a machine."""


async def reserve_declared(ctx: Context, tx: Tx, family: str, id: str) -> None:
    """Reserves the names that the service declares, and releases names that it neither declares nor
    serves."""
    service = await tx.resources.find(family, id)
    if service is None:
        return
    held = _HeldNames(service, await tx.names.of(service.id))
    fitting = [await _reserve_inside(tx, held), *await _reserve_declared(tx, held)]
    numberless = {port.name for port in service.read(Listener).ports if _needs_external_port(port)}
    kept = [
        row
        for row in held.rows
        if row.name.startswith(PORT_PREFIX) and (row.port in numberless or not row.port)
    ]
    kept += domain_names(held.rows)
    extra = [row for row in held.rows if row not in fitting and row not in kept]
    if extra:
        in_use = await _in_use(ctx, tx, service, held.rows)
        for row in extra:
            if row.name not in in_use:
                await tx.names.release(row)


def _needs_external_port(port: ServicePort) -> bool:
    """Returns whether Windlass chooses the external port."""
    return port.publicly_accessible and port.protocol == "TCP" and not port.external_port


async def refuse_outside(ctx: Context, tx: Tx, service: Row) -> None:
    """Refuses a deployment with external ports outside the allowed range, unless the service has reserved
    them already."""
    asked = {
        port.external_port: index
        for index, port in enumerate(service.read(Listener).ports)
        if port.publicly_accessible and port.protocol == "TCP" and port.external_port
    }
    ports = service.read(Listener).ports
    if len(asked) + sum(map(_needs_external_port, ports)) > MAX_PUBLIC_PORTS:
        raise Conflict(
            f"Make some of its ports private: a service may have {MAX_PUBLIC_PORTS} public TCP ports"
        )
    held = {row.name for row in await tx.names.of(service.id)} if asked else set()
    for number, index in asked.items():
        if f"{PORT_PREFIX}{number}" not in held and (advice := allowed_ports(ctx.settings, number)):
            raise Conflict(f"ports[{index}].external_port: choose {advice}")


async def reserve_names(ctx: Context, tx: Tx, workload: Workload) -> Workload:
    """Reserves a host name or an external port for each public port of a generation that is about to run.
    Returns the workload with the reserved names."""
    if not any(port.public for port in workload.ports):
        return workload
    held = await tx.names.of(workload.service)
    if sum(port.public and not by_name(port) for port in workload.ports) > MAX_PUBLIC_PORTS:
        raise EngineError(
            f"Make some of its ports private: a service may have {MAX_PUBLIC_PORTS} public TCP ports"
        )
    ports = [await _with_number(ctx, tx, workload, port, held) for port in workload.ports]
    await schedule_own(ctx, tx, workload.service, workload.org)
    return await _reserve_served_hosts(tx, replace(workload, ports=tuple(ports)))


async def _with_number(
    ctx: Context, tx: Tx, workload: Workload, port: WorkloadPort, host_rows: Sequence[NameRow]
) -> WorkloadPort:
    """Returns the port with its external port. A port that is reached by host name keeps its external port
    only if services may use it; otherwise it is reached only through the gateway."""
    number = listens(port)
    if number is None or f"{PORT_PREFIX}{number}" in {row.name for row in host_rows}:
        return port
    if by_name(port):
        return port if number in ctx.settings.bindable else replace(port, external=None)
    if port.external is None:
        taken = await take_public_port(ctx.settings, tx, _port_owner(workload), port.name)
        return replace(port, external=taken)
    return port


async def _reserve_served_hosts(tx: Tx, workload: Workload) -> Workload:
    if not any(by_name(port) for port in workload.ports):
        return workload
    service = await tx.resources.get(workload.service)
    assert service is not None
    held = _HeldNames(service, await tx.names.of(service.id))
    await _reserve_declared(tx, held)
    rows = await _reserve_hosts(
        tx, held, workload.name, [key_of(port) for port in workload.ports if by_name(port)]
    )
    ports = [
        replace(port, host=rows[key_of(port)].name) if by_name(port) else port for port in workload.ports
    ]
    return replace(workload, ports=tuple(ports))


async def reserve_ports(ctx: Context, workload: Workload) -> None:
    """Reserves the external ports of a generation. Raises RouteError if one is in use."""
    asked = {
        f"{PORT_PREFIX}{number}": port.name
        for port in workload.ports
        if (number := listens(port)) is not None
    }
    if asked.keys() <= {row.name for row in await ctx.store.reads.names.of(workload.service)}:
        return

    owner = _port_owner(workload)

    async def change(tx: Tx) -> None:
        held = {row.name for row in await tx.names.of(workload.service)}
        for name, port in asked.items():
            if name not in held and (
                advice := allowed_ports(ctx.settings, int(name.removeprefix(PORT_PREFIX)))
            ):
                raise RouteError(f"Choose {advice} (external_port of {port})")
            if name not in held and await tx.facts.get(f"{API_PREFIX}{name}"):
                raise RouteError(
                    f"Choose another external_port for {port}: {name} is the API port of Windlass"
                )
            if name not in held and await tx.names.reserve(name, workload.service, port) is None:
                raise RouteError(
                    f"Choose another external_port for {port}: {name} is in use by another service"
                )
            if name not in held and (advice := await share_refusal(ctx.settings, tx, owner, name)):
                raise RouteError(advice)

    await ctx.store.write(change)


def _port_owner(workload: Workload) -> PortOwner:
    return PortOwner(workload.org, workload.environment, workload.service)


async def note_api_port(ctx: Context) -> None:
    """Reserves this server's API port permanently. A gateway keeps running while the server restarts, and a
    service on this port would receive the tokens of clients."""
    fact = f"{API_PREFIX}{PORT_PREFIX}{ctx.settings.port}"
    if await ctx.store.reads.facts.get(fact) is None:
        await ctx.store.write(lambda tx: tx.facts.set(fact, b"in use"))


class _HeldNames:
    """The names of one service, while more names are being reserved."""

    def __init__(self, service: Row, rows: list[NameRow]) -> None:
        self.service = service
        self.rows = rows

    async def reserve(self, tx: Tx, key: str, wish: str) -> NameRow:
        id = self.service.id
        for row in host_names(self.rows):
            if row.port == key and (row.wish == wish or (not row.wish and is_candidate(row.name, wish, id))):
                return row
        for name in candidates(wish, id):
            if taken := await tx.names.reserve(name, id, key, wish):
                self.rows.append(taken)
                return taken
        raise AssertionError  # the candidates are endless


async def _reserve_inside(tx: Tx, held_names: _HeldNames) -> NameRow:
    """Reserves the name under which other services of the environment reach this service. Names are unique
    across families."""
    service, name = held_names.service, held_names.service.read(NamedDocument).name
    if row := known_as(name, held_names.rows):
        return row
    for each in candidates(label(name), service.id):
        wanted = f"{INSIDE_PREFIX}{service.parent} {each}"
        if taken := await tx.names.reserve(wanted, service.id, "", label(name)):
            held_names.rows.append(taken)
            return taken
    raise AssertionError  # the candidates are endless


async def _reserve_declared(tx: Tx, held_names: _HeldNames) -> list[NameRow]:
    service = held_names.service.read(Listener)
    asked = host_keys(service.ports)
    return [*(await _reserve_hosts(tx, held_names, service.name, asked)).values()] if asked else []


def host_keys(ports: Iterable[ServicePort]) -> list[str]:
    """Returns the keys of public ports that need a host name. The key of the default port is empty."""
    return [
        "" if port.is_default else port.name
        for port in ports
        if port.publicly_accessible and port.protocol in BY_NAME
    ]


async def _reserve_hosts(
    tx: Tx, held_names: _HeldNames, name: str, requested_names: Iterable[str]
) -> dict[str, NameRow]:
    """Reserves host names by port key. The default port gets the name of the service; other ports get it with
    a prefix."""
    home = await tx.resources.find(environment.name, held_names.service.parent)
    assert home is not None
    wish = label(name, home.read(NamedDocument).name)
    own = await held_names.reserve(tx, "", wish)
    others = {key: await held_names.reserve(tx, key, label(key, own.name)) for key in requested_names if key}
    return {"": own, **others}


async def _in_use(ctx: Context, reads: Reads, service: Row, rows: Sequence[NameRow]) -> set[str]:
    """Returns the names that the serving deployment or an open deployment uses."""
    status = await reads.statuses.get(service.id)
    deployments = await reads.deployments.open(service.id)
    if status and status.serving and (serving := await reads.deployments.get(status.serving)):
        deployments.append(serving)
    names: set[str] = set()
    for deployment in deployments:
        if workload := decrypt_workload(ctx, deployment):
            holders = [row_of(port, rows) for port in workload.ports if by_name(port)]
            names |= {row.name for row in (*holders, known_as(workload.name, rows)) if row}
            names |= {
                f"{PORT_PREFIX}{number}" for port in workload.ports if (number := listens(port)) is not None
            }
    return names
