"""Sign-in through OpenID Connect providers with the code flow and PKCE (RFC 7636), performed by the server.

The state between the two requests is in an encrypted cookie that only this server can read.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from windlass.base import tokens
from windlass.base.clock import MINUTE, SECOND
from windlass.base.encryption import CannotDecrypt
from windlass.base.errors import Missing, Unauthorized
from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import AddressRefused
from windlass.base.log import log
from windlass.config import BadSetting
from windlass.config.settings import OidcProvider
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.people.authenticate import Authenticator, NoMember
from windlass.control.people.browser_sessions import NewBrowserSession, open_as
from windlass.control.people.claims import Claims
from windlass.core.access import Actor
from windlass.store import Tx

if TYPE_CHECKING:
    from windlass.base.oidc import Verifier

_LASTS: Final = 10 * MINUTE
_OWNER: Final = ("sign-in",)
_IS_AWAY: Final = {"server_error", "temporarily_unavailable"}
_IS_REFUSAL: Final = {
    "access_denied",
    "account_selection_required",
    "consent_required",
    "interaction_required",
    "invalid_grant",
    "login_required",
}
"""Errors that concern the person or one attempt. Other errors are caused by the settings or the provider."""
_LONGEST_COMPLAINT: Final = 200
_REFETCH: Final = 3.0
"""Seconds between two attempts to fetch a provider's keys. A short time is safe, because the tokens come
directly from the provider, and strangers cannot trigger the fetching."""
_log = log("sign-in")


class SignInFailed(Exception):
    """Raised if no session was opened. `word` is the reason for the console."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


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


class _SignInState(Struct, frozen=True):
    provider: str
    state: str
    nonce: str
    verifier: str
    ends_at: int


class _Endpoints(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str


class _Grant(Struct, frozen=True):
    id_token: str


class _ProviderError(Struct, frozen=True):
    """An error response of a provider, in the terms of RFC 6749 and OpenID Connect."""

    error: str = ""
    error_description: str = ""


class SignIn:
    """Sign-in with the OpenID Connect providers of the settings."""

    def __init__(self, ctx: Context, authenticator: Authenticator) -> None:
        self._ctx, self._authenticator = ctx, authenticator
        self.providers = {provider.name: provider for provider in ctx.settings.oidc_providers}
        if len(self.providers) < len(ctx.settings.oidc_providers):
            raise BadSetting("oidc_providers: two have the same name")
        for provider in self.providers.values():
            if not provider.issuer.startswith(("https://", "http://")):
                raise BadSetting(f"oidc_providers: the issuer of {provider.name} must begin with https://")
        self._verifiers: dict[str, Verifier] = {}

    async def start(self, name: str) -> BegunSignIn:
        """Begins a sign-in. Returns the URL of the provider's page and the state for the cookie."""
        provider = self._provider(name)
        endpoints = await self._endpoints(provider)
        verifier = secrets.token_urlsafe(48)
        memory = _SignInState(
            name,
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(24),
            verifier,
            self._ctx.clock.now() + _LASTS,
        )
        question = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": self._answer_url(name),
            "scope": provider.scopes,
            "state": memory.state,
            "nonce": memory.nonce,
            "code_challenge": _to_base64url(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(endpoints.authorization_endpoint).query else "?"
        url = f"{endpoints.authorization_endpoint}{joint}{urlencode(question)}"
        return BegunSignIn(
            url, _to_base64url(self._ctx.encryption.encrypt(msgspec.json.encode(memory), *_OWNER))
        )

    async def finish(
        self, name: str, answer: ProviderAnswer, memory: str, origin: Origin
    ) -> NewBrowserSession:
        """Opens a session after the provider has redirected the browser back. Raises SignInFailed."""
        provider, kept = self._provider(name), self._read_state(memory)
        is_ours = kept is not None and kept.provider == name and kept.ends_at > self._ctx.clock.now()
        if (
            kept is None
            or not is_ours
            or not secrets.compare_digest(kept.state.encode(), answer.state.encode())
        ):
            raise SignInFailed("lost")
        if not answer.code:
            complaint = _ProviderError(answer.error or "access_denied", answer.error_description)
            raise _failure(provider, complaint)
        claims = await self._claims(provider, answer.code, kept)
        try:
            actor = await self._authenticator.person(claims)
        except NoMember as refusal:
            self._authenticator.security_events.record_denied(refusal.caller, refusal.why, origin)
            extra = {"provider": name, "caller": refusal.caller.name, "address": origin.address}
            _log.info("a person who is not a member tried to sign in", extra=extra)
            raise SignInFailed("no_member") from refusal
        except Unauthorized as refusal:
            _log.warning("a provider's claims are refused: %s", refusal, extra={"provider": name})
            raise SignInFailed("broken") from refusal
        session = await self._ctx.store.write(lambda tx: self._open_once(tx, kept, actor, origin))
        if session is None:
            raise SignInFailed("lost")
        return session

    async def _open_once(
        self, tx: Tx, kept: _SignInState, actor: Actor, origin: Origin
    ) -> NewBrowserSession | None:
        """Opens a session unless this sign-in has opened one already, because some providers accept a code
        twice."""
        if not await tx.browser_sessions.use_up(tokens.digest(kept.state), kept.ends_at):
            return None
        return await open_as(self._ctx, tx, actor, origin)

    async def _claims(self, provider: OidcProvider, code: str, kept: _SignInState) -> Claims:
        """Exchanges the code for the person's claims, and verifies the provider's signature."""
        from windlass.base.issuer_keys import (  # noqa: PLC0415 (costs 100 ms; only sign-ins need it)
            IssuerUnreachable,
            TokenOutOfTime,
            TokenRefused,
        )

        token = await self._exchange(provider, code, kept)
        try:
            verified = await self._verifier(provider).verify(token)
        except IssuerUnreachable as error:
            raise SignInFailed(_word_of(error.__cause__)) from error
        except TokenRefused as error:
            _log.warning("a provider's token is refused: %s", error, extra={"provider": provider.name})
            raise SignInFailed("clock" if isinstance(error, TokenOutOfTime) else "refused") from error
        # OpenID Connect Core 3.1.3.7: if a token has several audiences, `azp` is the one it was issued to.
        audiences = verified.get("aud")
        needs_azp = "azp" in verified or (isinstance(audiences, list) and len(audiences) > 1)
        wanted = {"nonce": kept.nonce} | ({"azp": provider.client_id} if needs_azp else {})
        for claim, value in wanted.items():
            if verified.get(claim) != value:
                message = "a provider's token is refused: its %s is of another sign-in"
                _log.warning(message, claim, extra={"provider": provider.name})
                raise SignInFailed("refused")
        return msgspec.convert(verified, Claims)

    async def _exchange(self, provider: OidcProvider, code: str, kept: _SignInState) -> str:
        endpoints = await self._endpoints(provider)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._answer_url(provider.name),
            "code_verifier": kept.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if provider.client_secret:
            pair = f"{quote(provider.client_id, safe='')}:{quote(provider.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = provider.client_id
        try:
            answer = await self._ctx.out.send(
                "POST", endpoints.token_endpoint, urlencode(form).encode(), headers
            )
        except OSError as error:
            _log.warning("a provider does not answer: %s", error, extra={"provider": provider.name})
            raise SignInFailed(_word_of(error)) from error
        if answer.status != 200:
            complaint = _provider_error_in(answer.body)
            raise _failure(provider, complaint, answer.status)
        try:
            return read_json(answer.body, _Grant).id_token
        except BadJson as error:
            _log.warning("a provider answers no token: %s", error, extra={"provider": provider.name})
            raise SignInFailed("broken") from error

    async def _endpoints(self, provider: OidcProvider) -> _Endpoints:
        """Returns the endpoints that the provider publishes. They are fetched for each sign-in, because they
        may change."""
        address = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            endpoints = read_json(await self._authenticator.fetch(address), _Endpoints)
        except (OSError, ValueError) as error:
            _log.warning("a provider cannot be read: %s", error, extra={"provider": provider.name})
            raise SignInFailed(_word_of(error)) from error
        wanted = (endpoints.authorization_endpoint, endpoints.token_endpoint)
        if endpoints.issuer != provider.issuer:
            extra = {"provider": provider.name, "issuer": endpoints.issuer[:_LONGEST_COMPLAINT]}
            _log.warning("a provider publishes another issuer", extra=extra)
            raise SignInFailed("broken")
        if not all(_is_as_safe(endpoint, provider.issuer) for endpoint in wanted):
            _log.warning("a provider publishes an endpoint without https", extra={"provider": provider.name})
            raise SignInFailed("broken")
        return endpoints

    def _verifier(self, provider: OidcProvider) -> Verifier:
        from windlass.base.oidc import TokenIssuer, Verifier  # noqa: PLC0415 (see above)

        if provider.name not in self._verifiers:
            clock = self._ctx.clock
            issuer = TokenIssuer(issuer=provider.issuer, audiences=(provider.client_id,))
            self._verifiers[provider.name] = Verifier(
                [issuer],
                self._authenticator.fetch,
                lambda: clock.now() / SECOND,
                refetch_every=_REFETCH,
            )
        return self._verifiers[provider.name]

    def _provider(self, name: str) -> OidcProvider:
        if name not in self.providers:
            raise Missing("Go back to /console and choose a way to sign in: no provider has this name")
        return self.providers[name]

    def _read_state(self, memory: str) -> _SignInState | None:
        try:
            sealed = base64.urlsafe_b64decode(memory + "=" * (-len(memory) % 4))
            return msgspec.json.decode(self._ctx.encryption.decrypt(sealed, *_OWNER), type=_SignInState)
        except (ValueError, CannotDecrypt, msgspec.DecodeError):
            return None

    def _answer_url(self, name: str) -> str:
        return f"{self._ctx.settings.url}/account/signInProvider/{name}/answer"


def _word_of(error: BaseException | None) -> str:
    """Returns the reason for the console after a failed request to a provider.

    An address that the settings do not allow is "broken" and not "unreachable", because another attempt would
    fail too.
    """
    is_unavailable = isinstance(error, OSError) and not isinstance(error, AddressRefused)
    return "unreachable" if is_unavailable else "broken"


def _provider_error_in(body: bytes) -> _ProviderError:
    try:
        return read_json(body, _ProviderError)
    except BadJson:
        return _ProviderError()


def _failure(provider: OidcProvider, complaint: _ProviderError, status: int = 0) -> SignInFailed:
    """Logs a provider's error, and returns the exception with the reason for the console.

    `status`: the HTTP status of the provider's response; 0 if the error came with the browser's redirect.
    """
    extra = {
        "provider": provider.name,
        "status": status,
        "error": complaint.error[:_LONGEST_COMPLAINT],
        "description": complaint.error_description[:_LONGEST_COMPLAINT],
    }
    _log.warning("a provider ends a sign-in", extra=extra)
    if status >= 500 or complaint.error in _IS_AWAY:
        return SignInFailed("unreachable")
    return SignInFailed("refused" if complaint.error in _IS_REFUSAL else "broken")


def _is_as_safe(endpoint: str, issuer: str) -> bool:
    """Returns whether the code and the client secret may be sent to an endpoint: with https, or with http if
    the issuer itself uses http."""
    schemes = ("https://", "http://") if issuer.startswith("http://") else ("https://",)
    return endpoint.startswith(schemes) and endpoint.isprintable() and endpoint.isascii()


def _to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
