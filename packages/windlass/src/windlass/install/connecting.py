"""Connects clusters to engines on other machines."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Final, cast

from msgspec.structs import replace

from windlass.base.addresses import Address, Reach
from windlass.base.errors import Invalid
from windlass.base.line_log import check_writable
from windlass.config import BadSetting, Settings
from windlass.control.context.place import EngineAccess, HttpRouter, Place
from windlass.engines.provider import EngineReport, RemoteProvider, Server
from windlass.gateway.files import folder_of
from windlass.gateway.link import GatewayLink
from windlass.gateway.router import GatewayRouter
from windlass.install.engines import own_settings, providers
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.router import RouteError

PLACES_FOLDER: Final = "places"
"""The folder for state of remote engines, below the data directory."""
FIRST_OPEN: Final = 1024
"""The lowest port that organizations may open on the server's machine."""


class EngineReach(Reach):
    """Decides whether the server may connect to the address of an engine.

    The operator has to allow each address or network. Addresses of this machine and link-local addresses have
    to be allowed one by one, even if they are in an allowed network. Otherwise services could reach internal
    ports of this machine through the router.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        super().__init__(allowed, public=False)

    def admits(self, address: Address) -> bool:
        # An IPv4-mapped address such as ::ffff:169.254.169.254 connects to 169.254.169.254.
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_link_local or address.is_multicast or address.is_unspecified or _is_own(address):
            return ip_network(address) in self._allowed
        return self.names(address)


def _is_own(address: Address) -> bool:
    """Returns whether an address belongs to this machine, by binding a socket to it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as tried, suppress(OSError):
        tried.bind((str(address), 0))
        return True
    return False


def gateway_link(settings: Settings, gateway_pid: int = 0) -> GatewayLink:
    """Returns a link to the gateway of a data directory. The gateway process starts when the link is first
    used."""
    return GatewayLink(folder_of(settings.data_dir), gateway_pid)


def gateway_access_log(settings: Settings) -> str:
    """Returns the absolute path of the gateway's access log, or an empty string if there is none."""
    if not settings.gateway_access_log_file:
        return ""
    path = Path(settings.gateway_access_log_file).absolute()
    try:
        check_writable(path)
    except OSError as error:
        raise BadSetting(f"gateway_access_log_file: {path} cannot be written: {error.strerror}") from error
    return str(path)


def remote_provider(engine_word: str) -> RemoteProvider:
    """Returns the engine provider for the word that clusters use for it. Raises Invalid if none is
    installed."""
    for provider in providers().values():
        if getattr(provider, "word", "") == engine_word:
            return cast(RemoteProvider, provider)
    raise Invalid(f"engine: choose another one, or have the package with the engine {engine_word} installed")


class ClusterConnector:
    """Creates the places of clusters whose engine is on another machine."""

    def __init__(self, settings: Settings, server: Server, link: GatewayLink) -> None:
        try:
            # The server trusts the reports of engine hosts, so only the operator decides which hosts are
            # allowed.
            self._reach = EngineReach(settings.outbound_allow)
        except ValueError as error:
            raise BadSetting(f"outbound_allow: {error}") from error
        self._settings, self._server, self._link = settings, server, link

    def place(self, access: EngineAccess, local: Place) -> Place:
        provider = remote_provider(access.engine)
        server = replace(self._server, installation=self.label(access.cluster))
        folder = Path(self._settings.data_dir).resolve() / PLACES_FOLDER / access.cluster
        opened = provider.connect(
            access.remote, self._reach, own_settings(provider, self._settings), server, folder
        )

        async def reconnect(engine_access: EngineAccess) -> None:
            if opened.reconnect is not None:
                await opened.reconnect(engine_access.remote)

        return replace(
            local,
            id=access.cluster,
            engine=opened.engine,
            builder=opened.builder,
            servers=opened.servers,
            is_connected=True,
            reconnect=reconnect,
        )

    async def identity(self, access: EngineAccess) -> str:
        return await remote_provider(access.engine).identity(access.remote, self._reach)

    async def report(self, access: EngineAccess, label: str) -> EngineReport:
        """Returns the state of an engine, and the services with this label on it. Raises EngineError."""
        return await remote_provider(access.engine).report(access.remote, self._reach, label)

    def label(self, cluster: str) -> str:
        """Returns the label for all objects of a cluster on its engine. It separates clusters that share an
        engine."""
        return f"{self._server.installation}.{cluster}"

    def router(self, access: EngineAccess) -> HttpRouter:
        settings = self._settings
        return GatewayRouter(
            self._link,
            access.door,
            settings.gateway_host,
            access.router_port,
            settings.trusted_proxies,
            gateway_access_log(settings),
            proxy_protocol_from=settings.proxy_protocol_from,
        )

    async def check_port(self, access: EngineAccess, local: Place) -> None:
        port = access.router_port
        own = {self._settings.port, self._settings.gateway_port, self._settings.https_port, local.router.port}
        if port < FIRST_OPEN or port in own:
            raise Invalid(
                f"router_port: choose another port, from {FIRST_OPEN} on: {port} is below that, or used by "
                "Windlass"
            )
        router = BuiltinRouter(self._settings.gateway_host, port)
        try:
            await router.start()
        except RouteError as error:
            raise Invalid(f"router_port: choose another port than {port}: another program has it") from error
        finally:
            await router.stop()
