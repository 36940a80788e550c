"""Calls to the Docker Engine API over its socket, in an API version that both sides support.

There are two kinds of failure: the engine is unavailable (`Away`), and the same call may succeed later; or
the engine refuses the call with a reason (`EngineRefused`). Connections are reused. If the engine was
restarted, an idempotent call is repeated on a new connection; for other calls, the engine counts as
unavailable.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from windlass.base.trace import trace_headers
from windlass.docker.client.answers import (
    CONNECT_TIMEOUT,
    AnswerTooLong,
    Away,
    EngineAnswer,
    EngineRefused,
    WrongEngine,
    an_object,
    decode,
    read_short,
)
from windlass.docker.client.command_starts import CommandStarts
from windlass.docker.client.transports import DockerTransport, SettingsTransport

BYTES_A_SECOND: Final = 8 * 1024 * 1024
"""Maximum rate of reading from an engine. The output of containers is slower, and decoding at this rate uses
only a part of one CPU."""
_BURST_SECONDS: Final = 1.0
"""Burst size of the rate limit, in seconds at the maximum rate."""


class Pace:
    def __init__(self, rate: int = BYTES_A_SECOND) -> None:
        self._rate = rate
        self._paid_until = 0.0
        """The time at which all bytes so far would have been read at the maximum rate."""

    async def keep(self, count: int) -> None:
        """Records `count` bytes as read, and waits if they exceed the maximum rate."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now) + count / self._rate
        if (wait := self._paid_until - now - _BURST_SECONDS) > 0:
            await asyncio.sleep(wait)


if TYPE_CHECKING:
    import aiohttp

OLDEST_API_VERSION: Final = (1, 41)  # Docker 20.10: statistics at once, BuildKit
NEWEST_API_VERSION: Final = (1, 47)  # what this client was written against
REQUEST_TIMEOUT: Final = 120.0
NO_AUTH: Final[Mapping[str, str]] = {}
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of an answer, in bytes."""
MAX_LIST_BYTES: Final = 128 * 1024 * 1024
"""Maximum size in bytes of a list from the installation's own engine, enough for thousands of entries
(`image_limits` keeps entries short). Lists from a cluster's engine, which is not trusted, are limited to
`MAX_ANSWER_BYTES`."""
ENGINE_ID_TIMEOUT: Final = 15.0
"""Time limit for an engine to report its id, in seconds."""
MAX_DOCUMENT_BYTES: Final = 1024 * 1024
"""Maximum size in bytes of an answer that is decoded on the event loop. Decoding a larger answer would block
the loop."""
INSPECT_COMMAND_TIMEOUT: Final = 1.0
"""Time limit in seconds for describing a command."""
MAX_INFO_BYTES: Final = 1024 * 1024

# Error texts (with status 500) of an engine that is shutting down.
SHUTDOWN_ERRORS: Final = (
    "context canceled",
    "transport is closing",
    "error reading from server",
    "containerd.sock",
    "client connection is closing",
    "server is shutting down",
)

_OF_PATHS: Final = frozenset({".", ".."})
"""Parts of a name that would lead to another part of the engine's API."""
_IDENTITY_REQUEST: Final = "recognising"
"""Marks the request that reads the engine's id. Its own connection does not trigger another such request."""


class Docker:
    def __init__(self, host: str | DockerTransport = "", *, disk_reserve: int = 0) -> None:
        """`host`: an address such as `unix:///var/run/docker.sock` or `tcp://10.0.0.5:2375`, or a transport.
        If empty, the usual addresses are tried. `disk_reserve`: bytes that pulls and builds leave free on the
        disk of an engine of this machine."""
        self.disk_reserve = disk_reserve
        self._transport = SettingsTransport(host) if isinstance(host, str) else host
        self._version = ""
        self._pace = Pace()
        self._session: aiohttp.ClientSession | None = None
        self._base = ""
        self.commands = CommandStarts(self._is_hanging)

    @property
    def host(self) -> str:
        """The engine's address, as readable text."""
        return self._transport.host

    @property
    def address(self) -> str:
        """The address at which the ports of containers are published."""
        return self._transport.address

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is the engine of a cluster, at an address that an organization has configured."""
        return self._transport.is_elsewhere

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the engine surely shares the memory of this machine."""
        return not self.is_elsewhere and self.host.startswith("unix://")

    async def keep_pace(self, count: int) -> None:
        """Applies the rate limit of a cluster's engine, after `count` bytes were read."""
        if self.is_elsewhere:
            await self._pace.keep(count)

    def advice(self, away: Away) -> str:
        """Returns advice for users who deploy while the engine is unavailable."""
        return str(away) if isinstance(away, WrongEngine) else self._transport.no_answer

    async def move(self, transport: DockerTransport) -> None:
        """Switches to another transport. Open calls fail as if the engine were unavailable."""
        old, self._transport, self._version = self._transport, transport, ""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        await old.close()

    async def json(self, method: str, path: str, **options: Any) -> Any:
        """Sends a request and returns the decoded answer; None for an empty answer."""
        body = await self.raw(method, path, **options)
        if len(body) > MAX_DOCUMENT_BYTES:
            raise AnswerTooLong(f"The Docker engine answers with more than {MAX_DOCUMENT_BYTES} bytes")
        return decode(body) if body.strip() else None

    async def read_list(self, path: str, type: Any, **options: Any) -> Any:
        """Returns a possibly long list, decoded as a type. Fields that the type does not declare are
        skipped."""
        limit = MAX_ANSWER_BYTES if self.is_elsewhere else MAX_LIST_BYTES
        return decode(await self.raw("GET", path, limit=limit, **options), type)

    async def raw(self, method: str, path: str, *, limit: int = MAX_ANSWER_BYTES, **options: Any) -> bytes:
        """Sends a request and returns the body of the answer. The whole answer must arrive within `timeout`,
        because an engine could otherwise send single bytes forever."""
        with self.translated():
            async with asyncio.timeout(options.get("timeout", REQUEST_TIMEOUT)):
                return await self._read_whole(method, path, limit, **options)

    async def _read_whole(self, method: str, path: str, limit: int, **options: Any) -> bytes:
        async with self.stream(method, path, **options) as answer:
            parts, size = [], 0
            async for chunk in answer.chunks():
                parts.append(chunk)
                size += len(chunk)
                if size > limit:
                    raise AnswerTooLong(
                        "Have the operator remove containers and images with many ports or long labels: the "
                        f"Docker engine answers {path} with more than {limit} bytes",
                    )
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
        timeout: float | None = REQUEST_TIMEOUT,
        auth: Mapping[str, str] = NO_AUTH,
    ) -> AsyncIterator[EngineAnswer]:
        """Sends a request and yields the answer as a stream. `timeout`: maximum seconds without data; None
        for no limit. `auth`: header with a registry login."""
        if not _OF_PATHS.isdisjoint(path.split("/")):
            raise EngineRefused(400, "invalid reference format: a name has no part . or ..")
        if not self._version:
            self._version = await self._negotiate()
        async with self._request(
            method,
            f"/v{self._version}{path}",
            params=params,
            body=body,
            data=data,
            timeout=timeout,
            auth=auth,
        ) as response:
            if response.status >= 400:
                raise await self._refusal_error(response)
            yield EngineAnswer(response, self.translated, self.keep_pace)

    async def headers(self, path: str, params: Mapping[str, object]) -> Mapping[str, str]:
        """Returns the headers of an answer without a body."""
        async with self.stream("HEAD", path, params=params) as answer:
            return dict(answer.response.headers)

    async def _is_hanging(self, command: str) -> bool:
        """Returns whether a command has been started and runs no process yet. The engine does not describe
        such a command."""
        try:
            async with asyncio.timeout(INSPECT_COMMAND_TIMEOUT):
                state = an_object(await self.json("GET", f"/exec/{command}/json"))
        except TimeoutError:
            return True
        except EngineRefused:
            return False
        return bool(state.get("Running")) and not state.get("Pid")

    async def ping(self) -> Mapping[str, str]:
        """Returns the headers of a ping. Does not negotiate or cache the API version."""
        async with self._request("GET", "/_ping", timeout=CONNECT_TIMEOUT) as response:
            if response.status >= 400:
                raise await self._refusal_error(response)
            return dict(response.headers)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        await self._transport.close()

    async def identity(self) -> str:
        """Returns the engine's id. Raises Away or EngineRefused if there is no usable engine at the
        address."""
        headers = await self.ping()
        if "Api-Version" not in headers:
            raise EngineRefused(
                400, f"There is no Docker engine at {self.host}: another program answers there"
            )
        return str(an_object(await self.json("GET", "/info", timeout=ENGINE_ID_TIMEOUT)).get("ID", ""))

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # noqa: PLC0415 (300 ms and 15 MB, and many installations have no Docker)

            from windlass.docker.client.engine_request import EngineRequest  # noqa: PLC0415 (as above)

            connector, self._base = self._transport.connector()
            self._session = aiohttp.ClientSession(
                connector=connector,
                request_class=EngineRequest,
                trace_configs=self._traces(),
                # A compressed answer could expand without limit.
                auto_decompress=False,
                headers={"Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _traces(self) -> list[aiohttp.TraceConfig]:
        """Returns hooks that verify the engine's id on each new connection, before a request is sent over
        it."""
        import aiohttp  # noqa: PLC0415 (as above)

        if not self._transport.engine_id:
            return []
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(self._check_engine_identity)
        return [trace]

    async def _check_engine_identity(self, session: aiohttp.ClientSession, context: Any, _: object) -> None:
        """Raises WrongEngine if the engine at the address is not the expected engine. Closes the new
        connection if its engine is not verified: aiohttp neither closes nor keeps it if a trace fails."""
        if context.trace_request_ctx == _IDENTITY_REQUEST:
            return
        is_verified = False
        try:
            await self._verify_engine_identity(session)
            is_verified = True
        finally:
            if not is_verified:
                self._version = ""
                await self._transport.drop()

    async def _verify_engine_identity(self, session: aiohttp.ClientSession) -> None:
        import aiohttp  # noqa: PLC0415 (as above)

        timeout = aiohttp.ClientTimeout(total=ENGINE_ID_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
        async with session.get(
            f"{self._base}/info",
            trace_request_ctx=_IDENTITY_REQUEST,
            timeout=timeout,
            headers={"Connection": "close"},
            allow_redirects=False,
        ) as response:
            body = await read_short(response, MAX_INFO_BYTES, ENGINE_ID_TIMEOUT)
        if an_object(decode(body)).get("ID") != self._transport.engine_id:
            raise WrongEngine(self._transport.wrong_engine)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | AsyncIterator[bytes] | None = None,
        timeout: float | None = None,
        auth: Mapping[str, str] = NO_AUTH,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp  # noqa: PLC0415 (as above)

        headers = {**trace_headers(), **auth}
        if data is not None:
            headers["Content-Type"] = "application/x-tar"
        elif body is not None or method == "POST":
            headers["Content-Type"] = "application/json"
            data = b"" if body is None else json.dumps(body).encode()
        with self.translated():
            await self._transport.ready()
            session = self._open_session()
            # A file object is sent in pieces. Sending large bytes at once would block the event loop.
            sent = io.BytesIO(data) if isinstance(data, bytes) else data
            response = await session.request(
                method,
                self._base + path,
                params=_query_parameters(params or {}),
                data=sent,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=timeout),
            )
        try:
            yield response
        finally:
            response.close()

    async def _negotiate(self) -> str:
        """Returns the newest API version that both sides support."""
        async with self._request("GET", "/version", timeout=CONNECT_TIMEOUT) as response:
            if response.status >= 400:
                raise await self._refusal_error(response)
            with self.translated():
                version = an_object(decode(await read_short(response)))
        theirs = _version_numbers(str(version.get("ApiVersion", "")))
        least = _version_numbers(str(version.get("MinAPIVersion", "")))
        if theirs < OLDEST_API_VERSION:
            raise EngineRefused(
                400, "The Docker engine is too old: Windlass needs Docker 20.10 (API 1.41) or newer"
            )
        chosen = max(min(theirs, NEWEST_API_VERSION), least)
        return ".".join(map(str, chosen))

    async def _refusal_error(self, response: aiohttp.ClientResponse) -> Away | EngineRefused:
        with self.translated():
            text = (await read_short(response)).decode(errors="replace").strip()
        try:
            message = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError, RecursionError):
            message = text or f"status {response.status}"
        if response.status >= 500 and any(word in message for word in SHUTDOWN_ERRORS):
            return Away(f"The Docker engine at {self.host} is ending: {message}")
        return EngineRefused(response.status, message)

    @contextmanager
    def translated(self) -> Iterator[None]:
        import aiohttp  # noqa: PLC0415 (as above)

        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError, json.JSONDecodeError) as error:
            self._version = ""  # the next connection may reach another engine version
            raise Away(self._transport.explain(error)) from error


def _query_parameters(params: Mapping[str, object]) -> dict[str, str]:
    return {name: _parameter_text(value) for name, value in params.items() if value is not None}


def _parameter_text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else json.dumps(value)


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
