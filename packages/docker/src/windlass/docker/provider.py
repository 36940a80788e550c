"""The provider of the Docker engine; see `windlass.engines.provider`.

Modules for an open engine are imported only when an engine is opened: loading the HTTP client takes a third
of the start time.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.addresses import Reach
from windlass.base.bounded import BoundedCalls
from windlass.base.errors import BadSetting, Invalid
from windlass.base.subprocesses import in_thread
from windlass.builders.publisher import ImagePublisher
from windlass.docker import names
from windlass.docker.builds.engine_version import runc_version, trusts_devices
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.engine_memory import is_limited, is_preferred
from windlass.docker.client.subnets import build_reserve, free_subnets, read_range, taken_subnets
from windlass.docker.client.tls_failures import TLS_PORT
from windlass.docker.client.transports import (
    BadIdentity,
    DockerTransport,
    TlsIdentity,
    TlsTransport,
    tls_context,
)
from windlass.docker.settings import OwnDockerSettings
from windlass.engines.engine import EngineError
from windlass.engines.findings import (
    AIO_LIMIT,
    INOTIFY_LIMIT,
    NEIGHBOUR_LIMIT,
    TIMEOUT,
    Finding,
    fail,
    kernel_limits,
    ok,
    warn,
)
from windlass.engines.provider import (
    Availability,
    EngineReport,
    OpenedEngine,
    RemoteEngine,
    Server,
    SharedResource,
    StartReport,
)
from windlass.engines.registries import BuildRegistry
from windlass.engines.servers import NoServers

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
NAME: Final = "docker"
_PLACES_FOLDER: Final = "places"
_CHECK_SECONDS: Final = 15.0
_GIB: Final = 1 << 30
_WARNING_FRACTION: Final = 0.8
"""Fraction of the range that may be in use without a warning."""
_CACHE_ADVICE: Final = (
    "set `builder.gc` in the daemon.json of Docker, see docs/engines.md: without it, Docker keeps all "
    "that it ever built; `docker builder prune` makes room now"
)
ENGINE_MEMORY: Final = SharedResource(
    "share the memory of this machine with the Docker engine, which has no limit: a hostile registry can "
    "have the engine fill the memory, and the kernel then ends services of others",
    "give docker.service a MemoryMax, and Docker live-restore, see docs/engines.md, unless these "
    "organizations trust each other",
)
_CONTAINERS_ADVICE: Final = (
    "to run services in containers, install and start Docker, or set its address with docker_host"
)


class DockerSettings(OwnDockerSettings, frozen=True, kw_only=True):
    build_registry: BuildRegistry | None = None
    build_cache_bytes: int = 0
    disk_reserve_bytes: int = 0

    @property
    def host(self) -> str:
        return self.docker_host or DEFAULT_HOST

    @property
    def pool(self) -> IPv4Network | None:
        """The address range of networks; None if the engine chooses addresses."""
        try:
            return read_range(self.docker_networks)
        except ValueError as error:
            raise BadSetting(f"docker_networks: name a range such as 10.199.0.0/16: {error}") from error


class CacheEntry(Struct, frozen=True, rename="pascal"):
    size: int = 0
    shared: bool = False
    """Whether an image shares the cache entry, so that it needs no additional space."""


class DiskUse(Struct, frozen=True, rename="pascal"):
    build_cache: list[CacheEntry] | None = None


class DockerProvider:
    name = NAME
    word = "DOCKER"
    takes: Literal["image"] = "image"
    rank = 10
    is_of_server = False
    settings_type = DockerSettings

    async def presence(self, settings: DockerSettings) -> Availability:
        there = await answers(settings.host)
        return Availability(there, f"{'Docker' if there else 'no Docker'} answers at {settings.host}")

    async def open(self, settings: DockerSettings, server: Server) -> OpenedEngine:
        from windlass.docker.builds.builder import DockerBuilder  # noqa: PLC0415
        from windlass.docker.engine import DockerEngine  # noqa: PLC0415

        host, built, pool = settings.host, settings.build_registry, settings.pool
        folder = server.folder / NAME
        return OpenedEngine(
            engine=DockerEngine(
                host=host,
                folder=folder,
                installation=server.installation,
                registry=built,
                pool=pool,
                disk_reserve=settings.disk_reserve_bytes,
            ),
            builder=DockerBuilder(
                host=host,
                folder=folder,
                installation=server.installation,
                registry=built,
                calls=server.calls,
                pool=pool,
                disk_reserve=settings.disk_reserve_bytes,
            ),
            servers=NoServers(),
        )

    def open_publisher(
        self,
        settings: DockerSettings,
        calls: BoundedCalls,
        installation: str,
        folder: Path,
        allowed_registries: Reach | None,
    ) -> ImagePublisher:
        """Returns a builder for engines that cannot build, with the Docker engine of this server; see
        `OpenPublisher`."""
        from windlass.docker.builds.builder import DockerBuilder  # noqa: PLC0415
        from windlass.docker.builds.published_digests import PublishedDigests  # noqa: PLC0415
        from windlass.docker.builds.publisher import DockerPublisher  # noqa: PLC0415
        from windlass.docker.builds.registry_access import RegistryAccess  # noqa: PLC0415

        docker = Docker(settings.host, disk_reserve=settings.disk_reserve_bytes)
        builder = DockerBuilder(
            host=docker, folder=folder, installation=installation, calls=calls, pool=settings.pool
        )
        digests, access = PublishedDigests(folder / "published"), RegistryAccess(allowed_registries)
        return DockerPublisher(docker, builder, installation, digests, access)

    def folders(self, data: Path) -> Sequence[Path]:
        return (data / NAME, *(data / _PLACES_FOLDER).glob(f"*/{NAME}"))

    async def start_report(self, settings: DockerSettings) -> StartReport:
        return StartReport()

    async def shared_resource(self, settings: DockerSettings) -> SharedResource | None:
        return ENGINE_MEMORY if await in_thread(is_limited, settings.host) is False else None

    async def server_host(self, settings: DockerSettings) -> str:
        from windlass.docker.machine import server_host_of  # noqa: PLC0415

        return server_host_of(Docker(settings.host))

    def service_of(self, pid: int, data: Path) -> str:
        return ""

    # Checks

    async def diagnose_presence(self, settings: DockerSettings, *, is_used: bool) -> Finding | None:
        found = await _engine_version(settings.host)
        if isinstance(found, str):
            return ok("Docker", f"{found} at {settings.host}")
        if is_used:
            return fail("Docker", str(found), "or choose another engine with --engine")
        if isinstance(found, EngineRefused):
            return warn("Docker", str(found), _CONTAINERS_ADVICE)
        return ok("Docker", f"nothing answers at {settings.host}; only the Docker engine needs it")

    async def diagnose(self, settings: DockerSettings) -> AsyncIterator[Finding]:
        yield ok("Databases", "PostgreSQL, MySQL, MongoDB and Redis run from their images, in any version")
        for check in (_build_steps, _check_runc, _build_cache, _check_networks, _check_memory):
            async for finding in check(settings):
                yield finding
        yield kernel_limits((AIO_LIMIT, INOTIFY_LIMIT, NEIGHBOUR_LIMIT))

    # Engines at other addresses

    def connect(
        self,
        remote: RemoteEngine,
        allowed_addresses: Reach,
        settings: DockerSettings,
        server: Server,
        folder: Path,
    ) -> OpenedEngine:
        from windlass.docker.builds.builder import DockerBuilder  # noqa: PLC0415
        from windlass.docker.engine import DockerEngine  # noqa: PLC0415

        docker, pool = Docker(transport(remote, allowed_addresses)), settings.pool

        async def reconnect(remote: RemoteEngine) -> None:
            await docker.move(transport(remote, allowed_addresses))

        return OpenedEngine(
            engine=DockerEngine(
                host=docker, folder=folder / NAME, installation=server.installation, pool=pool
            ),
            builder=DockerBuilder(
                host=docker,
                folder=folder / NAME,
                installation=server.installation,
                calls=server.calls,
                pool=pool,
            ),
            servers=NoServers(),
            reconnect=reconnect,
        )

    async def identity(self, remote: RemoteEngine, allowed_addresses: Reach) -> str:
        docker: Docker | None = None
        try:
            docker = Docker(transport(replace(remote, engine_id=""), allowed_addresses))
            async with asyncio.timeout(_CHECK_SECONDS):
                return await docker.identity()
        except BadIdentity as error:
            raise Invalid(str(error)) from error
        except TimeoutError as error:
            seconds = f"{_CHECK_SECONDS:.0f} seconds"
            raise Invalid(f"engine_address: no answer from {remote.address} within {seconds}") from error
        except (Away, EngineRefused) as error:
            raise Invalid(f"engine_address: {error}") from error
        finally:
            if docker is not None:
                await docker.close()

    async def report(self, remote: RemoteEngine, allowed_addresses: Reach, installation: str) -> EngineReport:
        try:
            docker = Docker(transport(remote, allowed_addresses))
        except BadIdentity as error:
            raise EngineError(str(error)) from error
        try:
            before = time.time()
            info = await docker.json("GET", "/info")
            now = (before + time.time()) / 2
            wanted = {"label": [f"{names.INSTALLATION_LABEL}={installation}"], "status": ["running"]}
            containers = await docker.json("GET", "/containers/json", params={"filters": wanted})
            return EngineReport(
                title=f"Docker {info.get('ServerVersion', 'of an unknown version')}",
                ahead=datetime.fromisoformat(info["SystemTime"]).timestamp() - now,
                instances=Counter(
                    str(container["Labels"].get(names.SERVICE_LABEL)) for container in containers
                ),
                certificate_end=await _certificate_end(remote),
            )
        except (Away, EngineRefused, BadIdentity, OSError) as error:
            raise EngineError(str(error)) from error
        finally:
            await docker.close()


def transport(remote: RemoteEngine, allowed_addresses: Reach) -> DockerTransport:
    parts = urlsplit(remote.address)
    port = parts.port or TLS_PORT
    return TlsTransport(
        remote.name,
        parts.hostname or "",
        port,
        _tls_identity(remote),
        allowed_addresses,
        engine_id=remote.engine_id,
    )


def _tls_identity(remote: RemoteEngine) -> TlsIdentity:
    return TlsIdentity(remote.ca_certificate, remote.certificate, remote.key)


async def _certificate_end(remote: RemoteEngine) -> float:
    """Returns the expiry time of the engine's certificate. The address was checked before."""
    parts = urlsplit(remote.address)
    _, writer = await asyncio.open_connection(
        parts.hostname, parts.port or TLS_PORT, ssl=tls_context(_tls_identity(remote))
    )
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert()
    finally:
        writer.transport.abort()
    return ssl.cert_time_to_seconds(shown["notAfter"])


async def answers(host: str) -> bool:
    """Returns whether a Docker engine answers. Does not import the Docker client."""
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


async def _engine_version(host: str) -> str | Exception:
    docker = Docker(host)
    try:
        async with asyncio.timeout(TIMEOUT):
            version = await docker.json("GET", "/version")
    except (Away, EngineRefused) as error:
        return error
    except TimeoutError:
        return Away(f"The Docker engine at {host} does not answer in time: check it, or restart it")
    finally:
        await docker.close()
    return f"{version.get('Version', 'of an unknown version')} (API {version.get('ApiVersion', 'unknown')})"


async def _build_steps(settings: DockerSettings) -> AsyncIterator[Finding]:
    found = await _engine_version(settings.host)
    if isinstance(found, str) and lets_steps_out(found):
        state = f"of Docker {found.split()[0]} may delete empty files of the machine (CVE-2024-23652)"
        yield warn(
            "Build steps", state, "update Docker, unless your distribution has fixed this in its version"
        )


async def _check_runc(settings: DockerSettings) -> AsyncIterator[Finding]:
    docker = Docker(settings.host)
    try:
        async with asyncio.timeout(TIMEOUT):
            version = await docker.json("GET", "/version")
    except (Away, EngineRefused, TimeoutError):
        return  # The check of the engine reports it.
    finally:
        await docker.close()
    if isinstance(version, dict) and trusts_devices(version):
        state = (
            f"{runc_version(version)} of Docker lets steps with mounts out of their container "
            "(CVE-2025-31133): builds have no caches, and none with RUN --mount=type=bind"
        )
        yield warn("Build steps", state, "update runc to 1.2.8, 1.3.3 or later")


def lets_steps_out(version: str) -> bool:
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    return (23,) <= numbers < (24, 0, 9) or (25,) <= numbers < (25, 0, 2)


async def _build_cache(settings: DockerSettings) -> AsyncIterator[Finding]:
    docker = Docker(settings.host)
    try:
        async with asyncio.timeout(TIMEOUT):
            used = await docker.read_list("/system/df?type=build-cache", DiskUse)
    except Away:
        return  # The check of the engine reports it.
    except (EngineRefused, TimeoutError):
        yield warn("Build cache", "could not be measured", "look at `docker system df`")
        return
    finally:
        await docker.close()
    size = sum(entry.size for entry in used.build_cache or () if not entry.shared)
    state = f"{size / _GIB:.1f} GiB on the Docker engine"
    if size > settings.build_cache_bytes:
        yield warn("Build cache", f"{state}, more than build_cache_bytes", _CACHE_ADVICE)
    else:
        yield ok("Build cache", state)


async def _check_memory(settings: DockerSettings) -> AsyncIterator[Finding]:
    is_bounded = await in_thread(is_limited, settings.host)
    if is_bounded:
        yield ok("Memory of Docker", "a control group limits that of the engine itself")
    elif is_bounded is not None:
        advice = (
            "give docker.service a MemoryMax, and Docker live-restore, see docs/engines.md: a registry "
            "can have the engine read more than there is memory for, and the kernel then ends services"
        )
        yield warn("Memory of Docker", "the engine itself has no limit", advice)
    if os.geteuid() and await in_thread(is_preferred, settings.host):
        state = "build steps of BuildKit inherit the OOM score of Docker, so the kernel ends services first"
        yield warn("Memory of Docker", state, "give docker.service OOMScoreAdjust=0, see docs/engines.md")


async def _check_networks(settings: DockerSettings) -> AsyncIterator[Finding]:
    from windlass.docker.resources import PREFIX_LENGTH  # noqa: PLC0415

    try:
        pool = settings.pool
    except BadSetting as error:
        yield fail("Docker networks", str(error), "correct the setting: a start is refused until then")
        return
    if pool is None:
        advice = "set docker_networks: of its own ranges, a Docker engine has about 30 networks by default"
        yield warn("Docker networks", "the engine chooses their addresses", advice)
        return
    docker = Docker(settings.host)
    try:
        async with asyncio.timeout(TIMEOUT):
            taken = await taken_subnets(docker, pool)
    except (Away, EngineRefused, TimeoutError):
        return  # The check of the engine reports it.
    finally:
        await docker.close()
    reserve = build_reserve(pool)
    total = sum(1 for _ in free_subnets(pool, PREFIX_LENGTH, [reserve]))
    used = total - sum(1 for _ in free_subnets(pool, PREFIX_LENGTH, [reserve, *taken]))
    state = f"{used} of {total} subnets of {pool} for environments are in use"
    if used >= _WARNING_FRACTION * total:
        yield warn("Docker networks", state, "set docker_networks to a larger range, or to another one")
    else:
        yield ok("Docker networks", state)
