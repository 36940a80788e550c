"""Asks a provider for a person by OpenID Connect, with the code flow."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from windlass.base.clock import SECOND
from windlass.base.foreign_json import BadJson, read_json
from windlass.base.log import log
from windlass.config.settings import OidcProvider
from windlass.control.context.context import Context
from windlass.control.people.authenticate import Fetch
from windlass.control.people.claims import Claims
from windlass.control.people.provider_protocol import (
    SignInAttempt,
    SignInFailed,
    exchange_code,
    page_url,
    word_of,
)

if TYPE_CHECKING:
    from windlass.base.oidc import Verifier

_MAX_ISSUER_LENGTH: Final = 200
_REFETCH_SECONDS: Final = 3.0
"""Seconds between two attempts to fetch a provider's keys. A short time is safe, because the tokens come
directly from the provider, and strangers cannot trigger the fetching."""
_log = log("sign-in")


class _Endpoints(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str


class _Grant(Struct, frozen=True):
    id_token: str


class OpenIdConnect:
    def __init__(self, ctx: Context, provider: OidcProvider, fetch: Fetch) -> None:
        self._ctx, self._provider, self._fetch = ctx, provider, fetch
        self._verifier: Verifier | None = None

    async def page(self, attempt: SignInAttempt) -> str:
        endpoints = await self._endpoints()
        more = {"nonce": attempt.nonce}
        return page_url(self._ctx, self._provider, endpoints.authorization_endpoint, attempt, more)

    async def claims(self, code: str, attempt: SignInAttempt) -> list[Claims]:
        """Exchanges the code for the person's claims, and verifies the provider's signature."""
        from windlass.base.issuer_keys import (  # noqa: PLC0415 (costs 100 ms; only sign-ins need it)
            IssuerUnreachable,
            TokenOutOfTime,
            TokenRefused,
        )

        provider = self._provider
        token = await self._exchange(code, attempt)
        try:
            verified = await self._verifier_of_tokens().verify(token)
        except IssuerUnreachable as error:
            raise SignInFailed(word_of(error.__cause__)) from error
        except TokenRefused as error:
            _log.warning("a provider's token is refused: %s", error, extra={"provider": provider.name})
            raise SignInFailed("clock" if isinstance(error, TokenOutOfTime) else "refused") from error
        # OpenID Connect Core 3.1.3.7: if a token has several audiences, `azp` is the one it was issued to.
        audiences = verified.get("aud")
        needs_azp = "azp" in verified or (isinstance(audiences, list) and len(audiences) > 1)
        wanted = {"nonce": attempt.nonce} | ({"azp": provider.client_id} if needs_azp else {})
        for claim, value in wanted.items():
            if verified.get(claim) != value:
                message = "a provider's token is refused: its %s is of another sign-in"
                _log.warning(message, claim, extra={"provider": provider.name})
                raise SignInFailed("refused")
        claims = msgspec.convert(verified, Claims)
        is_lent = provider.kind == "google" and not _is_address_of_google(claims)
        return [msgspec.structs.replace(claims, email=None) if is_lent else claims]

    async def _exchange(self, code: str, attempt: SignInAttempt) -> str:
        provider = self._provider
        endpoints = await self._endpoints()
        more, headers = {}, {}
        if provider.client_secret:
            pair = f"{quote(provider.client_id, safe='')}:{quote(provider.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            more["client_id"] = provider.client_id
        answer = await exchange_code(
            self._ctx, provider, endpoints.token_endpoint, code, attempt, more, headers
        )
        try:
            return read_json(answer.body, _Grant).id_token
        except BadJson as error:
            _log.warning("a provider answers no token: %s", error, extra={"provider": provider.name})
            raise SignInFailed("broken") from error

    async def _endpoints(self) -> _Endpoints:
        """Returns the endpoints that the provider publishes. They are fetched for each sign-in, because they
        may change."""
        provider = self._provider
        address = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            endpoints = read_json(await self._fetch(address), _Endpoints)
        except (OSError, ValueError) as error:
            _log.warning("a provider cannot be read: %s", error, extra={"provider": provider.name})
            raise SignInFailed(word_of(error)) from error
        wanted = (endpoints.authorization_endpoint, endpoints.token_endpoint)
        if endpoints.issuer != provider.issuer:
            extra = {"provider": provider.name, "issuer": endpoints.issuer[:_MAX_ISSUER_LENGTH]}
            _log.warning("a provider publishes another issuer", extra=extra)
            raise SignInFailed("broken")
        if not all(_is_as_safe(endpoint, provider.issuer) for endpoint in wanted):
            _log.warning("a provider publishes an endpoint without https", extra={"provider": provider.name})
            raise SignInFailed("broken")
        return endpoints

    def _verifier_of_tokens(self) -> Verifier:
        from windlass.base.oidc import TokenIssuer, Verifier  # noqa: PLC0415 (see above)

        if self._verifier is None:
            clock = self._ctx.clock
            issuer = TokenIssuer(issuer=self._provider.issuer, audiences=(self._provider.client_id,))
            self._verifier = Verifier(
                [issuer], self._fetch, lambda: clock.now() / SECOND, refetch_every=_REFETCH_SECONDS
            )
        return self._verifier


def _is_address_of_google(claims: Claims) -> bool:
    """Returns whether Google itself manages the e-mail address of an account.

    Other addresses were verified once, and may belong to another person by now.
    """
    is_of_workspace = isinstance(claims.hd, str) and bool(claims.hd)
    return is_of_workspace or str(claims.email).lower().endswith("@gmail.com")


def _is_as_safe(endpoint: str, issuer: str) -> bool:
    """Returns whether the code and the client secret may be sent to an endpoint: with https, or with http if
    the issuer itself uses http."""
    schemes = ("https://", "http://") if issuer.startswith("http://") else ("https://",)
    return endpoint.startswith(schemes) and endpoint.isprintable() and endpoint.isascii()
