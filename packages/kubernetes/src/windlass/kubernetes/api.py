"""Calls to the API server of a cluster.

There are two kinds of failure: the API server is unavailable (`ClusterUnavailable`), and the same call may
succeed later; or it refuses the call with a reason (`ClusterRefusal`). Each connection goes to an allowed
address.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec
from msgspec import Struct

from windlass.base.addresses import Reach, resolve
from windlass.base.foreign_json import BadJson, read_json
from windlass.base.trace import trace_headers
from windlass.base.version import VERSION
from windlass.kubernetes.access import BadAccess, ClusterAccess, tls_context
from windlass.kubernetes.documents import FailureStatus

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
REQUEST_TIMEOUT: Final = 30.0
CONNECT_TIMEOUT: Final = 5.0
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of an event that is decoded. An object of less than 2 MB may have 10 MB as JSON, in which some
characters have six bytes."""
MAX_PASSED_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of an event that is passed over."""
LINE_BEGINNING_BYTES: Final = 4096
"""Maximum size of one event in bytes. The store of a cluster keeps no object of half this size."""
MAX_REASON_BYTES: Final = 64 * 1024
MAX_CALLS: Final = 16
"""Maximum number of requests in progress, besides streams."""
MAX_MESSAGE_LENGTH: Final = 600
_MAX_WAITS: Final = 4
"""Number of times that a request is sent again because the API server was overloaded."""
_MAX_WAIT: Final = 10.0
_MERGE_PATCH: Final = "application/merge-patch+json"
_AWAY_STATUSES: Final = frozenset({500, 502, 503, 504})
_NO_PARAMS: Final[Mapping[str, str]] = {}
_CLOSE_CHECKS, _CLOSE_PAUSE = 100, 0.01
NOT_A_CLUSTER: Final = "Check the address: the API server of a Kubernetes cluster does not answer like this"


class ClusterUnavailable(Exception):
    """Raised if the API server is unavailable. The message says why, and what to do."""


class ClusterRefusal(Exception):
    """Raised if the API server refuses a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message[:MAX_MESSAGE_LENGTH]

    @property
    def is_conflict(self) -> bool:
        """Whether another client has changed or created the object first."""
        return self.status == 409

    @property
    def is_absent(self) -> bool:
        return self.status == 404

    @property
    def is_expired(self) -> bool:
        """Whether the version from which a watch should continue is not kept any more."""
        return self.status == 410


class _VersionName(Struct, frozen=True, rename="camel"):
    git_version: str = ""


class ServerFacts(Struct, frozen=True, kw_only=True):
    version: str
    clock: float
    """Its time in seconds since 1970; 0 if unknown."""
    certificate_end: float


class ClusterApi:
    """A client of one cluster. `name`: the cluster in messages."""

    def __init__(self, access: ClusterAccess, allowed_addresses: Reach, name: str = "") -> None:
        self._access, self._reach = access, allowed_addresses
        self._name = f"the cluster {name}" if name else "the Kubernetes cluster"
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._turns = asyncio.Semaphore(MAX_CALLS)

    @property
    def server(self) -> str:
        return self._access.server

    @property
    def authority(self) -> str:
        return self._access.authority

    @property
    def server_name(self) -> str:
        return self._access.server_name

    async def move(self, access: ClusterAccess) -> None:
        """Switches to other credentials or another address. Open calls fail as if the cluster were
        unavailable."""
        self._access = access
        await self.close()

    async def close(self) -> None:
        """Closes all connections at once. Otherwise, TLS would wait for the last message of the server."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        for opened in [*self._sockets]:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for _ in range(_CLOSE_CHECKS):
            if all(opened.fileno() == -1 for opened in self._sockets):
                break
            await asyncio.sleep(_CLOSE_PAUSE)

    async def get(
        self, path: str, type: type[T], params: Mapping[str, str] = _NO_PARAMS, accept: str = ""
    ) -> T:
        """`accept`: the form of the answer, for a path that has several."""
        return decode(await self.raw("GET", path, params=params, accept=accept), type)

    async def find(self, path: str, type: type[T]) -> T | None:
        """Returns an object; None if it does not exist."""
        try:
            return await self.get(path, type)
        except ClusterRefusal as refused:
            if refused.is_absent:
                return None
            raise

    async def create(self, path: str, body: object, type: type[T]) -> T:
        return decode(await self.raw("POST", path, params={"fieldManager": "windlass"}, body=body), type)

    async def replace(self, path: str, body: object, type: type[T]) -> T:
        return decode(await self.raw("PUT", path, params={"fieldManager": "windlass"}, body=body), type)

    async def patch(self, path: str, body: object, type: type[T]) -> T:
        """Merges a change into an object. A `resourceVersion` in it is a condition."""
        answer = await self.raw(
            "PATCH", path, params={"fieldManager": "windlass"}, body=body, content_type=_MERGE_PATCH
        )
        return decode(answer, type)

    async def delete(self, path: str, body: object = None, params: Mapping[str, str] = _NO_PARAMS) -> None:
        """Deletes an object. Succeeds if it does not exist."""
        try:
            await self.raw("DELETE", path, params=params, body=body)
        except ClusterRefusal as refused:
            if not refused.is_absent:
                raise

    async def raw(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] = _NO_PARAMS,
        body: object = None,
        content_type: str = "application/json",
        accept: str = "",
        limit: int = MAX_ANSWER_BYTES,
        timeout: float = REQUEST_TIMEOUT,
    ) -> bytes:
        """Sends a request and returns the body of the answer. Waits if the API server is overloaded."""
        data = None if body is None else msgspec.json.encode(body)
        for attempt in range(_MAX_WAITS + 1):
            # One that was told to wait holds no turn meanwhile: others may be told nothing of the kind.
            async with self._turns:
                with self._translated():
                    async with asyncio.timeout(timeout):
                        async with self._request(
                            method, path, params, data, content_type, timeout, accept
                        ) as answer:
                            if answer.status != 429 or attempt == _MAX_WAITS:
                                return await self._whole(answer, limit)
                            pause = _retry_after(answer)
            await asyncio.sleep(pause)
        raise ClusterUnavailable(f"{self._name} is overloaded: it refuses each repeated request (429)")

    async def about(self) -> ServerFacts:
        """Returns what the API server says about itself, in its answer and with its certificate."""
        with self._translated():
            async with (
                asyncio.timeout(REQUEST_TIMEOUT),
                self._request("GET", "/version", _NO_PARAMS, None, "", REQUEST_TIMEOUT) as answer,
            ):
                transport = answer.connection.transport if answer.connection else None
                shown = transport.get_extra_info("peercert") if transport else None
                stamp = answer.headers.get("Date", "")
                version = decode(await self._whole(answer, MAX_REASON_BYTES), _VersionName)
        return ServerFacts(
            version=version.git_version,
            clock=_seconds(stamp),
            certificate_end=ssl.cert_time_to_seconds(shown["notAfter"]) if shown else 0.0,
        )

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, silence: float | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Sends a request and yields the pieces of its answer while they arrive. `silence`: seconds without
        data after which the API server counts as away; None for no limit."""
        with self._translated():
            async with self._request("GET", path, params, None, "", silence) as answer:
                if answer.status >= 300:
                    await self._whole(answer, MAX_REASON_BYTES)
                yield answer.content.iter_any()

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Sequence[tuple[str, str]]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Opens a WebSocket for a command in a container. Raises ClusterRefusal."""
        import aiohttp  # noqa: PLC0415 (300 ms and 15 MB, and many installations have no cluster)

        with self._translated():
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    opened = await self._open_session().ws_connect(
                        self._access.server + path,
                        params=params,
                        headers={**self._headers(), "Accept": "*/*"},
                        protocols=("v5.channel.k8s.io",),
                        max_msg_size=MAX_LINE_BYTES,
                        compress=0,
                        server_hostname=self._access.server_name or None,
                    )
            except aiohttp.WSServerHandshakeError as error:
                if error.status in _AWAY_STATUSES and error.status != 500:
                    raise ClusterUnavailable(f"{self._name} does not answer ({error.status})") from error
                raise ClusterRefusal(
                    error.status, "", f"it opens no connection to the container ({error.status})"
                ) from error
        try:
            yield opened
        finally:
            await opened.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import aiohttp  # noqa: PLC0415 (as above)

        try:
            yield
        except TimeoutError as error:
            raise ClusterUnavailable(
                f"Check {self._name}: its API server at {self.server} does not answer in time"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError, BadAccess) as error:
            raise ClusterUnavailable(f"Check {self._name}: {self._why(error)}") from error

    def _why(self, error: Exception) -> str:
        if isinstance(error, BadAccess):
            return str(error)
        if certificate := getattr(error, "certificate_error", None):
            why = getattr(certificate, "verify_message", certificate)
            return f"the certificate of {self.server} is not valid: {why}"
        cause = getattr(error, "os_error", error)
        if isinstance(cause, PermissionError):
            host = urlsplit(self.server).hostname
            return f"Windlass may not connect to {host}: the operator allows addresses with outbound_allow"
        why = getattr(cause, "strerror", None) or cause or type(cause).__name__
        return f"its API server at {self.server} does not answer ({why})"

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        data: bytes | None,
        content_type: str,
        silence: float | None,
        accept: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp  # noqa: PLC0415 (as above)

        headers = {**self._headers(), **({"Content-Type": content_type} if data is not None else {})}
        headers |= {"Accept": accept} if accept else {}
        answer = await self._open_session().request(
            method,
            self._access.server + path,
            params=params,
            data=data,
            headers=headers,
            allow_redirects=False,
            server_hostname=self._access.server_name or None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=silence),
        )
        try:
            yield answer
        finally:
            answer.release() if answer.content.at_eof() else answer.close()

    def _headers(self) -> dict[str, str]:
        token = self._access.current_token()
        return {**trace_headers(), **({"Authorization": f"Bearer {token}"} if token else {})}

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # noqa: PLC0415 (as above)

            from windlass.base.http_out.client import Guard  # noqa: PLC0415 (loads aiohttp)

            guard = Guard(self._reach, resolve)
            context: ssl.SSLContext = tls_context(self._access)

            def open_socket(address: Any) -> socket.socket:
                made = guard.opened(address)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                self._sockets.add(made)
                return made

            redirects = aiohttp.TraceConfig()
            redirects.on_request_redirect.append(_refuse_redirect)
            self._session = aiohttp.ClientSession(
                trace_configs=[redirects],
                connector=aiohttp.TCPConnector(
                    ssl=context, resolver=guard, socket_factory=open_socket, use_dns_cache=False, limit=0
                ),
                auto_decompress=False,
                headers={
                    "Accept-Encoding": "identity",
                    "Accept": "application/json",
                    "User-Agent": f"Windlass/{VERSION}",
                },
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    async def _whole(self, answer: aiohttp.ClientResponse, limit: int) -> bytes:
        """Returns the body of an answer. Raises for a status other than success."""
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > limit:
                raise ClusterRefusal(500, "", f"{self._name} answers with more than {limit} bytes")
        if answer.status < 300:
            return bytes(body)
        raise self._failure(answer.status, bytes(body))

    def _failure(self, status: int, body: bytes) -> Exception:
        try:
            said = read_json(body, FailureStatus)
        except BadJson:
            said = FailureStatus(message=body[:MAX_MESSAGE_LENGTH].decode(errors="replace").strip())
        if status == 401:
            return ClusterUnavailable(
                f"Send the kubeconfig of {self._name} again: its API server no longer accepts the credentials"
            )
        if status in _AWAY_STATUSES or status == 429:
            return ClusterUnavailable(
                f"Check {self._name}: its API server answers {status} {said.message[:200]}".rstrip()
            )
        if 300 <= status < 400:
            return ClusterRefusal(status, "", NOT_A_CLUSTER)
        return ClusterRefusal(status, said.reason, said.message or f"it answers {status}")


async def _refuse_redirect(
    session: aiohttp.ClientSession, context: object, redirect: aiohttp.TraceRequestRedirectParams
) -> None:
    """Ends a request that is about to be sent to another address, which WebSockets would do."""
    redirect.response.close()
    raise ClusterRefusal(redirect.response.status, "", NOT_A_CLUSTER)


async def lines(pieces: AsyncIterator[bytes], skip: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    """Yields whole lines without their ends. Passes over a line that is too long, and calls `skip` with its
    beginning. Raises ClusterRefusal for an endless line."""
    rest, passed = bytearray(), 0
    async for piece in pieces:
        first, *others = piece.split(b"\n")
        if passed:
            passed += len(first)
        else:
            rest += first
        for part in others:
            if passed:
                skip(bytes(rest))
            else:
                yield bytes(rest)
            rest, passed = bytearray(part), 0
        if len(rest) > MAX_LINE_BYTES:
            passed = len(rest)
            del rest[LINE_BEGINNING_BYTES:]
        if passed > MAX_PASSED_BYTES:
            raise ClusterRefusal(
                500, "", f"the cluster answers with a line of more than {MAX_PASSED_BYTES} bytes"
            )
    if rest and not passed:
        yield bytes(rest)


def _seconds(date: str) -> float:
    """Converts the date of an answer to seconds since 1970; 0 if it is none."""
    try:
        return parsedate_to_datetime(date).timestamp() if date else 0.0
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _retry_after(answer: aiohttp.ClientResponse) -> float:
    """Returns the seconds to wait that the API server asks for, up to a limit."""
    asked = answer.headers.get("Retry-After", "1")
    return min(float(asked) if asked.isdecimal() else 1.0, _MAX_WAIT)


def decode(body: bytes, type: type[T]) -> T:
    """Decodes JSON of a type. Raises ClusterRefusal for any other content."""
    try:
        return read_json(body, type)
    except BadJson as error:
        raise ClusterRefusal(500, "", NOT_A_CLUSTER) from error
