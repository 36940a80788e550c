"""Calls to the Docker Engine API, straight over its socket, in a version that both sides support.

There are two kinds of failure: the engine is unavailable, and the same call may succeed later; or it
refuses, with a reason. Connections are kept for the next call. A connection to an engine that was restarted
is replaced if the call may be repeated; otherwise the engine counts as unavailable.
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
    CONNECTING,
    AnswerTooLong,
    Away,
    EngineAnswer,
    EngineRefused,
    WrongEngine,
    an_object,
    decode,
    read_short,
)
from windlass.docker.client.transports import DockerTransport, SettingsTransport

BYTES_A_SECOND: Final = 8 * 1024 * 1024
"""The maximum rate of reading from an engine. The output of containers is less, and decoding at this rate
uses a part of one CPU."""
_AHEAD: Final = 1.0
"""Seconds of this pace that may be read at once."""


class Pace:
    def __init__(self, rate: int = BYTES_A_SECOND) -> None:
        self._rate = rate
        self._paid_until = 0.0
        """The time at which the bytes read so far would have been read at the allowed rate."""

    async def keep(self, count: int) -> None:
        """Waits after so many bytes were read, if they came faster than the pace."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now) + count / self._rate
        if (wait := self._paid_until - now - _AHEAD) > 0:
            await asyncio.sleep(wait)


if TYPE_CHECKING:
    import aiohttp

OLDEST: Final = (1, 41)  # Docker 20.10: statistics at once, BuildKit
NEWEST: Final = (1, 47)  # what this client was written against
PATIENCE: Final = 120.0
NO_AUTH: Final[Mapping[str, str]] = {}
MOST: Final = 16 * 1024 * 1024
"""Bytes of a whole answer."""
LONGEST_LIST: Final = 128 * 1024 * 1024
"""Bytes of a list of the installation's own engine, whose entries are short (`fit`): some thousands of the
longest. The engine of a cluster may be anybody's."""
RECOGNISING: Final = 15.0
"""Seconds that an engine may take to report its id."""
LONGEST_DOCUMENT: Final = 1024 * 1024
"""Maximum bytes of an answer that is decoded on the event loop, because decoding more would block it."""
LONGEST_INFO: Final = 1024 * 1024

# An engine that is ending answers what is still under way with these, and with status 500.
ENDING: Final = (
    "context canceled",
    "transport is closing",
    "error reading from server",
    "containerd.sock",
    "client connection is closing",
    "server is shutting down",
)

_RECOGNISES: Final = "recognising"
"""Marks the request that reads the id of the engine: its own connection needs no other such request."""


class Docker:
    def __init__(self, host: str | DockerTransport = "") -> None:
        """`host` is such as `unix:///var/run/docker.sock` or `tcp://10.0.0.5:2375`; if it is empty, the
        usual addresses are tried."""
        self._transport = SettingsTransport(host) if isinstance(host, str) else host
        self._version = ""
        self._pace = Pace()
        self._session: aiohttp.ClientSession | None = None
        self._base = ""

    @property
    def host(self) -> str:
        """The address of the engine, as readable text."""
        return self._transport.host

    @property
    def address(self) -> str:
        """The address of ports that its containers publish; the engine is configured to publish them
        there."""
        return self._transport.address

    @property
    def is_elsewhere(self) -> bool:
        """Returns True for the engine of a cluster, at an address that its organization gave."""
        return self._transport.is_elsewhere

    async def keep_pace(self, count: int) -> None:
        """Waits if the engine of a cluster sends much, after so many bytes of all its answers."""
        if self.is_elsewhere:
            await self._pace.keep(count)

    def advice(self, away: Away) -> str:
        """Returns the advice for users who deploy while the engine is unavailable."""
        return str(away) if isinstance(away, WrongEngine) else self._transport.no_answer

    async def move(self, transport: DockerTransport) -> None:
        """Switches to another transport; open calls end as if the engine were unavailable."""
        old, self._transport, self._version = self._transport, transport, ""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        await old.close()

    async def json(self, method: str, path: str, **options: Any) -> Any:
        """Returns the decoded answer; None if it is empty."""
        body = await self.raw(method, path, **options)
        if len(body) > LONGEST_DOCUMENT:
            raise AnswerTooLong(f"The Docker engine answers with more than {LONGEST_DOCUMENT} bytes")
        return decode(body) if body.strip() else None

    async def read_list(self, path: str, type: Any, **options: Any) -> Any:
        """Returns an answer of this type, which may be long: all fields that the type does not name are
        skipped."""
        most = MOST if self.is_elsewhere else LONGEST_LIST
        return decode(await self.raw("GET", path, most=most, **options), type)

    async def raw(self, method: str, path: str, *, most: int = MOST, **options: Any) -> bytes:
        """An answer has to be whole within `patience`: an engine may send a byte now and then for ever."""
        with self.translated():
            async with asyncio.timeout(options.get("patience", PATIENCE)):
                return await self._read_whole(method, path, most, **options)

    async def _read_whole(self, method: str, path: str, most: int, **options: Any) -> bytes:
        async with self.stream(method, path, **options) as answer:
            parts, size = [], 0
            async for chunk in answer.chunks():
                parts.append(chunk)
                size += len(chunk)
                if size > most:
                    raise AnswerTooLong(
                        "Have the operator remove containers and images with many ports or long labels: the "
                        f"Docker engine answers {path} with more than {most} bytes",
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
        patience: float | None = PATIENCE,
        auth: Mapping[str, str] = NO_AUTH,
    ) -> AsyncIterator[EngineAnswer]:
        """`patience` is how long the engine may be silent; None is for ever. `auth` is the header with a
        login."""
        if not self._version:
            self._version = await self._negotiate()
        async with self._request(
            method,
            f"/v{self._version}{path}",
            params=params,
            body=body,
            data=data,
            patience=patience,
            auth=auth,
        ) as response:
            if response.status >= 400:
                raise await self._no(response)
            yield EngineAnswer(response, self.translated, self.keep_pace)

    async def ping(self) -> Mapping[str, str]:
        """The headers of an engine that is well; nothing is negotiated or kept."""
        async with self._request("GET", "/_ping", patience=CONNECTING) as response:
            if response.status >= 400:
                raise await self._no(response)
            return dict(response.headers)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        await self._transport.close()

    async def identity(self) -> str:
        """Returns the id that the engine gave itself; raises Away or EngineRefused with what is wrong."""
        headers = await self.ping()
        if "Api-Version" not in headers:
            raise EngineRefused(
                400, f"There is no Docker engine at {self.host}: another program answers there"
            )
        return str(an_object(await self.json("GET", "/info", patience=RECOGNISING)).get("ID", ""))

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # noqa: PLC0415 (300 ms and 15 MB, and many installations have no Docker)

            from windlass.docker.client.engine_request import EngineRequest  # noqa: PLC0415 (as above)

            connector, self._base = self._transport.connector()
            self._session = aiohttp.ClientSession(
                connector=connector,
                request_class=EngineRequest,
                trace_configs=self._traces(),
                # A few bytes could become any number of them.
                auto_decompress=False,
                headers={"Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _traces(self) -> list[aiohttp.TraceConfig]:
        """Has the engine recognised at each new connection, before a request is sent over it."""
        import aiohttp  # noqa: PLC0415 (as above)

        if not self._transport.engine_id:
            return []
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(self._recognise)
        return [trace]

    async def _recognise(self, session: aiohttp.ClientSession, context: Any, _: object) -> None:
        """Raises WrongEngine if the engine at the address is not the one that was connected."""
        import aiohttp  # noqa: PLC0415 (as above)

        if context.trace_request_ctx == _RECOGNISES:
            return
        timeout = aiohttp.ClientTimeout(total=RECOGNISING, sock_connect=CONNECTING)
        async with session.get(
            f"{self._base}/info",
            trace_request_ctx=_RECOGNISES,
            timeout=timeout,
            headers={"Connection": "close"},
            allow_redirects=False,
        ) as response:
            body = await read_short(response, LONGEST_INFO, RECOGNISING)
        if an_object(decode(body)).get("ID") != self._transport.engine_id:
            # No connection to the other engine is used for a later request.
            self._transport.drop()
            self._version = ""
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
        patience: float | None = None,
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
            # A large body would hold the loop up; what can be read is sent in pieces.
            sent = io.BytesIO(data) if isinstance(data, bytes) else data
            response = await session.request(
                method,
                self._base + path,
                params=_query(params or {}),
                data=sent,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECTING, sock_read=patience),
            )
        try:
            yield response
        finally:
            response.close()

    async def _negotiate(self) -> str:
        """The newest version that both sides know."""
        async with self._request("GET", "/version", patience=CONNECTING) as response:
            if response.status >= 400:
                raise await self._no(response)
            with self.translated():
                version = an_object(decode(await read_short(response)))
        theirs = _numbers(str(version.get("ApiVersion", "")))
        least = _numbers(str(version.get("MinAPIVersion", "")))
        if theirs < OLDEST:
            raise EngineRefused(
                400, "The Docker engine is too old: Windlass needs Docker 20.10 (API 1.41) or newer"
            )
        chosen = max(min(theirs, NEWEST), least)
        return ".".join(map(str, chosen))

    async def _no(self, response: aiohttp.ClientResponse) -> Away | EngineRefused:
        with self.translated():
            text = (await read_short(response)).decode(errors="replace").strip()
        try:
            message = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError, RecursionError):
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
            raise Away(self._transport.explain(error)) from error


def _query(params: Mapping[str, object]) -> dict[str, str]:
    return {name: _word(value) for name, value in params.items() if value is not None}


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else json.dumps(value)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
