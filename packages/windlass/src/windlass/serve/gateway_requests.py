"""Requests that the gateway forwards to the API, at the setting `console_domain`.

Such a request has the secret of the installation, so its forwarded address and scheme are those of the
client. Nobody else who connects from the same address can say so.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.base.http_in.connections import trust_check
from windlass.routers.router import PROOF_HEADER

Headers = Sequence[tuple[bytes, bytes]]
App = Callable[[Any, Any, Any], Awaitable[None]]

_HEADER = PROOF_HEADER.lower().encode()
_SCHEMES = {"http": {b"http": "http", b"https": "https"}, "websocket": {b"http": "ws", b"https": "wss"}}


class GatewayRequests:
    """An application that knows the clients of requests of the gateway. By HTTP, it answers them with the
    reason while the name has no certificate: passwords and tokens must not be sent in clear."""

    def __init__(self, app: App, proof: str, proxies: Sequence[str], *, needs_https: bool) -> None:
        self._app = app
        self._proof = proof.encode()
        self._is_proxy = trust_check(proxies)
        self._needs_https = needs_https

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in _SCHEMES and (headers := self._from_gateway(scope["headers"])) is not None:
            fields = dict(headers)
            scheme = fields.get(b"x-forwarded-proto", b"http")
            if self._needs_https and scheme != b"https":
                await _refuse(scope["type"], send)
                return
            client = self._client_of(fields.get(b"x-forwarded-for", b"")) or "unknown"
            scope = {
                **scope,
                "headers": headers,
                "client": (client, 0),
                "scheme": _SCHEMES[scope["type"]].get(scheme, scope["scheme"]),
            }
        await self._app(scope, receive, send)

    def _from_gateway(self, headers: Headers) -> Headers | None:
        """Returns the headers without the secret, or None if the request is not from the gateway."""
        is_proved = any(
            name == _HEADER and hmac.compare_digest(value, self._proof) for name, value in headers
        )
        return [field for field in headers if field[0] != _HEADER] if is_proved else None

    def _client_of(self, forwarded: bytes) -> str:
        """Returns the last address that is not of a trusted proxy."""
        addresses = [address.strip() for address in forwarded.decode("latin-1").split(",")]
        return next((address for address in reversed(addresses) if not self._is_proxy(address)), addresses[0])


async def _refuse(type: str, send: Any) -> None:
    if type == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "Connect by HTTPS"})
        return
    text = (
        b"Wait a minute: HTTPS for this name is being set up, and without it Windlass takes no passwords and "
        b"tokens. If it takes longer, the log of the server says why.\n"
    )
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 503, "headers": [*fields, (b"retry-after", b"30")]})
    await send({"type": "http.response.body", "body": text})
