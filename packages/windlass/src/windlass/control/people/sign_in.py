"""Sign-in through providers with the code flow and PKCE (RFC 7636), performed by the server.

The state between the two requests is in an encrypted cookie that only this server can read.
"""

from __future__ import annotations

import base64
import secrets
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base import tokens
from windlass.base.clock import MINUTE
from windlass.base.encryption import CannotDecrypt
from windlass.base.errors import Missing, Unauthorized
from windlass.base.log import log
from windlass.config import BadSetting
from windlass.config.settings import OidcProvider
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.people.authenticate import Authenticator, NoMember
from windlass.control.people.browser_sessions import NewBrowserSession, open_as
from windlass.control.people.claims import Claims, person_of
from windlass.control.people.github import GitHub
from windlass.control.people.members import joinable_organizations
from windlass.control.people.openid_connect import OpenIdConnect
from windlass.control.people.provider_protocol import (
    ProviderProtocol,
    SignInAttempt,
    SignInFailed,
    failure,
    to_base64url,
)
from windlass.core.access import Actor
from windlass.store import Tx

_ATTEMPT_LIFETIME: Final = 10 * MINUTE
_SEAL_OWNER: Final = ("sign-in",)
_log = log("sign-in")


class BegunSignIn(Struct, frozen=True):
    """The start of a sign-in: the URL of the provider's page, and the state for the cookie."""

    url: str
    memory: str


class ProviderAnswer(Struct, frozen=True):
    """The query parameters with which a provider redirects the browser back. Missing parameters are empty."""

    code: str = ""
    state: str = ""
    error: str = ""
    error_description: str = ""
    iss: str = ""
    """The issuer (RFC 9207), which most providers leave out."""


class SignIn:
    """Sign-in with the providers of the settings."""

    def __init__(self, ctx: Context, authenticator: Authenticator) -> None:
        self._ctx, self._authenticator = ctx, authenticator
        self.providers = {provider.name: provider for provider in ctx.settings.oidc_providers}
        if len(self.providers) < len(ctx.settings.oidc_providers):
            raise BadSetting("oidc_providers: two have the same name")
        for provider in self.providers.values():
            if not provider.issuer.startswith(("https://", "http://")):
                raise BadSetting(f"oidc_providers: the issuer of {provider.name} must begin with https://")
        self._protocols = {name: self._protocol_of(provider) for name, provider in self.providers.items()}

    def _protocol_of(self, provider: OidcProvider) -> ProviderProtocol:
        if provider.kind == "github":
            return GitHub(self._ctx, provider)
        return OpenIdConnect(self._ctx, provider, self._fetch)

    async def _fetch(self, url: str) -> bytes:
        return await self._authenticator.fetch(url)

    async def start(self, name: str) -> BegunSignIn:
        """Begins a sign-in. Returns the URL of the provider's page and the state for the cookie."""
        self._require_known(name)
        attempt = SignInAttempt(
            name,
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(48),
            self._ctx.clock.now() + _ATTEMPT_LIFETIME,
        )
        url = await self._protocols[name].page(attempt)
        sealed = self._ctx.encryption.encrypt(msgspec.json.encode(attempt), *_SEAL_OWNER)
        return BegunSignIn(url, to_base64url(sealed))

    async def finish(
        self, name: str, answer: ProviderAnswer, memory: str, origin: Origin
    ) -> NewBrowserSession:
        """Opens a session after the provider has redirected the browser back. Raises SignInFailed."""
        self._require_known(name)
        provider, kept = self.providers[name], self._read_attempt(memory)
        is_ours = kept is not None and kept.provider == name and kept.ends_at > self._ctx.clock.now()
        if (
            kept is None
            or not is_ours
            or not secrets.compare_digest(kept.state.encode(), answer.state.encode())
        ):
            raise SignInFailed("lost")
        if answer.iss and provider.kind != "github" and answer.iss != provider.issuer:
            _log.warning("the answer of another provider is refused", extra={"provider": name})
            raise SignInFailed("refused")
        if not answer.code:
            raise failure(provider, answer.error or "access_denied", answer.error_description)
        claims = await self._protocols[name].claims(answer.code, kept)
        actor = await self._actor(name, claims, origin)
        session = await self._ctx.store.write(lambda tx: self._open_once(tx, kept, actor, origin))
        if session is None:
            raise SignInFailed("lost")
        return session

    async def _actor(self, name: str, found_claims: list[Claims], origin: Origin) -> Actor:
        try:
            claims = await self._invited(found_claims)
            return await self._authenticator.person(claims)
        except NoMember as refusal:
            self._authenticator.security_events.record_denied(refusal.caller, refusal.why, origin)
            extra = {"provider": name, "caller": refusal.caller.name, "address": origin.address}
            _log.info("a person who is not a member tried to sign in", extra=extra)
            raise SignInFailed("no_member" if person_of(claims).email else "no_email") from refusal
        except Unauthorized as refusal:
            _log.warning("a provider's claims are refused: %s", refusal, extra={"provider": name})
            raise SignInFailed("broken") from refusal

    async def _invited(self, found_claims: list[Claims]) -> Claims:
        """Returns the claims whose e-mail address has an invitation. If none has, returns the claims with the
        primary address."""
        for claims in found_claims if len(found_claims) > 1 else ():
            if await joinable_organizations(self._ctx, self._ctx.store.reads, person_of(claims)):
                return claims
        return found_claims[0]

    async def _open_once(
        self, tx: Tx, attempt: SignInAttempt, actor: Actor, origin: Origin
    ) -> NewBrowserSession | None:
        """Opens a session unless this sign-in has opened one already, because some providers accept a code
        twice."""
        if not await tx.browser_sessions.use_up(tokens.digest(attempt.state), attempt.ends_at):
            return None
        return await open_as(self._ctx, tx, actor, origin)

    def _require_known(self, name: str) -> None:
        if name not in self.providers:
            raise Missing("Go back to /console and choose a way to sign in: no provider has this name")

    def _read_attempt(self, memory: str) -> SignInAttempt | None:
        try:
            sealed = base64.urlsafe_b64decode(memory + "=" * (-len(memory) % 4))
            return msgspec.json.decode(self._ctx.encryption.decrypt(sealed, *_SEAL_OWNER), type=SignInAttempt)
        except (ValueError, CannotDecrypt, msgspec.DecodeError):
            return None
