"""Keeps the requests of one browser at one instance, by a cookie.

The cookie names the instance by a keyed digest of its address: nobody can find out the addresses, or make a
cookie for another instance than the one that was given out. All routers of an installation compute the same
values, so that sessions outlive a router.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from windlass.routers.builtin.peers import Peer

_DIGITS: Final = 32
_DIGITS_OF_NAME: Final = 10


class StickySessions:
    __slots__ = ("_begin", "_path", "_peers", "_values")

    def __init__(self, key: str, path: bytes, peers: Sequence[Peer]) -> None:
        """`key`: a secret of the service. `path`: the path prefix of the route."""
        # Several services may share a host, each with a cookie of its own.
        name = b"windlass-" + _cookie_digest(key, "name")[:_DIGITS_OF_NAME]
        self._begin = name + b"="
        self._path = path or b"/"
        self._values = {peer: _cookie_digest(key, _address_of(peer)) for peer in peers}
        self._peers = {value: peer for peer, value in self._values.items()}

    def peer_of(self, fields: bytes) -> Peer | None:
        """Returns the instance that the cookie of a request names, if it is still one of the service."""
        at = fields.find(self._begin)
        if at < 0:
            return None
        at += len(self._begin)
        return self._peers.get(fields[at : at + _DIGITS])

    def cookie_of(self, peer: Peer | None, *, is_secure: bool) -> bytes:
        """Returns the header line that names an instance to the browser."""
        value = self._values.get(peer) if peer is not None else None
        if value is None:
            return b""
        secure = b"; Secure" if is_secure else b""
        path = self._path
        return b"\r\nSet-Cookie: %b%b; Path=%b; HttpOnly; SameSite=Lax%b" % (self._begin, value, path, secure)


def _address_of(peer: Peer) -> str:
    at = peer.endpoint
    return f"address {at.network} {at.address} {at.port}"


def _cookie_digest(key: str, text: str) -> bytes:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()[:_DIGITS].encode()
