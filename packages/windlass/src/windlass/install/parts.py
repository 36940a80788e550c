"""The replaceable parts of an installation, such as engine, builder and router. Tests provide others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from windlass.base.bounded import BoundedCalls, CallLimits
from windlass.base.clock import Clock
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import Builder
from windlass.builders.detecting import bounded_detection
from windlass.config import BadSetting, Settings
from windlass.control.context.context import Repositories
from windlass.control.context.place import Connector, HttpRouter
from windlass.control.context.places import LOCAL_ID
from windlass.engines.engine import PORTS_OF_ENGINES, Engine
from windlass.engines.provider import EngineProvider, Server
from windlass.engines.servers import Servers
from windlass.gateway.router import GatewayRouter
from windlass.install.connecting import ClusterConnector, gateway_access_log, gateway_link
from windlass.install.engines import own_settings, provider_in_use, publisher_opener
from windlass.install.server_id import home_of, owner_id
from windlass.sources.bundled import BundledRepositories
from windlass.sources.git import Git
from windlass.sources.push import repositories_of
from windlass.store import FIRST_PLACE


class Parts(Struct, frozen=True, kw_only=True):
    engine: Engine
    builder: Builder
    router: HttpRouter
    git: Repositories
    servers: Servers
    connector: Connector
    owner: Callable[[], str] | None = None
    """A function that returns the id of the server as the owner of its place, or an empty string while the id
    is unknown. None if there cannot be another server."""
    server: str = ""
    """The id of the server of this data directory; empty if it is the only server of its database."""
    home: str = ""
    """The identity of the opened data directory, if the engine belongs to this server; see
    `server_id.home_of`."""
    calls: BoundedCalls = field(default_factory=bounded_detection)
    """Bounded calls for the detection of applications, for requests and for builds."""


async def real_parts(settings: Settings, clock: Clock, installation: str, gateway: int = 0) -> Parts:
    """Creates the parts that the settings select.

    `installation` distinguishes the objects of this installation from those of another Windlass on the same
    engine. `gateway` is the process id of the gateway that was started for this server, or 0.
    """
    _check_public_ports(settings)
    folder = await in_thread(Path(settings.data_dir).resolve)
    calls = bounded_detection(CallLimits(settings.detection_memory, settings.detection_seconds))
    provider = await provider_in_use(settings)
    server = Server(
        folder=folder,
        clock=clock,
        installation=installation,
        calls=calls,
        open_publisher=publisher_opener(settings, calls),
    )
    opened = await provider.open(own_settings(provider, settings), server)
    try:
        git = Git(
            allow_local=settings.git_allow_local,
            outbound_allow=settings.outbound_allow,
            home=folder / "git",
            closed=folder,
            ca_file=settings.outbound_ca_file,
        )
    except ValueError as error:
        raise BadSetting(f"outbound_allow: {error}") from error
    link = await in_thread(gateway_link, settings, gateway)
    return Parts(
        engine=opened.engine,
        builder=opened.builder,
        router=GatewayRouter(
            link,
            LOCAL_ID,
            settings.gateway_host,
            settings.gateway_port,
            settings.trusted_proxies,
            await in_thread(gateway_access_log, settings),
            settings.https_port,
            settings.proxy_protocol_from,
            settings.public_https_port,
            offers_http2=settings.gateway_http2,
        ),
        git=BundledRepositories(git, folder / "bundled", repositories_of(settings)),
        servers=opened.servers,
        connector=ClusterConnector(settings, server, link),
        owner=await _owner(settings, provider, opened.engine),
        server=await in_thread(owner_id, settings) if settings.database_url else "",
        home=await in_thread(home_of, folder) if provider.is_of_server else "",
        calls=calls,
    )


async def _owner(settings: Settings, provider: EngineProvider, engine: Engine) -> Callable[[], str] | None:
    if not settings.database_url:
        if settings.place != FIRST_PLACE:
            raise BadSetting(f"place: leave it out, or set database_url: {settings.place} is the only server")
        return None
    if provider.is_of_server:
        own = await in_thread(owner_id, settings)
        return lambda: own
    # Servers that share an engine are one owner together, on whichever machine they run.
    return lambda: engine.identity


def _check_public_ports(settings: Settings) -> None:
    try:
        public = settings.bindable
    except ValueError as error:
        raise BadSetting(f"public_ports: {error}") from error
    first, last = PORTS_OF_ENGINES[0], PORTS_OF_ENGINES[-1]
    if public[0] <= last and first <= public[-1]:
        raise BadSetting(
            f"public_ports: choose ports below {first} or above {last} instead of {settings.public_ports}: "
            "engines give those between them to instances"
        )
