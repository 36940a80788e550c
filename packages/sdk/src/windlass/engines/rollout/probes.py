"""Probes an instance with a TCP connection, an HTTP request, or a command in its environment."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress

from windlass.base.isolation.instance_connections import open_connection
from windlass.engines.engine import EngineError, InstanceEnded
from windlass.engines.rollout.copies import Executor
from windlass.engines.workload import HealthProbe, Instance, ProbeKind

_MAX_HEAD_BYTES = 4096
_HTTP_PREFIX = b"HTTP/1."
_ANSWER_TIMEOUT = 5.0
_PROXY_CLOSE_SECONDS = 0.2
"""Seconds within which a proxy closes a connection if nothing listens behind it."""
_ACCEPT_TIMEOUT = 2.0
"""Maximum seconds for which a probe waits until its connection is accepted."""
_EMPTY_CHECKS = 2
"""Number of consecutive checks with an empty accept queue: a new connection enters the queue with a slight
delay."""
_LOOPBACK = "127.0.0.1"
_FIRST_PAUSE, _MAX_PAUSE = 0.001, 0.1
_FIRST_PAUSE_ELSEWHERE = 0.02
"""The first pause for another machine: longer than the last packet of a TCP handshake may take."""

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def run_probe(engine: Executor, instance: Instance, probe: HealthProbe) -> str:
    """Runs a probe. Returns why the instance does not pass, as readable text; empty if it passes."""
    try:
        async with asyncio.timeout(probe.timeout):
            match probe.kind:
                case ProbeKind.EXEC:
                    return await _probe_command(engine, instance, probe)
                case ProbeKind.HTTP:
                    return await _probe_http(instance, probe)
                case ProbeKind.TCP:
                    return await _probe_connection(engine, instance, probe)
    except TimeoutError:
        return f"it did not answer {_target_text(probe)} within {probe.timeout:g} seconds"
    except ConnectionRefusedError:
        return _refused_message(probe)
    except InstanceEnded:
        return _closed_message(probe)
    except OSError as error:
        return f"it does not answer {_target_text(probe)} ({error.strerror or error})"


def _refused_message(probe: HealthProbe) -> str:
    # The usual cause: the program listens on a port of its own choice, or only on a container's loopback.
    remedy = (
        "it must listen at 0.0.0.0, on the port in the variable PORT, or else `internal_port` must be the "
        "port on which it listens"
    )
    return f"it does not answer {_target_text(probe)} (connection refused): {remedy}"


def _target_text(probe: HealthProbe) -> str:
    return {
        ProbeKind.EXEC: f"`{' '.join(probe.command)}`",
        ProbeKind.HTTP: f"GET {probe.path} on port {probe.port}",
        ProbeKind.TCP: f"on port {probe.port}",
    }[probe.kind]


async def _probe_connection(engine: Executor, instance: Instance, probe: HealthProbe) -> str:
    port = instance.ports.get(probe.port)
    if port is None:
        return f"nothing listens on port {probe.port}"
    # A container address of another machine could belong to another host here.
    is_local = instance.inside and instance.address == _LOOPBACK
    streams = await _connect_directly(instance.inside, probe) if is_local else None
    is_behind = streams is None and engine.has_go_between
    reader, writer = streams or await open_connection(instance.network, instance.address, port)
    try:
        # Docker's proxy accepts every connection, and closes it if nothing listens in the container.
        if is_behind and await _hangs_up(reader):
            return _closed_message(probe)
        return await _wait_for_acceptance(engine, instance, probe, reader) if probe.accepted else ""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _closed_message(probe: HealthProbe) -> str:
    return f"it does not answer {_target_text(probe)} (the connection is closed at once)"


async def _connect_directly(address: str, probe: HealthProbe) -> _Streams | None:
    """Connects to the instance's own address. Returns None if it is not reachable."""
    try:
        async with asyncio.timeout(_PROXY_CLOSE_SECONDS):
            return await asyncio.open_connection(address, probe.port)
    except ConnectionRefusedError:
        raise
    except (TimeoutError, OSError):
        return None


async def _wait_for_acceptance(
    engine: Executor, instance: Instance, probe: HealthProbe, reader: asyncio.StreamReader
) -> str:
    """Waits until the program accepts the open connection. Returns why it was not accepted; empty if it was,
    or if that cannot be detected.

    The connection stays open meanwhile: a series of new connections would fill the accept queue of a slowly
    starting program.
    """
    empty, until = 0, time.monotonic() + min(_ACCEPT_TIMEOUT, probe.timeout / 2)
    pause = _FIRST_PAUSE if instance.address == _LOOPBACK else _FIRST_PAUSE_ELSEWHERE
    while empty < _EMPTY_CHECKS:
        waiting = await _count_queued(engine, instance, probe)
        await asyncio.sleep(pause)
        if waiting is None:  # If the program ended without accepting it, the kernel has reset it.
            return _closed_message(probe) if reader.exception() else ""
        if waiting and time.monotonic() > until:
            return _waits_message(probe)
        empty = 0 if waiting else empty + 1
        pause = min(pause * 2, _MAX_PAUSE)
    return ""


async def _count_queued(engine: Executor, instance: Instance, probe: HealthProbe) -> int | None:
    try:
        return await engine.queued(instance, probe.port)
    except InstanceEnded:
        raise
    except EngineError:  # for example, a proxy in front of the engine restricts its API
        return None


def _waits_message(probe: HealthProbe) -> str:
    return (
        f"it listens on port {probe.port}, but accepts no connections yet: it must finish loading, or else "
        "`healthchecks` must have a `readiness_probe` with `tcp`, for which an open port is enough"
    )


async def _hangs_up(reader: asyncio.StreamReader) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(_PROXY_CLOSE_SECONDS):
            return not await reader.read(1)
    return False


async def _probe_http(instance: Instance, probe: HealthProbe) -> str:
    port = instance.ports.get(probe.port)
    if port is None:
        return f"nothing listens on port {probe.port}"
    reader, writer = await open_connection(
        instance.network, instance.address, port, _tls_context(probe.scheme)
    )
    try:
        path = probe.path if probe.path.startswith("/") else f"/{probe.path}"
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {instance.address}:{port}\r\n"
            "User-Agent: windlass-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()
        )
        line = await reader.readline()
    except ValueError:  # the first line exceeds the reader's limit
        return _no_http_message(probe)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    if not line:
        return f"it hung up on {_target_text(probe)} without an answer"
    words = line[:_MAX_HEAD_BYTES].split()
    if len(words) < 2 or not words[1].isdigit():
        return _no_http_message(probe)
    status = int(words[1])
    return "" if 200 <= status < 400 else f"it answered {_target_text(probe)} with {status}"


def _no_http_message(probe: HealthProbe) -> str:
    return f"what it answered {_target_text(probe)} is not HTTP"


async def speaks_http(address: str, port: int, network: str = "") -> bool:
    """Returns whether a server answers HTTP at an address, with any status."""
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            reader, writer = await open_connection(network, address, port)
            try:
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return await reader.readexactly(len(_HTTP_PREFIX)) == _HTTP_PREFIX
            finally:
                writer.close()
    except (TimeoutError, OSError, asyncio.IncompleteReadError):
        return False


def _tls_context(scheme: str) -> ssl.SSLContext | None:
    """Returns a TLS context that accepts any certificate, because certificates do not contain an instance's
    address."""
    if scheme != "https":
        return None
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _probe_command(engine: Executor, instance: Instance, probe: HealthProbe) -> str:
    try:
        code, output = await engine.execute(instance, probe.command, probe.timeout)
    except EngineError as error:
        return str(error)
    last = output.strip().splitlines()[-1:] or [""]
    return "" if code == 0 else f"{_target_text(probe)} ended with {code}: {last[0][:200]}"
