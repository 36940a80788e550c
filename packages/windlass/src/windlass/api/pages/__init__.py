"""Pages that are not resources: API reference, health checks, metrics, and keys of the built-in issuer."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from windlass.api.answers import Header
from windlass.base.commit import commit
from windlass.base.disk_reserve import is_short
from windlass.base.version import VERSION
from windlass.control.context.call import encode
from windlass.control.context.context import Context

if TYPE_CHECKING:
    from windlass.base.issuer import Signer

Rendered = tuple[int, bytes, bytes, tuple[tuple[bytes, bytes], ...]]
"""Status, body, content type, and further headers."""

_JSON, _HTML, _TEXT = b"application/json", b"text/html; charset=utf-8", b"text/plain; charset=utf-8"
# Our pages may run their inline scripts and styles, and connect only to this server.
_OWN_PAGE = (
    b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    b"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


_INTRODUCTION = {
    "message": "This is Windlass. The links lead to the console for browsers, to the reference of the API, "
    "and to its health. All other paths need a token; with one, begin with GET /organization",
    "version": VERSION,
    "links": {
        "console": "/console/",
        "reference": "/docs",
        "openapi": "/openapi.json",
        "health": "/healthz",
        "readiness": "/readyz",
    },
}
"""The answer of `/` to programs."""


class ServedPage(Struct, frozen=True):
    name: str
    render: Callable[[], Awaitable[Rendered]]
    is_open: bool = True
    """Whether the page needs no authentication."""


class DocumentFile:
    """The OpenAPI document, uncompressed and compressed."""

    content_type = _JSON
    is_forever = False
    headers: tuple[Header, ...] = ((b"access-control-allow-origin", b"*"),)

    def __init__(self, body: bytes) -> None:
        self.body, self.packed = body, gzip.compress(body, 6, mtime=0)
        self.etag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()


class Pages:
    def __init__(
        self,
        ctx: Context,
        metrics: Callable[[], Awaitable[bytes]],
        ready: Callable[[], Awaitable[str]],
        signer: Callable[[], Awaitable[Signer]],
    ) -> None:
        self._ctx = ctx
        self._document: DocumentFile | None = None
        self._metrics = metrics
        self._ready = ready
        self._signer = signer
        renders: Mapping[str, Callable[[], Awaitable[Rendered]]] = {
            "/docs": self._docs,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics_text,
            "/.well-known/openid-configuration": self._discovery,
            "/.well-known/jwks.json": self._jwks,
        }
        closed = set() if ctx.settings.open_metrics else {"/metrics"}
        self._pages = {
            path: ServedPage(path.strip("/."), render, path not in closed) for path, render in renders.items()
        }
        self._home = ServedPage("home", self._lead_to_console)
        self._root = ServedPage("root", self._introduce)

    def find(self, path: str) -> ServedPage | None:
        return self._pages.get(path)

    def document(self) -> DocumentFile:
        """Returns the OpenAPI document. It is generated at the first request."""
        from windlass.api.openapi import encoded_document  # noqa: PLC0415 (not at every start)

        if self._document is None:
            self._document = DocumentFile(encoded_document(self._ctx.registry))
        return self._document

    def home(self, path: str, method: str, accept: bytes) -> ServedPage | None:
        """Returns the answer of `/`: a redirect to the console for browsers, and links for programs. None for
        all other requests."""
        if path != "/" or method not in {"GET", "HEAD"}:
            return None
        return self._home if accepts_html(accept) else self._root

    async def _lead_to_console(self) -> Rendered:
        return 302, b"", _TEXT, ((b"location", b"/console/"), (b"vary", b"accept"))

    async def _introduce(self) -> Rendered:
        return 200, encode(_INTRODUCTION), _JSON, ((b"vary", b"accept"),)

    async def _docs(self) -> Rendered:
        page = Path(__file__).with_name("docs.html").read_bytes()
        return (
            200,
            page,
            _HTML,
            ((b"content-security-policy", _OWN_PAGE), (b"referrer-policy", b"no-referrer")),
        )

    async def _healthz(self) -> Rendered:
        """Returns the version of the server, while the process is alive."""
        answer = {"status": "ok", "version": VERSION, "commit": commit()}
        return 200, encode(answer), _JSON, ()

    async def _readyz(self) -> Rendered:
        """Returns 200 if the database is available and the server is not stopping, otherwise 503.

        The body contains whether instances on this machine have networks of their own, whether the disk is
        below its reserve, and whether the memory of instances without a control group is measured.
        """
        problem = await self._ready()
        if problem:
            body = {"status": 503, "error": "Service Unavailable", "message": problem, "detail": problem}
            return 503, encode(body), _JSON, ((b"retry-after", b"1"),)
        network = "shared" if await self._ctx.places.local.engine.shared_network() else "own"
        disk = "short" if await asyncio.to_thread(self._is_disk_short) else "enough"
        memory = "measured" if self._ctx.places.local.engine.measures_memory else "not measured"
        ready = {"status": "ready", "network": network, "disk": disk, "memory": memory}
        return 200, encode(ready), _JSON, ()

    def _is_disk_short(self) -> bool:
        settings = self._ctx.settings
        with suppress(FileNotFoundError):  # the data directory does not exist yet
            return is_short(Path(settings.data_dir), settings.disk_reserve_bytes)
        return False

    async def _metrics_text(self) -> Rendered:
        return 200, await self._metrics(), _TEXT, ()

    async def _discovery(self) -> Rendered:
        return 200, encode((await self._signer()).discovery()), _JSON, ()

    async def _jwks(self) -> Rendered:
        return 200, encode((await self._signer()).jwks()), _JSON, ()


def accepts_html(accept: bytes) -> bool:
    """Returns whether the header lists text/html. `*/*` alone does not indicate a browser."""
    for part in accept.lower().split(b","):
        kind, *parameters = (word.strip() for word in part.split(b";"))
        if kind == b"text/html":
            return not any(re.fullmatch(rb"q=0(\.0*)?", parameter) for parameter in parameters)
    return False
