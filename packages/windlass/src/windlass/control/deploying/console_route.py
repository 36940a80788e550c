"""The route of the gateway to the console and the API of this server, at the setting `console_domain`."""

from __future__ import annotations

from typing import Final

from windlass.control.context.context import Context
from windlass.control.context.server_addresses import ALL_ADDRESSES
from windlass.routers.router import Endpoint, Route

CONSOLE: Final = "windlass"
"""The id of this route, in place of that of a service."""
_ABOVE_SERVICES: Final = 2**62
"""Number of its reservation, which is above that of every service."""


def gateway_proof(ctx: Context) -> str:
    """Returns the secret by which this server recognizes requests of its gateway. It is the same for all
    servers of an installation."""
    return ctx.encryption.mark(b"requests of the gateway")


async def set_console_route(ctx: Context) -> None:
    """Opens or closes the route, as the settings of this server say."""
    settings, router = ctx.settings, ctx.places.local.router
    if not settings.console_domain:
        if CONSOLE in await router.services():
            await router.forget(CONSOLE)
        return
    # The gateway keeps the port of the API open while a server restarts: requests wait for the next one.
    host = {"::": "::1"}.get(settings.host, "127.0.0.1" if settings.host in ALL_ADDRESSES else settings.host)
    route = Route(
        service=CONSOLE,
        port="api",
        title="Windlass",
        kind="http",
        hosts=(settings.console_domain.lower(),),
        held=_ABOVE_SERVICES,
        endpoints=(Endpoint(host, settings.port),),
        proof=gateway_proof(ctx),
    )
    await router.set(CONSOLE, [route])
