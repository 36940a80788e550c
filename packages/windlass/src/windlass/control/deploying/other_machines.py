"""The names of services that another machine serves: at this gateway, they lead to a page that names it."""

from __future__ import annotations

from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.records.links import host_of, url_of_name
from windlass.routers.router import ServedElsewhere
from windlass.store import NameRow, Surroundings


def machine_of(ctx: Context, place: Place) -> Surroundings | None:
    """Returns what is told of the machine that serves a place, if it is another one."""
    if place.elsewhere is not None:
        return place.elsewhere
    return ctx.ownership.elsewhere if place is ctx.places.local else None


def hosts_of(ctx: Context, place: Place, held: NameRow) -> tuple[str, ...]:
    """Returns the hosts that lead to a service here: also those of the machine that serves it."""
    machine = machine_of(ctx, place)
    hosts = [host_of(ctx, held), *([host_of(ctx, held, machine.domain)] if machine else [])]
    return tuple(dict.fromkeys(hosts))


def served_elsewhere(ctx: Context, place: Place, held: NameRow, path: str = "/") -> ServedElsewhere | None:
    machine = machine_of(ctx, place)
    if machine is None:
        return None
    name = place.machine or ctx.ownership.place
    url = url_of_name(ctx, held, machine.domain, machine.port, path) if machine.port else ""
    return ServedElsewhere(name, url)
