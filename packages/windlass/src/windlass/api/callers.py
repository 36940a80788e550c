"""Identifies the caller of each request, charges the request to a budget, and records unusual callers.

`control.people.authenticate` verifies credentials, and `api.limits` keeps the budgets.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable

from windlass.api.limits import Budgets, Window, subject_of_address
from windlass.api.requests import Request
from windlass.base.clock import Clock
from windlass.base.errors import Failure, Forbidden, TooMany, Unauthorized, Unavailable
from windlass.base.trace import enter_trace
from windlass.control.people.authenticate import Authenticator, NoMember, RefusedCaller
from windlass.control.people.claims import refusal
from windlass.core.access import Actor


class Callers:
    def __init__(self, authenticator: Authenticator, budgets: Budgets, clock: Clock) -> None:
        self.authenticator = authenticator
        self._budgets = budgets
        self._clock = clock
        self.security = authenticator.security_events

    def at_hand(self, request: Request) -> Actor | None:
        """Returns the caller if its credential and budget are cached in memory, which is the usual case.

        Returns None without changing anything if `identify` is needed.
        """
        header = request.credential
        if header is None:
            return None
        now = self._clock.now()
        actor = self.authenticator.recent_verdict(header, now)
        if actor is None or not self.security.knows(actor, request.client):
            return None
        request.window = self._budgets.take_from_grant(actor.budget, actor.limit, now)
        if request.window is None:
            return None
        request.actor = actor
        return actor

    def exempt(self, request: Request) -> None:
        """Admits a request that needs no authentication. It is not charged to a budget."""
        self._count_against_address(request, spend=False)

    def count_failure(self, request: Request) -> None:
        """Charges a request without a valid caller to the budget of its address."""
        self._count_against_address(request, spend=True)

    async def identify(self, request: Request) -> Actor | Failure:
        """Returns the caller, or the failure if the credential is missing or invalid. Raises TooMany if the
        budget is spent."""
        header = request.credential
        if header is None:
            self._count_against_address(request, spend=True)
            return refusal("Send `Authorization: Token <API token>`")
        enter_trace(lambda: request.trace)  # requests to an OpenID Connect issuer carry this trace
        now = self._clock.now()
        try:
            actor = self.authenticator.recent_verdict(header, now) or await self.authenticator.admit(header)
        except Failure as failure:
            if isinstance(failure, RefusedCaller | NoMember):
                self.security.record_denied(failure.caller, failure.why, request.source)
            self._count_against_address(request, spend=True)
            return failure
        request.actor, now = actor, self._clock.now()
        if self.security.is_new_caller(actor, request.client, now):
            self.security.record_new_caller(actor, request.source)
        request.window = self._budgets.take_from_grant(actor.budget, actor.limit, now)
        if request.window is None:
            await self._count_request(request, actor)
        return actor

    async def identify_git(self, request: Request) -> Actor:
        """Returns the caller of git, whose password is a token. Raises Unauthorized or TooMany.

        git asks without a password first, so such a request is not charged. Other requests are charged to a
        budget of their own, so that pushes and API calls do not use up each other's.
        """
        header = token_header(request.headers.get(b"authorization") and request.credential)
        if header is None:
            self.exempt(request)
            raise _git_refusal("Send an API token as password; any user name will do")
        enter_trace(lambda: request.trace)
        try:
            actor = self.authenticator.recent_verdict(
                header, self._clock.now()
            ) or await self.authenticator.admit(header)
        except Unauthorized as failure:
            if isinstance(failure, RefusedCaller):
                self.security.record_denied(failure.caller, failure.why, request.source)
            self.count_failure(request)
            raise _git_refusal(failure.message) from failure
        request.actor = actor
        if self.security.is_new_caller(actor, request.client, self._clock.now()):
            self.security.record_new_caller(actor, request.source)
        request.window, served = await self._budgets.take(f"git:{actor.budget}", actor.limit)
        if not served:
            raise self._too_many(request.window)
        return actor

    async def admit_to_metrics(self, request: Request, token: str) -> None:
        """Admits Prometheus with the metrics token of the settings, and Admin tokens of the first
        organization.

        Other callers are refused, because metrics contain the names of all organizations' services.
        """
        scheme, _, credential = (request.credential or b"").partition(b" ")
        is_known = scheme.lower() in {b"token", b"bearer"} and hmac.compare_digest(credential, token.encode())
        if token and is_known:
            self.exempt(request)  # works without the database, whose state the metrics report
            return
        actor = await self.identify(request)
        if isinstance(actor, Failure):
            raise actor
        if not await self.authenticator.is_admin_of_first(actor):
            raise Forbidden(
                "Send the metrics_token of the settings, or an Admin token of the first organization: "
                "metrics are of all organizations"
            )

    async def _count_request(self, request: Request, actor: Actor) -> None:
        request.window, served = await self._budgets.take(actor.budget, actor.limit)
        if not served:
            raise self._too_many(request.window)

    def _count_against_address(self, request: Request, *, spend: bool) -> None:
        request.window, served = self._budgets.window_of_address(subject_of_address(request.client), spend)
        if not served:
            raise self._too_many(request.window)

    def _too_many(self, window: Window) -> TooMany:
        seconds = window.retry_after(self._clock.now())
        return TooMany(
            f"Try again in {seconds} seconds: all {window.limit} requests of this hour are used",
            {"retry-after": str(seconds)},
        )

    def window_of(self, request: Request) -> Window:
        """Returns the budget for the rate limit headers of the response."""
        return (
            request.window
            or self._budgets.window_of_address(subject_of_address(request.client), spend=False)[0]
        )

    async def still_allowed(self, request: Request) -> Callable[[], Awaitable[bool]]:
        """Returns a function that checks whether the caller still has the rights it had at this moment.

        Streams call the function repeatedly, because tokens expire and are revoked, and roles change.
        """
        header = token_header(request.credential) or b""
        try:
            first = await self._admit(header)
        except Unavailable:
            first = None

        async def allowed() -> bool:
            actor = await self._admit(header)
            return actor is not None and first is not None and actor.has_the_rights_of(first)

        return allowed

    async def _admit(self, header: bytes) -> Actor | None:
        try:
            actor = self.authenticator.recent_verdict(header, self._clock.now())
            return actor or await self.authenticator.admit(header)
        except Unavailable:
            raise
        except Failure:
            return None


def token_header(header: bytes | None) -> bytes | None:
    """Returns the `Authorization` header of an API call with the token that git has sent as its password; as
    its user name if the password is empty. None without a credential."""
    scheme, _, credential = (header or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return header or None
    try:
        user, _, password = base64.b64decode(credential.strip(), validate=True).partition(b":")
    except binascii.Error:
        user, password = b"", b""
    token = password or user
    return b"Bearer " + token if token else None


def _git_refusal(message: str) -> Unauthorized:
    return Unauthorized(message, {"www-authenticate": 'Basic realm="Windlass", charset="UTF-8"'})
