"""Calls to the Docker Engine API, straight over its socket, in a version that both sides know.

Two things can go wrong, and they are told apart: the engine is away, and the same call may succeed later; or
it refuses, and says why. Connections are kept for the next call. One whose engine was started anew since is
replaced where a call may simply be repeated; where it may not, the engine was away.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import aiohttp

OLDEST: Final = (1, 41)  # Docker 20.10: statistics at once, BuildKit
NEWEST: Final = (1, 47)  # what this client was written against
HERE: Final = "127.0.0.1"
CONNECTING: Final = 5.0
PATIENCE: Final = 120.0
MOST: Final = 64 * 1024 * 1024

# An engine that is ending answers what is still under way with these, and with status 500.
ENDING: Final = (
    "context canceled",
    "transport is closing",
    "error reading from server",
    "containerd.sock",
    "client connection is closing",
    "server is shutting down",
)


NO_ANSWER: Final = "The Docker engine does not answer: whoever runs this server has to start it"
"""For those who deploy: where the engine is concerns the operator alone."""


class Away(Exception):
    """The engine does not answer; the message says where it was looked for, and what to do."""


class EngineRefused(Exception):
    """The engine answered, and said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class EngineAnswer:
    """What is coming back, as it comes."""

    def __init__(self, response: aiohttp.ClientResponse, docker: Docker) -> None:
        self._response = response
        self._docker = docker

    async def chunks(self) -> AsyncIterator[bytes]:
        with self._docker.translated():
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def objects(self) -> AsyncIterator[dict[str, Any]]:
        """JSON objects, one after the other, as events and builds write them."""
        rest = b""
        async for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
        if rest.strip():
            yield json.loads(rest)


class Docker:
    def __init__(self, host: str = "") -> None:
        """`unix:///var/run/docker.sock`, `tcp://10.0.0.5:2375`; empty looks where engines usually are."""
        self._named = host
        self._version = ""
        self._session: aiohttp.ClientSession | None = None
        self._base = ""

    @property
    def host(self) -> str:
        """Where it is, or was looked for."""
        return self._named or f"unix://{_usual()[0]}"

    async def json(self, method: str, path: str, **given: Any) -> Any:
        """What the call answers, decoded; None where it answers nothing."""
        body = await self.raw(method, path, **given)
        return json.loads(body) if body.strip() else None

    async def raw(self, method: str, path: str, **given: Any) -> bytes:
        async with self.stream(method, path, **given) as answer:
            parts, size = [], 0
            async for chunk in answer.chunks():
                parts.append(chunk)
                size += len(chunk)
                if size > MOST:
                    raise EngineRefused(500, f"The Docker engine answered {path} with more than {MOST} bytes")
            return b"".join(parts)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | AsyncIterator[bytes] | None = None,
        patience: float | None = PATIENCE,
    ) -> AsyncIterator[EngineAnswer]:
        """`patience` is how long the engine may be silent; None is for ever."""
        session = self._opened()
        if not self._version:
            self._version = await self._negotiated(session)
        async with self._asked(
            session,
            method,
            f"/v{self._version}{path}",
            params=params,
            body=body,
            data=data,
            patience=patience,
        ) as response:
            if response.status >= 400:
                raise await self._no(response)
            yield EngineAnswer(response, self)

    async def ping(self) -> Mapping[str, str]:
        """The headers of an engine that is well; nothing is negotiated or kept."""
        async with self._asked(self._opened(), "GET", "/_ping", patience=CONNECTING) as response:
            if response.status >= 400:
                raise await self._no(response)
            return dict(response.headers)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def address(self) -> str:
        """Where ports are reached that its containers publish; the engine is told to publish them there."""
        parts = urlsplit(self.host)
        if parts.scheme == "unix" or parts.hostname in (None, "localhost"):
            return HERE
        try:
            return HERE if ip_address(parts.hostname).is_loopback else parts.hostname
        except ValueError as error:
            raise EngineRefused(
                400,
                f"docker_host names {parts.hostname}: give the address of a remote Docker engine in numbers, "
                "because its containers publish their ports at exactly that address",
            ) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session, self._base = self._connected()
        return self._session

    def _connected(self) -> tuple[aiohttp.ClientSession, str]:
        import aiohttp  # noqa: PLC0415 (300 ms and 15 MB, and many installations have no Docker)

        parts = urlsplit(self._named or f"unix://{_found()}")
        connector: aiohttp.BaseConnector
        match parts.scheme:
            case "unix":
                connector = aiohttp.UnixConnector(path=parts.path, limit=0)
                base = "http://docker"
            case "tcp" | "http" | "https" if parts.hostname:
                connector = aiohttp.TCPConnector(limit=0)
                base = f"{'https' if parts.scheme == 'https' else 'http'}://{parts.netloc}"
            case _:
                raise Away(
                    f"docker_host is {self._named!r}: it must begin with unix://, tcp:// or https://, "
                    "such as unix:///var/run/docker.sock"
                )
        return aiohttp.ClientSession(connector=connector), base

    @asynccontextmanager
    async def _asked(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | AsyncIterator[bytes] | None = None,
        patience: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp  # noqa: PLC0415 (as above)

        headers = {}
        if data is not None:
            headers["Content-Type"] = "application/x-tar"
        elif body is not None or method == "POST":
            headers["Content-Type"] = "application/json"
            data = b"" if body is None else json.dumps(body).encode()
        with self.translated():
            # A large body would hold the loop up; what can be read is sent in pieces.
            sent = io.BytesIO(data) if isinstance(data, bytes) else data
            response = await session.request(
                method,
                self._base + path,
                params=_query(params or {}),
                data=sent,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECTING, sock_read=patience),
            )
        try:
            yield response
        finally:
            response.close()

    async def _negotiated(self, session: aiohttp.ClientSession) -> str:
        """The newest version that both sides know."""
        async with self._asked(session, "GET", "/version", patience=CONNECTING) as response:
            with self.translated():
                said = json.loads(await response.read())
        theirs = _numbers(str(said.get("ApiVersion", "")))
        least = _numbers(str(said.get("MinAPIVersion", "")))
        if theirs < OLDEST:
            raise EngineRefused(
                400, "The Docker engine is too old: Windlass needs Docker 20.10 (API 1.41) or newer"
            )
        chosen = max(min(theirs, NEWEST), least)
        return ".".join(map(str, chosen))

    async def _no(self, response: aiohttp.ClientResponse) -> Away | EngineRefused:
        with self.translated():
            text = (await response.read()).decode(errors="replace").strip()
        try:
            message = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            message = text or f"status {response.status}"
        if response.status >= 500 and any(word in message for word in ENDING):
            return Away(f"The Docker engine at {self.host} is ending: {message}")
        return EngineRefused(response.status, message)

    @contextmanager
    def translated(self) -> Iterator[None]:
        import aiohttp  # noqa: PLC0415 (as above)

        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError, json.JSONDecodeError) as error:
            self._version = ""  # another one may answer next time
            raise Away(self._away(error)) from error

    def _away(self, error: Exception) -> str:
        if isinstance(error, PermissionError) or "Permission denied" in str(error):
            return (
                f"Windlass may not use the Docker engine at {self.host}: add the user that runs Windlass to "
                "the group docker, and start Windlass anew"
            )
        why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        return (
            f"The Docker engine at {self.host} does not answer ({why}): start it, or set docker_host to "
            "where it is"
        )


def _query(params: Mapping[str, object]) -> dict[str, str]:
    return {name: _word(value) for name, value in params.items() if value is not None}


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else json.dumps(value)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _usual() -> tuple[Path, ...]:
    """The machine's own engine; one without root; Docker Desktop."""
    home = Path.home() / ".docker"
    return (
        Path("/var/run/docker.sock"),
        Path(f"/run/user/{os.getuid()}/docker.sock"),
        home / "run" / "docker.sock",
        home / "desktop" / "docker.sock",
    )


def _found() -> Path:
    there = [path for path in _usual() if path.is_socket()]
    if not there:
        raise Away(
            f"There is no Docker engine at {_usual()[0]}: install Docker, or set docker_host to where it is"
        )
    return there[0]
