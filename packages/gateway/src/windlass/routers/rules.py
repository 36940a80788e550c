"""Rules of a route: the requests that the router passes on, and the headers that it adds to answers."""

from __future__ import annotations

import base64
import hashlib
import hmac

from msgspec import Struct


class Login(Struct, frozen=True):
    """A user name with a digest of the password, so that no router stores the password itself."""

    user: str
    salt: str
    digest: str
    """SHA-256 of the salt and the password, in hexadecimal digits; with an empty salt, SHA-1 in Base64, as
    `htpasswd -s` writes it."""

    def fits(self, password: bytes) -> bool:
        if self.salt:
            found = digest_of(self.salt, password)
        else:
            found = base64.b64encode(hashlib.sha1(password, usedforsecurity=False).digest()).decode()
        return hmac.compare_digest(found, self.digest)


def digest_of(salt: str, password: bytes) -> str:
    return hashlib.sha256(salt.encode() + b"\0" + password).hexdigest()


class RouteCors(Struct, frozen=True):
    """The answers to browsers that ask whether another site may use the service (CORS)."""

    origins: tuple[str, ...]
    """Allowed origins such as `https://example.com`; `*` allows all."""
    methods: str
    headers: str


class RouteRules(Struct, frozen=True, kw_only=True):
    """Rules of a route. The default of each rule has no effect."""

    allowed: tuple[str, ...] = ()
    """Networks of the clients that may use the route; empty for all."""
    denied: tuple[str, ...] = ()
    needs_login: bool = False
    """Whether requests need one of `logins`. Without any login, all requests are refused."""
    logins: tuple[Login, ...] = ()
    """One for each user."""
    body_bytes: int = 0
    """Largest body of a request; 0 for no limit."""
    answer_seconds: int = 0
    """Time limit until an instance begins its answer; 0 for no limit."""
    cors: RouteCors | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of each answer, in place of those of the instance with the same names."""


NO_RULES = RouteRules()
