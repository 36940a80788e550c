"""Checks the engine, databases, tools and ports of this machine, for `windlass doctor`."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator

from windlass.config import Settings
from windlass.control.kinds import find_kinds, kinds_of
from windlass.control.kinds.service_kind import MachineOfRuns
from windlass.engines.findings import Finding, fail, first_line_from, ok, warn
from windlass.engines.provider import EngineProvider
from windlass.install.engines import choose_engine, kept_engine, names, own_settings, providers
from windlass.operate.listeners import is_gateway, is_kept, is_windlass, silent_gateway
from windlass.operate.port_holder import holder_of
from windlass.serve.server import listen


async def runs(settings: Settings) -> AsyncIterator[Finding]:
    chosen = await choose_engine(settings)
    provider = providers().get(chosen)
    if provider is None:
        yield fail("Engine", f"there is no engine {chosen}", f"choose {names()} with --engine")
        return
    own = own_settings(provider, settings)
    presences = [
        found
        for other in providers().values()
        if (found := await other.diagnose_presence(own_settings(other, settings), is_used=other is provider))
    ]
    if not any(found.what == "Engine" for found in presences):
        yield await _engine(settings, provider)
    for finding in presences:
        yield finding
    async for finding in provider.diagnose(own):
        yield finding
    yield _git()
    yield _node(settings, has_images=provider.takes == "image")
    host = await provider.server_host(own) if provider.takes == "image" else ""
    machine = MachineOfRuns(takes=provider.takes, server_host=host)
    for kind in kinds_of(*find_kinds()).values():
        for finding in await asyncio.to_thread(kind.diagnose, settings, machine):
            yield finding


async def _engine(settings: Settings, chosen: EngineProvider) -> Finding:
    if settings.engine != "auto":
        return ok("Engine", f"{chosen.name}, as the settings say")
    if kept_engine(settings):
        return ok("Engine", f"{chosen.name}: `auto` keeps the engine that this data directory was used with")
    reasons: list[str] = []
    for provider in providers().values():
        presence = await provider.presence(own_settings(provider, settings))
        if provider is not chosen or not reasons:
            reasons.append(presence.why)
        if provider is chosen:
            break
    return ok("Engine", f"{chosen.name}: `auto` takes it because {', and '.join(reasons)}")


# Build tools


def _git() -> Finding:
    version = first_line_from("git", "--version").removeprefix("git version ")
    if not version:
        return warn("git", "not found", "install git: without it no application can be fetched")
    return ok("git", version)


def _node(settings: Settings, *, has_images: bool) -> Finding:
    version = first_line_from("node", "--version").removeprefix("v")
    if version or has_images:
        return ok("Node.js", version or "not found; images have their own")
    if settings.toolchain_downloads:
        return ok("Node.js", "not found; builds that need it fetch it")
    return ok(
        "Node.js", "not found; only applications in JavaScript need it: install nodejs and npm for them"
    )


# Ports


def ports(settings: Settings) -> Iterator[Finding]:
    yield _port("API", settings.host, settings.port, "", settings)
    if process := silent_gateway(settings):
        advice = f"end it with `kill -9 {process}`: a server starts another one, with its routes"
        yield fail("Gateway", f"the process {process} hangs: no service is reached", advice)
        return
    yield _port("Gateway", settings.gateway_host, settings.gateway_port, "gateway-", settings)
    if settings.https_port:
        yield _port("HTTPS", settings.gateway_host, settings.https_port, "https-", settings)


def _port(label: str, host: str, port: int, prefix: str, settings: Settings) -> Finding:
    if port == 0:
        return ok(label, f"takes a free port on {host} at each start")
    try:
        listen(host, port).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE and is_windlass(settings.host, settings.port):
            return ok(label, f"{host}, port {port}: a Windlass runs there")
        if error.errno == errno.EADDRINUSE and (is_gateway(host, port) if prefix else is_kept(settings)):
            return ok(label, f"{host}, port {port}: the gateway of a Windlass is there, without its server")
        flags = f"--{prefix}port, or another address with --{'gateway-' if prefix else ''}host"
        why = f": {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            why = f"is taken by {holder_of(port, settings) or 'another program'}"
        return fail(label, f"{host}, port {port} {why}", f"free it, or choose another with {flags}")
    return ok(label, f"{host}, port {port} is free")
