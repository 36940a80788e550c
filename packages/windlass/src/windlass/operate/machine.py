"""Checks what Windlass can run on this machine: engine, limits, databases, tools and ports."""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base import cgroups
from windlass.base.environment import for_tools
from windlass.base.errors import Invalid
from windlass.base.http_in.connections import trust_check
from windlass.base.isolation.network import left_trunks
from windlass.config import BadSetting, Settings, settings_file
from windlass.control.workloads.terraform_programs import address_for_containers
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.subnets import build_reserve, free_subnets, taken_subnets
from windlass.docker.machine import server_host_of
from windlass.docker.resources import PREFIX
from windlass.install.connecting import docker_pool
from windlass.install.parts import (
    choose_engine,
    docker_at,
    isolation_of,
    kept_engine,
    process_folder,
)
from windlass.launch.installed_servers import InstalledServer, ServerFolders, servers
from windlass.operate.findings import SECONDS, Finding, fail, first_line_from, ok, warn
from windlass.operate.listeners import is_gateway, is_kept, is_windlass
from windlass.operate.port_holder import holder_of
from windlass.process import kernel
from windlass.process.databases import KINDS, ServerKind
from windlass.process.records import pods_without_network, unknown_records
from windlass.serve.server import listen
from windlass.terraform.programs import InstalledPrograms

GIB: Final = 1 << 30
_ADVICE: Final = (
    "set `builder.gc` in the daemon.json of Docker, see docs/operations.md: without it, Docker keeps all "
    "that it ever built; `docker builder prune` makes room now"
)


class CacheEntry(Struct, frozen=True, rename="pascal"):
    size: int = 0
    shared: bool = False
    """True for what an image needs anyway."""


class DiskUse(Struct, frozen=True, rename="pascal"):
    build_cache: list[CacheEntry] | None = None


async def build_cache(settings: Settings) -> AsyncIterator[Finding]:
    docker = Docker(docker_at(settings))
    try:
        async with asyncio.timeout(SECONDS):
            used = await docker.read_list("/system/df?type=build-cache", DiskUse)
    except Away:
        return  # The check of the engine reports it.
    except (EngineRefused, TimeoutError):
        yield warn("Build cache", "could not be measured", "look at `docker system df`")
        return
    finally:
        await docker.close()
    size = sum(entry.size for entry in used.build_cache or () if not entry.shared)
    state = f"{size / GIB:.1f} GiB on the Docker engine"
    if size > settings.build_cache_bytes:
        yield warn("Build cache", f"{state}, more than build_cache_bytes", _ADVICE)
    else:
        yield ok("Build cache", state)


_NEARLY: Final = 0.8
"""The part of the range that may be in use without a warning."""


async def docker_networks(settings: Settings) -> AsyncIterator[Finding]:
    try:
        pool = docker_pool(settings)
    except BadSetting as error:
        yield fail("Docker networks", str(error), "correct the setting: a start is refused until then")
        return
    if pool is None:
        advice = "set docker_networks: of its own ranges, a Docker engine has about 30 networks by default"
        yield warn("Docker networks", "the engine chooses their addresses", advice)
        return
    docker = Docker(docker_at(settings))
    try:
        async with asyncio.timeout(SECONDS):
            taken = await taken_subnets(docker, pool)
    except (Away, EngineRefused, TimeoutError):
        return  # The check of the engine reports it.
    finally:
        await docker.close()
    reserve = build_reserve(pool)
    total = sum(1 for _ in free_subnets(pool, PREFIX, [reserve]))
    used = total - sum(1 for _ in free_subnets(pool, PREFIX, [reserve, *taken]))
    state = f"{used} of {total} subnets of {pool} for environments are in use"
    if used >= _NEARLY * total:
        yield warn("Docker networks", state, "set docker_networks to a larger range, or to another one")
    else:
        yield ok("Docker networks", state)


PROC: Final = Path("/proc/sys")
_WHAT: Final = "Kernel limits"


class KernelLimit(Struct, frozen=True):
    name: str
    enough: int
    engines: tuple[str, ...]

    @property
    def file(self) -> str:
        return self.name.replace(".", "/")


LIMITS: Final = (
    KernelLimit("fs.aio-max-nr", 1_048_576, ("docker", "process")),
    # One for each user number, and the numbers of containers are those of the machine.
    KernelLimit("fs.inotify.max_user_instances", 1024, ("docker",)),
)


def kernel_limits(engine: str, proc: Path = PROC) -> Iterator[Finding]:
    small = []
    for limit in LIMITS:
        with suppress(OSError, ValueError):
            if engine in limit.engines and int((proc / limit.file).read_text()) < limit.enough:
                small.append(limit)
    if not small:
        yield ok(_WHAT, "asynchronous I/O and inotify have room for many services")
        return
    state = f"{', '.join(limit.name for limit in small)}: one service can use it up for all others"
    lines = " ".join(f"{limit.name}={limit.enough}" for limit in small)
    yield warn(_WHAT, state, f"`sysctl -w {lines}`, and the same in /etc/sysctl.d for the next boot")


_CONTAINERS = "to run services in containers, install and start Docker, or say where it is with docker_host"


async def runs(settings: Settings) -> AsyncIterator[Finding]:
    chosen = await choose_engine(settings)
    docker = await _docker_version(docker_at(settings))
    yield _engine(settings, chosen)
    yield _docker(settings, chosen, docker)
    if chosen == "process":
        yield _limits()
        async for finding in _records(settings):
            yield finding
        async for finding in _isolation(settings):
            yield finding
        for finding in await asyncio.to_thread(lambda: [*_proxies(settings)]):
            yield finding
        async for finding in _native_databases():
            yield finding
    else:
        yield ok("Databases", "PostgreSQL, MySQL, MongoDB and Redis run from their images, in any version")
        for check in (build_cache, docker_networks):
            async for finding in check(settings):
                yield finding
    for finding in kernel_limits(chosen):
        yield finding
    yield _git()
    yield _node(settings, chosen)
    if chosen == "docker":
        yield _images_of_terraform(settings)
    else:
        for finding in await asyncio.to_thread(lambda: [*_terraform()]):
            yield finding


# Engines


def _engine(settings: Settings, chosen: str) -> Finding:
    if chosen not in {"process", "docker"}:
        return fail("Engine", f"there is no engine {chosen}", "choose auto, process or docker with --engine")
    if chosen == "process" and not kernel.can_identify_processes():
        advice = "run it on Linux 5.4 or later, or start Docker"
        return fail("Engine", "process, which does not work on this system", advice)
    if settings.engine != "auto":
        return ok("Engine", f"{chosen}, as the settings say")
    if kept_engine(settings):
        return ok("Engine", f"{chosen}: `auto` keeps the engine that this data directory was used with")
    if chosen == "docker":
        return ok("Engine", f"docker: `auto` takes it because Docker answers at {docker_at(settings)}")
    return ok("Engine", f"process: `auto` takes it because no Docker answers at {docker_at(settings)}")


def _docker(settings: Settings, chosen: str, docker: str | Exception) -> Finding:
    if isinstance(docker, str):
        return ok("Docker", f"{docker} at {docker_at(settings)}")
    if chosen == "docker":
        return fail("Docker", str(docker), "or choose another engine with --engine")
    if isinstance(docker, EngineRefused):
        return warn("Docker", str(docker), _CONTAINERS)
    return ok("Docker", f"nothing answers at {docker_at(settings)}; only the engine docker needs it")


async def _docker_version(host: str) -> str | Exception:
    docker = Docker(host)
    try:
        async with asyncio.timeout(SECONDS):
            version = await docker.json("GET", "/version")
    except (Away, EngineRefused) as error:
        return error
    except TimeoutError:
        return Away(f"The Docker engine at {host} does not answer in time: check it, or restart it")
    finally:
        await docker.close()
    return f"{version.get('Version', 'of an unknown version')} (API {version.get('ApiVersion', 'unknown')})"


def _limits() -> Finding:
    """Checks the limits of the engine process. Looks at the control group that it would take, and does not
    change it."""
    base = cgroups.find()
    try:
        offered = (
            {"cpu", "memory"} & set((base / "cgroup.controllers").read_text().split()) if base else set()
        )
    except OSError:
        offered = set()
    if offered == {"cpu", "memory"}:
        return ok("Limits", f"the kernel holds each instance to its CPU and memory (below {base})")
    facts = ["CPU is not limited"] if "cpu" not in offered else ["the kernel holds each instance to its CPU"]
    if "memory" not in offered:
        facts.append("memory is checked every few seconds, and an instance above its limit is ended")
        facts.append("memory of its sockets and pipes counts only once the machine gets short of memory")
    advice = (
        "give Windlass a control group of its own: Delegate=yes in its systemd unit, or a container with "
        "a cgroup namespace"
    )
    return warn("Limits", "; ".join(facts), advice)


async def _records(settings: Settings) -> AsyncIterator[Finding]:
    """Reports instances that another version of Windlass has recorded in a way that this one cannot read."""
    try:
        unknown = await asyncio.to_thread(unknown_records, process_folder(settings))
    except PermissionError:
        return  # said of the data directory
    if unknown:
        shown = ", ".join(map(str, unknown[:3])) + (", …" if len(unknown) > 3 else "")
        advice = (
            "start the version of Windlass that wrote them, or, once none of their programs runs any more, "
            "remove these files: until then nothing is started, stopped or erased for their services"
        )
        yield fail("Instances", f"records of another version: {len(unknown)} ({shown})", advice)


async def _isolation(settings: Settings) -> AsyncIterator[Finding]:
    """Reports which parts of isolation this machine supports."""
    if settings.isolation == "off":
        advice = "set isolation to auto, or deploy only code that you trust like yourself"
        yield warn("Isolation", "off: a service can read what Windlass can, including its key", advice)
        return
    try:
        isolation = await asyncio.to_thread(isolation_of, settings)
    except BadSetting as error:
        yield fail("Isolation", str(error), "see the manual, docs/running.md")
        return
    holds = ", ".join(isolation.holds())
    trust = "deploy only code that you trust like yourself, or follow the advice below"
    if holds and not isolation.gives_users() and not settings.share_machine:
        holds += "; all services run as one user, so only one organization may deploy here"
    yield ok("Isolation", f"each service has {holds}") if holds else warn("Isolation", "none", trust)
    for part in isolation.missing():
        lacks = f"a service does not have {part.what} ({part.why}), so {part.means}"
        yield warn("Isolation", lacks, part.advice)
    for finding in _readable_settings():
        yield finding
    if readable := await asyncio.to_thread(isolation.readable_private_files):
        state = f"services can read what other users of this machine may not: {_first(readable)}"
        advice = (
            "move it out of /usr, for example below /var/lib, or let all users read it if it holds no "
            "secrets (chmod o+r, for folders o+rx)"
        )
        yield warn("Isolation", state, advice)
    if left := await asyncio.to_thread(left_trunks):
        tables = ", ".join(left)
        advice = "start Windlass, or use `windlass stop --all`: either removes them"
        yield warn("Isolation", f"nf_tables tables of networks whose processes were killed: {tables}", advice)
    if not isolation.has_networks():
        return
    if why := isolation.why_no_egress():
        reach = (
            f"services reach no public address ({why}), and build steps share the machine's network, so only "
            "one organization may deploy here, unless share_machine is set"
        )
        yield warn("Isolation", reach, isolation.egress_advice())
    try:
        pods = await asyncio.to_thread(pods_without_network, process_folder(settings))
    except PermissionError:
        return  # said of the data directory
    if pods:
        advice = (
            "deploy these services again; runs of Terraform get networks only where these reach public "
            "addresses"
        )
        yield warn("Isolation", f"services that share the network of the machine: {_first(pods)}", advice)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _readable_settings() -> Iterator[Finding]:
    """Reports a settings file that all users may read, and groups whose files services may read."""
    file = settings_file()
    try:
        if file is not None and file.stat().st_mode & stat.S_IROTH:
            state = f"all users of this machine may read {file}, services included where it is not hidden"
            yield warn("Isolation", state, f"chmod o-r {file}: settings hold secrets")
    except OSError:
        return  # said of the settings
    groups = sorted({*os.getgroups()} - {os.getegid()})
    if os.geteuid() and groups:
        state = (
            f"services are members of the groups {', '.join(map(_name_of_group, groups))}, as Windlass is, "
            "and can read files of these groups below /usr"
        )
        yield warn("Isolation", state, "run Windlass as a user that is in no other groups, or as root")


def _name_of_group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _proxies(settings: Settings) -> Iterator[Finding]:
    trusts = trust_check(settings.trusted_proxies)
    if (trusts("127.0.0.1") or trusts("::1")) and not _have_networks(settings):
        problem = (
            "trusted_proxies names this machine, and services connect from it, too, because they have no "
            "network of their own: they can write any address into the audit"
        )
        advice = (
            "let the proxy connect from another address, as from its own container or machine, and name that"
        )
        yield warn("Proxies", problem, advice)


def shares_user(settings: Settings) -> bool:
    """Returns whether services of the engine process are of the user of Windlass."""
    try:
        return not isolation_of(settings).gives_users()
    except BadSetting:
        return False  # said of isolation


def _have_networks(settings: Settings) -> bool:
    try:
        return isolation_of(settings).has_networks()
    except BadSetting:
        return False


# Databases, and what builds


async def _native_databases() -> AsyncIterator[Finding]:
    installed = await asyncio.gather(*(servers(type, ServerFolders()) for type in KINDS))
    for kind, candidates in zip(KINDS.values(), installed, strict=True):
        yield _native(kind, candidates)
    yield ok("MongoDB", "runs only on the engine docker")


def _native(kind: ServerKind, servers: list[InstalledServer]) -> Finding:
    if not servers:
        return warn(kind.name, "not found: databases of this type cannot run here", f"install {kind.advice}")
    return ok(
        kind.name, ", ".join(f"{_title(kind, server)} ({_short(server.program)})" for server in servers)
    )


def _title(kind: ServerKind, server: InstalledServer) -> str:
    return server.version if server.product == kind.name else f"{server.product} {server.version}"


def _short(program: Path) -> str:
    return "from a wheel" if "site-packages" in program.parts else str(program)


def _git() -> Finding:
    version = first_line_from("git", "--version").removeprefix("git version ")
    if not version:
        return warn("git", "not found", "install git: without it no application can be fetched")
    return ok("git", version)


def _node(settings: Settings, chosen: str) -> Finding:
    version = first_line_from("node", "--version").removeprefix("v")
    if version or chosen != "process":
        return ok("Node.js", version or "not found; images have their own")
    if settings.toolchain_downloads:
        return ok("Node.js", "not found; builds that need it fetch it")
    return ok(
        "Node.js", "not found; only applications in JavaScript need it: install nodejs and npm for them"
    )


def _images_of_terraform(settings: Settings) -> Finding:
    try:
        address = address_for_containers(settings, server_host_of(Docker(docker_at(settings))))
    except Invalid as refused:
        return ok("Terraform", f"not yet; only Terraform services need it: {refused}")
    images = f"{settings.terraform_image} and {settings.opentofu_image}"
    return ok("Terraform", f"runs in {images}, and reaches this server at {address}")


def _terraform() -> Iterator[Finding]:
    installed = InstalledPrograms(for_tools())
    programs = installed.look()
    for path, why in installed.unusable.items():
        yield warn(
            "Terraform",
            f"{path} is not used, because it does not say its version: {why}",
            f"try `{path} version -json`, and install the program again or remove it",
        )
    if programs:
        yield ok("Terraform", ", ".join(f"{program.version} ({program.path})" for program in programs))
    elif not installed.unusable:
        yield ok(
            "Terraform", "not found; only Terraform services need it: install terraform or tofu for them"
        )


# Ports


def ports(settings: Settings) -> Iterator[Finding]:
    yield _port("API", settings.host, settings.port, "", settings)
    yield _port("Gateway", settings.gateway_host, settings.gateway_port, "gateway-", settings)


def _port(what: str, host: str, port: int, prefix: str, settings: Settings) -> Finding:
    if port == 0:
        return ok(what, f"takes a free port on {host} at each start")
    try:
        listen(host, port).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE and is_windlass(settings.host, settings.port):
            return ok(what, f"{host}, port {port}: a Windlass runs there")
        if error.errno == errno.EADDRINUSE and (is_gateway(host, port) if prefix else is_kept(settings)):
            return ok(what, f"{host}, port {port}: the gateway of a Windlass is there, without its server")
        flags = f"--{prefix}port, or another address with --{prefix}host"
        why = f": {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            why = f"is taken by {holder_of(port, settings) or 'another program'}"
        return fail(what, f"{host}, port {port} {why}", f"free it, or choose another with {flags}")
    return ok(what, f"{host}, port {port} is free")
