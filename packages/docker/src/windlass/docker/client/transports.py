"""Transports to a Docker engine: a Unix socket, plain TCP, and TLS with a client certificate."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet

from msgspec import Struct

from windlass.base.addresses import Reach, resolve
from windlass.docker.client.answers import Away, EngineRefused
from windlass.docker.client.tls_failures import tls_reason

if TYPE_CHECKING:
    import aiohttp

LOOPBACK: Final = "127.0.0.1"
KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 4, socket.TCP_KEEPINTVL: 2, socket.TCP_KEEPCNT: 2}
"""TCP keep-alive: idle time and interval in seconds, and the number of probes. An unreachable host is
detected after 8 seconds."""
_MAX_CLOSE_CHECKS, _CLOSE_CHECK_INTERVAL = 100, 0.01


class DockerTransport(Protocol):
    """Opens connections to one engine."""

    @property
    def host(self) -> str:
        """The engine's address, as readable text."""
        ...

    @property
    def address(self) -> str:
        """The address at which the ports of containers are published."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is the engine of a cluster, at an address that an organization has configured."""
        ...

    @property
    def no_answer(self) -> str:
        """Advice for users about an unavailable engine. Does not contain the engine's address."""
        ...

    @property
    def engine_id(self) -> str:
        """Id of the expected engine; empty if any engine is accepted."""
        ...

    @property
    def wrong_engine(self) -> str:
        """Advice for users if another engine answers. Does not contain the engine's address."""
        ...

    async def ready(self) -> None:
        """Prepares a request. Raises Away with a remedy, or OSError."""
        ...

    def connector(self) -> tuple[aiohttp.BaseConnector, str]:
        """Returns an aiohttp connector, and the base URL of requests."""
        ...

    def explain(self, error: Exception) -> str:
        """Returns the reason of a failed request, and a remedy."""
        ...

    async def drop(self) -> None:
        """Closes the connections that the current task has opened."""
        ...

    async def close(self) -> None: ...


class SettingsTransport:
    """A transport to the engine in the operator's settings: a Unix socket, or TCP without client
    certificates."""

    engine_id = wrong_engine = ""
    is_elsewhere = False

    def __init__(self, named: str) -> None:
        self._named = named

    @property
    def host(self) -> str:
        return self._named or f"unix://{_engine_sockets()[0]}"

    @property
    def address(self) -> str:
        parts = urlsplit(self.host)
        if parts.scheme == "unix" or parts.hostname in (None, "localhost"):
            return LOOPBACK
        try:
            return LOOPBACK if ip_address(parts.hostname).is_loopback else parts.hostname
        except ValueError as error:
            raise EngineRefused(
                400,
                f"docker_host names {parts.hostname}: give the address of a remote Docker engine in numbers, "
                "because its containers publish their ports at exactly that address",
            ) from error

    @property
    def no_answer(self) -> str:
        return "Ask the operator of this server to start Docker: the Docker engine does not answer"

    async def ready(self) -> None:
        """Does nothing: connecting requires no preparation."""

    def connector(self) -> tuple[aiohttp.BaseConnector, str]:
        import aiohttp  # noqa: PLC0415 (300 ms and 15 MB, and many installations have no Docker)

        parts = urlsplit(self._named or f"unix://{_find_socket()}")
        match parts.scheme:
            case "unix":
                return aiohttp.UnixConnector(path=parts.path, limit=0), "http://docker"
            case "tcp" | "http" | "https" if parts.hostname:
                scheme = "https" if parts.scheme == "https" else "http"
                return aiohttp.TCPConnector(limit=0), f"{scheme}://{parts.netloc}"
            case _:
                raise Away(
                    f"docker_host is {self._named!r}: it must begin with unix://, tcp:// or https://, "
                    "such as unix:///var/run/docker.sock"
                )

    def explain(self, error: Exception) -> str:
        if isinstance(error, PermissionError) or "Permission denied" in str(error):
            return (
                f"Windlass may not use the Docker engine at {self.host}: add the user that runs Windlass to "
                "the group docker, and restart Windlass"
            )
        why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        return (
            f"The Docker engine at {self.host} does not answer ({why}): start it, or set docker_host to "
            "where it is"
        )

    async def drop(self) -> None:
        """Does nothing: this transport does not check the engine's id."""

    async def close(self) -> None:
        """Does nothing: this transport has no open resources."""


class TlsIdentity(Struct, frozen=True):
    """PEM texts for mutual TLS authentication."""

    authority: str
    """Certificate authority of the engine's certificate."""
    certificate: str
    key: str


class BadIdentity(ValueError):
    """Raised if a certificate or key is not usable. The message begins with the name of the setting."""


class TlsTransport:
    """A transport to a cluster's engine with mutual TLS. `reach` restricts the addresses that may be
    contacted; `cluster` is the name of the cluster."""

    is_elsewhere = True

    def __init__(
        self,
        cluster: str,
        address: str,
        port: int,
        identity: TlsIdentity,
        allowed_addresses: Reach,
        *,
        engine_id: str = "",
    ) -> None:
        self._cluster, self.engine_id = cluster, engine_id
        self._address, self._port, self._reach = address, port, allowed_addresses
        self._identity = identity
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._openers: WeakKeyDictionary[asyncio.Task[Any], WeakSet[socket.socket]] = WeakKeyDictionary()

    @property
    def host(self) -> str:
        return f"tcp://{_bracket_ipv6(self._address)}:{self._port}"

    @property
    def address(self) -> str:
        return LOOPBACK if ip_address(self._address).is_loopback else self._address

    @property
    def no_answer(self) -> str:
        return (
            f"Ask an Admin to read the status of the cluster {self._cluster}, and start its Docker engine: "
            "it does not answer"
        )

    @property
    def wrong_engine(self) -> str:
        return (
            f"Start the Docker engine that the cluster {self._cluster} was connected to, or send engine_key "
            "of the cluster again if it was replaced on purpose: another engine answers at its address"
        )

    async def ready(self) -> None:
        """Does nothing: connecting requires no preparation."""

    def connector(self) -> tuple[aiohttp.BaseConnector, str]:
        import aiohttp  # noqa: PLC0415 (as above)

        from windlass.base.http_out.client import Guard  # noqa: PLC0415 (loads aiohttp)

        guard = Guard(self._reach, resolve)

        def opened(address: Any) -> socket.socket:
            socket_made = guard.opened(address)
            _end_when_silent(socket_made)
            self._sockets.add(socket_made)
            if task := asyncio.current_task():
                self._openers.setdefault(task, WeakSet()).add(socket_made)
            return socket_made

        connector = aiohttp.TCPConnector(
            ssl=tls_context(self._identity), resolver=guard, socket_factory=opened, limit=0
        )
        return connector, f"https://{_bracket_ipv6(self._address)}:{self._port}"

    def explain(self, error: Exception) -> str:
        return f"Docker engine at {self.host}: {tls_reason(error, self._address, self._port)}"

    async def drop(self) -> None:
        if task := asyncio.current_task():
            await _close_sockets(self._openers.get(task, ()))

    async def close(self) -> None:
        """Closes all connections immediately. Otherwise, TLS would wait half a minute for the peer's closing
        message."""
        await _close_sockets(self._sockets)


def _end_when_silent(connection: socket.socket) -> None:
    """Enables TCP keep-alive, so that a connection to a vanished host ends. Otherwise, a stream of events
    would wait forever."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, number in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, number)


async def _close_sockets(sockets: Iterable[socket.socket]) -> None:
    """Ends connections, and waits until their transports have closed them. A transport that is collected
    before closes the descriptor, and its socket object closes it again, which may belong to another file by
    then."""
    closing = list(sockets)
    for opened in closing:
        with suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)
    for _ in range(_MAX_CLOSE_CHECKS):
        if all(opened.fileno() == -1 for opened in closing):
            break
        await asyncio.sleep(_CLOSE_CHECK_INTERVAL)


def tls_context(identity: TlsIdentity) -> ssl.SSLContext:
    """Creates the TLS context of an identity. Raises BadIdentity if a certificate or key is not usable."""
    try:
        context = ssl.create_default_context(cadata=identity.authority)
    except (ssl.SSLError, ValueError) as error:
        raise BadIdentity("engine_ca_certificate: must be a certificate in PEM form (ca.pem)") from error
    # The ssl module can load a client certificate and key from files only.
    with tempfile.TemporaryDirectory(prefix="windlass-tls-") as folder:
        certificate, key = Path(folder) / "certificate", Path(folder) / "key"
        certificate.write_text(identity.certificate)
        key.touch(mode=0o600)
        key.write_text(identity.key)
        try:
            context.load_cert_chain(certificate, key, password=_refuse_encrypted_key)
        except _Locked as error:
            raise BadIdentity("engine_key: must be a private key without a passphrase (key.pem)") from error
        except ssl.SSLError as error:
            raise BadIdentity(_unusable_identity(error)) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _Locked(Exception):
    """Raised if the private key is protected by a passphrase."""


def _refuse_encrypted_key() -> str:
    raise _Locked


def _unusable_identity(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "engine_key: must be the key of engine_certificate (the key.pem beside its cert.pem)"
    return (
        "engine_certificate, engine_key: must be a client certificate and its private key in PEM form "
        "(cert.pem and key.pem)"
    )


def _bracket_ipv6(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _engine_sockets() -> tuple[Path, ...]:
    """Returns the usual sockets: the system's engine, a rootless engine, and Docker Desktop."""
    home = Path.home() / ".docker"
    return (
        Path("/var/run/docker.sock"),
        Path(f"/run/user/{os.getuid()}/docker.sock"),
        home / "run" / "docker.sock",
        home / "desktop" / "docker.sock",
    )


def _find_socket() -> Path:
    sockets = [path for path in _engine_sockets() if path.is_socket()]
    if not sockets:
        raise Away(
            f"There is no Docker engine at {_engine_sockets()[0]}: install Docker, "
            "or set docker_host to where it is"
        )
    return sockets[0]
