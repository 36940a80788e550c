"""The parts of an installation: engine, builder and router; tests use others."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import cast

from msgspec import Struct, field

from windlass.base.bounded import BoundedCalls, CallLimits
from windlass.base.clock import Clock
from windlass.base.environment import for_tools
from windlass.base.isolation.isolation import Isolation, Mode, NetworkRules
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import Builder
from windlass.builders.detecting import bounded_detection
from windlass.config import BadSetting, Settings, settings_file
from windlass.control.context.context import Repositories
from windlass.control.context.place import Connector, HttpRouter
from windlass.control.context.places import LOCAL
from windlass.control.context.servers import Servers
from windlass.engines.by_hand.removed_generations import REMOVED
from windlass.engines.engine import PORTS_OF_ENGINES, Engine
from windlass.gateway.router import GatewayRouter
from windlass.install import mark
from windlass.install.connecting import PLACES, DockerConnector, docker_pool, gateway_access_log, gateway_link
from windlass.install.server_id import home_of, owner_id
from windlass.process.databases import NativeDatabases
from windlass.sources.bundled import BundledRepositories
from windlass.sources.git import Git
from windlass.store import FIRST_PLACE
from windlass.terraform.programs import InstalledPrograms, Programs

PROCESS, DOCKER = ENGINES = ("process", "docker")
USUAL_DOCKER = "unix:///var/run/docker.sock"


class Parts(Struct, frozen=True, kw_only=True):
    engine: Engine
    builder: Builder
    router: HttpRouter
    git: Repositories
    servers: Servers
    connector: Connector
    owner: Callable[[], str] | None = None
    """Returns the id of the server as the owner of its place, or an empty text while that is not known. None
    where no other server can be."""
    programs: Programs
    """Terraform and OpenTofu."""
    server: str = ""
    """The id of the server of this data directory; empty if it is the only one of its database."""
    home: str = ""
    """The data directory as this machine has it open, if it is part of the owner; see `server_id.home_of`."""
    calls: BoundedCalls = field(default_factory=bounded_detection)
    """Detection, for requests and for builds."""


async def real_parts(settings: Settings, clock: Clock, installation: str, gateway: int = 0) -> Parts:
    """`installation` tells what is ours from what is of another Windlass on the same engine. `gateway` is the
    process id of the gateway that was started for this server, or 0."""
    _check_public_ports(settings)
    folder = await in_thread(Path(settings.data_dir).resolve)
    calls = bounded_detection(CallLimits(settings.detection_memory, settings.detection_seconds))
    engine, builder = await _engine(settings, folder, clock, installation, calls)
    try:
        git = Git(
            allow_local=settings.git_allow_local,
            outbound_allow=settings.outbound_allow,
            home=folder / "git",
            closed=folder,
        )
    except ValueError as error:
        raise BadSetting(f"outbound_allow: {error}") from error
    link = await in_thread(gateway_link, settings, gateway)
    return Parts(
        engine=engine,
        builder=builder,
        router=GatewayRouter(
            link,
            LOCAL,
            settings.gateway_host,
            settings.gateway_port,
            settings.trusted_proxies,
            await in_thread(gateway_access_log, settings),
        ),
        git=BundledRepositories(git, folder / "bundled"),
        servers=NativeDatabases(folder / "databases"),
        connector=DockerConnector(settings, installation, link, calls),
        programs=InstalledPrograms(for_tools()),
        owner=await _owner(settings, engine),
        server=await in_thread(owner_id, settings) if settings.database_url else "",
        home=await in_thread(home_of, folder) if engine.name == PROCESS else "",
        calls=calls,
    )


async def _owner(settings: Settings, engine: Engine) -> Callable[[], str] | None:
    if not settings.database_url:
        if settings.place != FIRST_PLACE:
            raise BadSetting(f"place: leave it out, or set database_url: {settings.place} is the only server")
        return None
    if engine.name == PROCESS:
        own = await in_thread(owner_id, settings)
        return lambda: own
    # Servers that share a Docker engine are one owner together, on whichever machines they are.
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


async def _engine(
    settings: Settings, folder: Path, clock: Clock, installation: str, calls: BoundedCalls
) -> tuple[Engine, Builder]:
    # An engine is loaded only where it is used: a start waits for all that is loaded.
    chosen, host = await choose_engine(settings), docker_at(settings)
    if chosen == PROCESS:
        from windlass.process.builds import NativeBuilder  # noqa: PLC0415
        from windlass.process.builds.cache_limits import CacheLimits  # noqa: PLC0415
        from windlass.process.engine import ProcessEngine  # noqa: PLC0415

        isolation = await in_thread(isolation_of, settings)
        limits = CacheLimits(settings.build_cache_bytes, settings.build_cache_days)
        run = process_folder(settings).resolve()
        engine = ProcessEngine(
            run, clock, isolation=isolation, builds=folder, disk_reserve=settings.disk_reserve_bytes
        )
        builder = NativeBuilder(
            folder / "builds",
            isolation=isolation,
            fetches=settings.toolchain_downloads,
            limits=limits,
            toolchain_limits=CacheLimits(settings.toolchain_bytes, settings.toolchain_days),
            network=engine.network_of_steps,
            calls=calls,
            build_memory=settings.build_memory,
            build_processes=settings.build_processes,
            disk_reserve=settings.disk_reserve_bytes,
        )
        return engine, builder
    if chosen == DOCKER:
        from windlass.docker.builds import DockerBuilder  # noqa: PLC0415
        from windlass.docker.engine import DockerEngine  # noqa: PLC0415

        built = settings.build_registry
        pool = docker_pool(settings)
        docker = DockerEngine(
            host=host, folder=folder / DOCKER, installation=installation, registry=built, pool=pool
        )
        return docker, DockerBuilder(
            host=host, installation=installation, registry=built, calls=calls, pool=pool
        )
    raise BadSetting(f"engine: choose auto, process or docker: there is no engine {chosen}")


def forget_removals(settings: Settings) -> None:
    """Erases the records of removed generations, which stop late calls of the servers that removed them. A
    database that is put in the place of another one may need these generations again, or their numbers."""
    data = Path(settings.data_dir)
    folders = (process_folder(settings), data / DOCKER, *(data / PLACES).glob(f"*/{DOCKER}"))
    for folder in folders:
        shutil.rmtree(folder / REMOVED, ignore_errors=True)


def process_folder(settings: Settings) -> Path:
    """Returns the folder of the engine process."""
    return Path(settings.data_dir) / "run"


def isolation_of(settings: Settings) -> Isolation:
    """Returns the isolation of the engine process; refuses a start if the settings require more than the
    machine supports."""
    mode = cast(Mode, settings.isolation)
    try:
        users, readable = settings.isolation_users, _readable(settings)
        isolation = Isolation(
            mode, Path(settings.data_dir), users, readable, _network_rules(settings), private_files(settings)
        )
    except ValueError as error:
        raise BadSetting(f"isolation_users: {error}") from error
    missing = [part for part in isolation.missing() if part.part != "network" or settings.isolation_networks]
    if mode == "required" and missing:
        first = missing[0]
        raise BadSetting(
            f"isolation: a service would not have {first.what} on this machine ({first.why}). To go on: "
            f"{first.advice}; or use the engine docker; or set isolation to auto"
        )
    if mode == "required" and (why := isolation.why_no_egress()):
        raise BadSetting(
            f"isolation: build steps would share the network of this machine ({why}). To go on: "
            f"{isolation.egress_advice()}; or use the engine docker; or set isolation to auto"
        )
    return isolation


def _network_rules(settings: Settings) -> NetworkRules | None:
    if not settings.isolation_networks:
        return None
    for network in settings.network_allow:
        try:
            IPv4Network(network)
        except ValueError as error:
            raise BadSetting(
                f"network_allow: name networks such as 10.0.0.0/8: {network} is not one"
            ) from error
    # Where they listen at the loopback address alone, another program may have their ports elsewhere.
    places = (settings.host, settings.port), (settings.gateway_host, settings.gateway_port)
    ports = tuple(port for host, port in places if not _is_loopback(host))
    return NetworkRules(open=tuple(settings.network_allow), ports=ports)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _readable(settings: Settings) -> tuple[str, ...]:
    """Returns the folders besides the system's that services may read."""
    providers = settings.terraform_providers
    return (*settings.isolation_readable, *([str(Path(providers).resolve())] if providers else []))


def private_files(settings: Settings) -> tuple[str, ...]:
    """Returns files and folders of the operator that services must not see."""
    named = [for_tools().get("HOME", ""), settings.access_log_file, settings.gateway_access_log_file]
    if (file := settings_file()) is not None:
        named += [str(file), str(file.parent)]
    return tuple(filter(None, named))


async def isolation_in_use(settings: Settings) -> Isolation | None:
    """Returns the isolation of the engine process; None for engines with containers."""
    if await choose_engine(settings) != PROCESS:
        return None
    return await in_thread(isolation_of, settings)


def concerns(isolation: Isolation) -> list[str]:
    """Returns warnings for the operator about missing isolation."""
    if isolation.mode == "off":
        return [
            "Services are not isolated (isolation is off): they can read what Windlass can, including its key"
        ]
    missing = isolation.missing()
    warnings = []
    if missing:
        parts = "; ".join(f"{part.what} ({part.why}), so {part.means}" for part in missing)
        warnings.append(
            "Services are isolated only in part; `windlass doctor` says what to do. Here, a service does not "
            f"have {parts}"
        )
    if why := isolation.why_no_egress():
        warnings.append(f"Services reach no public address ({why}): {isolation.egress_advice()}")
    if os.geteuid() == 0 and "identity" in {part.part for part in missing}:
        warnings.append(
            "EVERY SERVICE RUNS AS ROOT: this machine allows neither users nor user namespaces for them. "
            "Deploy only code that you trust like yourself, or use the engine docker"
        )
    return warnings


def docker_at(settings: Settings) -> str:
    return settings.docker_host or USUAL_DOCKER


async def choose_engine(settings: Settings) -> str:
    """Resolves `auto`: the engine that the data directory was used with, or else Docker if it answers.

    A Docker that comes later, or is not up yet, must not lead services to another engine, without their data.
    """
    if settings.engine != "auto":
        return settings.engine
    if kept := await in_thread(kept_engine, settings):
        return kept
    return DOCKER if await docker_answers(docker_at(settings)) else PROCESS


def kept_engine(settings: Settings) -> str:
    """Returns the engine that this data directory was used with; empty if there was none.

    Does not fail for a mark that cannot be read: the start refuses it elsewhere, and `doctor` reports it.
    """
    with suppress(OSError, BadSetting):
        seen = mark.read(settings)
        return seen.engine if seen and seen.engine in ENGINES else ""
    return ""


async def docker_answers(host: str) -> bool:
    """True if a Docker engine answers. Does not load the code that uses it."""
    kind, _, place = host.partition("://")
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(2):
            if kind == "unix":
                reader, writer = await asyncio.open_unix_connection(place)
            else:
                name, _, port = place.rpartition(":")
                reader, writer = await asyncio.open_connection(name, int(port or 2375))
            writer.write(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = await reader.read(64)
            writer.close()
            return b" 200 " in answer
    return False
