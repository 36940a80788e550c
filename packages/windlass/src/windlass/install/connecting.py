"""Connects clusters to engines at other addresses."""

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

PLACES: Final = "places"
"""The folder below the data directory with the files of clusters' engines."""
FIRST_OPEN: Final = 1024
"""The first port that organizations may have opened on the machine of this server."""


class EngineReach(Reach):
    """Admits hosts that the operator allowed. Ports of this machine, and of its neighbours on the link, are
    meant for itself: requests would reach them through the router. So each of these addresses has to be
    allowed alone, and not within a network."""

    def __init__(self, allowed: Iterable[str]) -> None:
        super().__init__(allowed, public=False)

    def admits(self, address: Address) -> bool:
        # ::ffff:169.254.169.254 reaches 169.254.169.254.
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_link_local or address.is_multicast or address.is_unspecified or _is_own(address):
            return ip_network(address) in self._allowed
        return self.names(address)


def _is_own(address: Address) -> bool:
    """Returns True for addresses of this machine: programs can listen there."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as tried, suppress(OSError):
        tried.bind((str(address), 0))
        return True
    return False


def gateway_link(settings: Settings, started: int = 0) -> GatewayLink:
    """Returns a link to the gateway of a data directory. It starts with its first use."""
    return GatewayLink(folder_of(settings.data_dir), started)


def gateway_access_log(settings: Settings) -> str:
    """Returns the absolute path of the gateway's access log; empty if there is none."""
    if not settings.gateway_access_log_file:
        return ""
    path = Path(settings.gateway_access_log_file).absolute()
    try:
        check_writable(path)
    except OSError as error:
        raise BadSetting(f"gateway_access_log_file: {path} cannot be written: {error.strerror}") from error
    return str(path)


def remote_provider(word: str) -> RemoteProvider:
    """Returns the provider whose engines clusters name by a word. Raises Invalid if none is installed."""
    for provider in providers().values():
        if getattr(provider, "word", "") == word:
            return cast(RemoteProvider, provider)
    raise Invalid(f"engine: choose another one, or have the package with the engine {word} installed")


class ClusterConnector:
    """Creates places for clusters whose engine is at another address."""

    def __init__(self, settings: Settings, server: Server, link: GatewayLink) -> None:
        try:
            # The reports of a host that runs services are trusted: only the operator decides which hosts
            # may be one.
            self._reach = EngineReach(settings.outbound_allow)
        except ValueError as error:
            raise BadSetting(f"outbound_allow: {error}") from error
        self._settings, self._server, self._link = settings, server, link

    def place(self, access: EngineAccess, local: Place) -> Place:
        provider = remote_provider(access.engine)
        server = replace(self._server, installation=self.label(access.cluster))
        folder = Path(self._settings.data_dir).resolve() / PLACES / access.cluster
        opened = provider.connect(
            access.remote, self._reach, own_settings(provider, self._settings), server, folder
        )

        async def reconnect(to: EngineAccess) -> None:
            if opened.reconnect is not None:
                await opened.reconnect(to.remote)

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
        """Asks the engine for its state, and for the instances with this label. Raises EngineError."""
        return await remote_provider(access.engine).report(access.remote, self._reach, label)

    def label(self, cluster: str) -> str:
        """Returns the label of a cluster's objects. Two clusters may use one engine; each ignores the
        objects of the other."""
        return f"{self._server.installation}.{cluster}"

    def router(self, access: EngineAccess) -> HttpRouter:
        host, proxies = self._settings.gateway_host, self._settings.trusted_proxies
        return GatewayRouter(
            self._link, access.door, host, access.router_port, proxies, gateway_access_log(self._settings)
        )

    async def check_port(self, access: EngineAccess, local: Place) -> None:
        port = access.router_port
        if port < FIRST_OPEN or port in {self._settings.port, self._settings.gateway_port, local.router.port}:
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
