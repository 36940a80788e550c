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


class RouteRetry(Struct, frozen=True):
    """The failures after which a request is sent once more."""

    times: int
    """Maximum number of further attempts of a request."""
    on: tuple[str, ...] = ()
    """The failures, in the words of Envoy's `retry_on`; other words have no effect."""
    statuses: tuple[int, ...] = ()
    """The statuses that the word `retriable-status-codes` means."""
    try_seconds: float = 0
    """Time limit until an instance begins its answer in one attempt; 0 for no limit."""


class RouteTimes(Struct, frozen=True):
    """Time limits of connections, in seconds; 0 for the limit of a route without rules."""

    connect: float = 0
    """Until an instance accepts a connection."""
    take_request: float = 0
    """How long an instance may take nothing of a request."""
    take_answer: float = 0
    """How long a client may take nothing of an answer."""
    idle: float = 0
    """How long a client's connection may be without requests."""
    connection: float = 0
    """How long a client's connection takes further requests."""


DEFAULT_TIMES = RouteTimes()


class RouteRate(Struct, frozen=True):
    """The requests that each address may send."""

    requests: int
    """Number in a minute."""
    at_once: int
    """Number of them that may come at the same time."""


class RouteMaintenance(Struct, frozen=True):
    """All requests are answered with a page of the router."""

    page: str = ""
    """The page (HTML); empty for that of the router."""
    let_in: tuple[str, ...] = ()
    """Networks of clients whose requests are passed on."""


class RouteLog(Struct, frozen=True):
    """The access log of a service."""

    form: str
    """`json` or `combined`."""
    folder: str
    """The folder with the logs of all services."""
    bytes: int
    """Maximum size of the log."""


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
    """Time limit until an instance begins its answer, from the end of the request; 0 for no limit."""
    cors: RouteCors | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of each answer, in place of those of the instance with the same names."""
    sticky: str = ""
    """Secret of the service from which the cookies of its sessions are computed; empty for no sessions."""
    retry: RouteRetry | None = None
    times: RouteTimes = DEFAULT_TIMES
    rate: RouteRate | None = None
    compresses: bool = False
    """Whether texts are compressed for clients that take gzip."""
    error_page: str = ""
    """A page (HTML) in place of the router's own pages of status 500 to 599; empty for none."""
    maintenance: RouteMaintenance | None = None
    log: RouteLog | None = None


NO_RULES = RouteRules()
