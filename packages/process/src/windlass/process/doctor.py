"""The checks of `windlass doctor` for the process engine: limits, isolation, proxies and database servers."""

from __future__ import annotations

import asyncio
import grp
import os
import stat
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path

from windlass.base import cgroups
from windlass.base.errors import BadSetting
from windlass.base.http_in.connections import trust_check
from windlass.base.isolation.network import left_trunks
from windlass.engines.findings import AIO_LIMIT, Finding, fail, kernel_limits, ok, warn
from windlass.launch.installed_servers import InstalledServer, ServerFolders, servers
from windlass.process.databases import SERVER_KINDS, ServerKind
from windlass.process.records import pods_without_network, unknown_records
from windlass.process.settings import ProcessSettings, isolation_of


async def diagnose(settings: ProcessSettings) -> AsyncIterator[Finding]:
    yield _limits(settings)
    for check in (_records, _isolation):
        async for finding in check(settings):
            yield finding
    for finding in await asyncio.to_thread(lambda: [*_proxies(settings)]):
        yield finding
    async for finding in _native_databases():
        yield finding
    yield kernel_limits((AIO_LIMIT,))


def _limits(settings: ProcessSettings) -> Finding:
    """Checks which resource limits the engine can enforce. Inspects the control groups that the engine would
    use, without changing them."""
    offered = cgroups.of_machine(settings.folder).offered()
    if offered >= {"cpu", "memory"}:
        return ok("Limits", "the kernel holds each instance to its CPU and memory, by control groups")
    facts = ["CPU is not limited"] if "cpu" not in offered else ["the kernel holds each instance to its CPU"]
    if "memory" not in offered:
        facts.append("memory is checked every few seconds, and an instance above its limit is ended")
        facts.append("memory of its sockets and pipes counts only once the machine gets short of memory")
        if not settings.share_machine:
            facts.append("so only one organization may deploy here")
    advice = (
        "give Windlass a control group of its own: Delegate=yes in its systemd unit, `systemd-run --scope "
        "-p Delegate=yes`, or a container with a cgroup namespace"
    )
    return warn("Limits", "; ".join(facts), advice)


async def _records(settings: ProcessSettings) -> AsyncIterator[Finding]:
    """Reports records of instances that another version of Windlass wrote and this version cannot read."""
    try:
        unknown = await asyncio.to_thread(unknown_records, settings.folder)
    except PermissionError:
        return  # another check reports problems of the data directory
    if unknown:
        shown = ", ".join(map(str, unknown[:3])) + (", …" if len(unknown) > 3 else "")
        advice = (
            "start the version of Windlass that wrote them, or, once none of their programs runs any more, "
            "remove these files: until then nothing is started, stopped or erased for their services"
        )
        yield fail("Instances", f"records of another version: {len(unknown)} ({shown})", advice)


async def _isolation(settings: ProcessSettings) -> AsyncIterator[Finding]:
    """Reports which parts of isolation this machine supports."""
    if settings.isolation == "off":
        advice = "set isolation to auto, or deploy only code that you trust fully"
        yield warn("Isolation", "off: a service can read what Windlass can, including its key", advice)
        return
    try:
        isolation = await asyncio.to_thread(isolation_of, settings)
    except BadSetting as error:
        yield fail("Isolation", str(error), "see the manual, docs/isolation.md")
        return
    holds = ", ".join(isolation.holds())
    trust = "deploy only code that you trust fully, or follow the advice below"
    if holds and not isolation.gives_users() and not settings.share_machine:
        holds += "; all services run as one user, so only one organization may deploy here"
    yield ok("Isolation", f"each service has {holds}") if holds else warn("Isolation", "none", trust)
    for part in isolation.missing():
        lacks = f"a service does not have {part.what} ({part.why}), so {part.means}"
        yield warn("Isolation", lacks, part.advice)
    for finding in _readable_settings(settings):
        yield finding
    if readable := await asyncio.to_thread(isolation.readable_private_files):
        state = f"services can read what other users of this machine may not: {_first_names(readable)}"
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
        pods = await asyncio.to_thread(pods_without_network, settings.folder)
    except PermissionError:
        return  # another check reports problems of the data directory
    if pods:
        advice = (
            "deploy these services again; runs of Terraform get networks only where these reach public "
            "addresses"
        )
        yield warn(
            "Isolation", f"services that share the network of the machine: {_first_names(pods)}", advice
        )


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _readable_settings(settings: ProcessSettings) -> Iterator[Finding]:
    """Reports a settings file that all users can read, and groups through which services can read files."""
    file = Path(settings.settings_file) if settings.settings_file else None
    try:
        if file is not None and file.stat().st_mode & stat.S_IROTH:
            state = f"all users of this machine may read {file}, services included where it is not hidden"
            yield warn("Isolation", state, f"chmod o-r {file}: settings hold secrets")
    except OSError:
        return  # another check reports problems of the settings
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


def _proxies(settings: ProcessSettings) -> Iterator[Finding]:
    given = {"trusted_proxies": settings.trusted_proxies, "proxy_protocol_from": settings.proxy_protocol_from}
    local = [name for name, words in given.items() if _names_this_machine(words)]
    if local and not _have_networks(settings):
        problem = (
            f"{' and '.join(local)} {'names' if len(local) == 1 else 'name'} this machine, and services "
            "connect from it, too, because they have no network of their own: they can write any address "
            "into the audit, and say that they are any client"
        )
        advice = (
            "let the proxy connect from another address, as from its own container or machine, and name that"
        )
        yield warn("Proxies", problem, advice)


def _names_this_machine(words: Iterable[str]) -> bool:
    trusts = trust_check(words)
    return trusts("127.0.0.1") or trusts("::1")


def _have_networks(settings: ProcessSettings) -> bool:
    try:
        return isolation_of(settings).has_networks()
    except BadSetting:
        return False


async def _native_databases() -> AsyncIterator[Finding]:
    installed = await asyncio.gather(*(servers(type, ServerFolders()) for type in SERVER_KINDS))
    for kind, candidates in zip(SERVER_KINDS.values(), installed, strict=True):
        yield _native(kind, candidates)
    yield ok("MongoDB", "runs only on the Docker engine")


def _native(kind: ServerKind, servers: list[InstalledServer]) -> Finding:
    if not servers:
        return warn(kind.name, "not found: databases of this type cannot run here", f"install {kind.advice}")
    return ok(
        kind.name,
        ", ".join(f"{_title(kind, server)} ({_program_text(server.program)})" for server in servers),
    )


def _title(kind: ServerKind, server: InstalledServer) -> str:
    return server.version if server.product == kind.name else f"{server.product} {server.version}"


def _program_text(program: Path) -> str:
    return "from a wheel" if "site-packages" in program.parts else str(program)
