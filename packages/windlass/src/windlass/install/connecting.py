"""Connects clusters to Docker engines at other addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from windlass.base.addresses import Address, Reach
from windlass.base.bounded import BoundedCalls
from windlass.base.errors import Invalid
from windlass.base.line_log import check_writable
from windlass.config import BadSetting, Settings
from windlass.control.context.place import EngineAccess, HttpRouter, Place
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.subnets import read_range
from windlass.docker.client.tls_failures import TLS_PORT
from windlass.docker.client.transports import BadIdentity, DockerTransport, TlsIdentity, TlsTransport
from windlass.gateway.files import folder_of
from windlass.gateway.link import GatewayLink
from windlass.gateway.router import GatewayRouter
from windlass.process.databases import NativeDatabases
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.router import RouteError

PLACES: Final = "places"
"""The folder of what belongs to engines of clusters, below the data directory."""
_CHECK_SECONDS: Final = 15.0
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
    """True for addresses of this machine: programs can listen there."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as tried, suppress(OSError):
        tried.bind((str(address), 0))
        return True
    return False


def docker_pool(settings: Settings) -> IPv4Network | None:
    """Returns the range of the networks on Docker engines; None if engines take their own."""
    try:
        return read_range(settings.docker_networks)
    except ValueError as error:
        raise BadSetting(f"docker_networks: name a range such as 10.199.0.0/16: {error}") from error


def gateway_link(settings: Settings, started: int = 0) -> GatewayLink:
    """Returns a link to the gateway of a data directory. It starts with its first use."""
    return GatewayLink(folder_of(settings.data_dir), started)


def gateway_access_log(settings: Settings) -> str:
    """Returns the absolute path of the file into which the gateway logs requests; empty is none."""
    if not settings.gateway_access_log_file:
        return ""
    path = Path(settings.gateway_access_log_file).absolute()
    try:
        check_writable(path)
    except OSError as error:
        raise BadSetting(f"gateway_access_log_file: {path} cannot be written: {error.strerror}") from error
    return str(path)


class DockerConnector:
    """Makes places of clusters whose engine is Docker, reached with TLS."""

    def __init__(
        self, settings: Settings, installation: str, link: GatewayLink, calls: BoundedCalls | None = None
    ) -> None:
        try:
            # A host that runs services is believed about them: only the operator says which may be one.
            self._reach = EngineReach(settings.outbound_allow)
        except ValueError as error:
            raise BadSetting(f"outbound_allow: {error}") from error
        self._settings, self._installation, self._link = settings, installation, link
        self._calls = calls
        self._pool = docker_pool(settings)

    def place(self, access: EngineAccess, local: Place) -> Place:
        # Loaded only where it is used: its HTTP client is a third of the time to start.
        from windlass.docker.builds import DockerBuilder  # noqa: PLC0415
        from windlass.docker.engine import DockerEngine  # noqa: PLC0415

        docker = Docker(self.transport(access))
        folder = Path(self._settings.data_dir).resolve() / PLACES / access.cluster
        label = self.label(access.cluster)

        async def reconnect(to: EngineAccess) -> None:
            await docker.move(self.transport(to))

        return replace(
            local,
            id=access.cluster,
            engine=DockerEngine(host=docker, folder=folder / "docker", installation=label, pool=self._pool),
            builder=DockerBuilder(host=docker, installation=label, calls=self._calls, pool=self._pool),
            servers=NativeDatabases(folder / "databases"),
            is_connected=True,
            reconnect=reconnect,
        )

    async def identity(self, access: EngineAccess) -> str:
        docker: Docker | None = None
        try:
            docker = Docker(self.transport(replace(access, engine_id="")))
            async with asyncio.timeout(_CHECK_SECONDS):
                return await docker.identity()
        except BadIdentity as error:
            raise Invalid(str(error)) from error
        except TimeoutError as error:
            seconds = f"{_CHECK_SECONDS:.0f} seconds"
            raise Invalid(f"engine_address: no answer from {access.address} within {seconds}") from error
        except (Away, EngineRefused) as error:
            raise Invalid(f"engine_address: {error}") from error
        finally:
            if docker is not None:
                await docker.close()

    def label(self, cluster: str) -> str:
        """Returns the label of what belongs to a cluster. Two clusters may name one engine: what is of one is
        nothing to the other."""
        return f"{self._installation}.{cluster}"

    def transport(self, access: EngineAccess) -> DockerTransport:
        parts = urlsplit(access.address)
        identity = TlsIdentity(access.ca_certificate, access.certificate, access.key)
        port = parts.port or TLS_PORT
        return TlsTransport(
            access.name, parts.hostname or "", port, identity, self._reach, engine_id=access.engine_id
        )

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
