"""Asks a provider for a person, as far as OpenID Connect and GitHub have it in common: attempts, failures,
and the exchange of a code."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import AddressRefused, HttpResult
from windlass.base.log import log
from windlass.config import Settings
from windlass.config.settings import KNOWN_PROVIDERS, OidcProvider
from windlass.control.context.context import Context
from windlass.control.people.claims import Claims

_IS_AWAY: Final = {"server_error", "temporarily_unavailable"}
_IS_REFUSAL: Final = {
    "access_denied",
    "account_selection_required",
    "bad_verification_code",
    "consent_required",
    "interaction_required",
    "invalid_grant",
    "login_required",
}
"""Errors that concern the person or one attempt. Other errors are caused by the settings or the provider."""
_IS_OF_CLIENT: Final = {
    "Not Found",  # GitHub, for an unknown client id
    "application_suspended",
    "incorrect_client_credentials",
    "invalid_client",
    "redirect_uri_mismatch",
    "unauthorized_client",
}
"""Errors that the client id, the secret or the callback address in the settings cause."""
_LACKS_EMAIL: Final = "unverified_user_email"
_MAX_COMPLAINT_LENGTH: Final = 200
_log = log("sign-in")


class SignInFailed(Exception):
    """Raised if no session was opened. `word` is the reason for the console."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.word = reason


class SignInAttempt(Struct, frozen=True):
    """A sign-in that has begun. The browser keeps it in an encrypted cookie."""

    provider: str
    state: str
    nonce: str
    verifier: str
    ends_at: int


class ProviderProtocol(Protocol):
    """How a provider is asked who a person is."""

    async def page(self, attempt: SignInAttempt) -> str:
        """Returns the URL of the provider's page. Raises SignInFailed."""

    async def claims(self, code: str, attempt: SignInAttempt) -> list[Claims]:
        """Returns what the provider says about the person: once for each verified e-mail address, the
        primary address first. Raises SignInFailed."""


class _ProviderError(Struct, frozen=True):
    """An error response of a provider, in the terms of RFC 6749 and OpenID Connect."""

    error: str = ""
    error_description: str = ""


class ShownProvider(Struct, frozen=True):
    name: str
    title: str
    callback_url: str
    is_set_up: bool


def callback_url(url: str, name: str) -> str:
    """Returns the address to which a provider leads people back. `url`: the address of this server."""
    return f"{url}/account/signInProvider/{name}/answer"


def shown_providers(settings: Settings) -> list[ShownProvider]:
    """Returns the providers of the settings, and those that need only a client id and a secret."""
    present = {provider.name: provider.title for provider in settings.oidc_providers}
    known = {kind: known.title for kind, known in KNOWN_PROVIDERS.items()}
    return [
        ShownProvider(name, title, callback_url(settings.url, name), name in present)
        for name, title in (
            present | {name: title for name, title in known.items() if name not in present}
        ).items()
    ]


def page_url(
    ctx: Context,
    provider: OidcProvider,
    address: str,
    attempt: SignInAttempt,
    extra_parameters: Mapping[str, str],
) -> str:
    """Returns the URL of the provider's page, with the challenge of the attempt (RFC 7636).
    `extra_parameters`: further parameters."""
    question = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": callback_url(ctx.settings.url, provider.name),
        "scope": provider.scopes,
        "state": attempt.state,
        "code_challenge": to_base64url(hashlib.sha256(attempt.verifier.encode()).digest()),
        "code_challenge_method": "S256",
        **extra_parameters,
    }
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(question)}"


async def exchange_code(
    ctx: Context,
    provider: OidcProvider,
    address: str,
    code: str,
    attempt: SignInAttempt,
    extra_parameters: Mapping[str, str],
    headers: Mapping[str, str],
) -> HttpResult:
    """Sends the code to the provider. Returns the answer, which is a success. `extra_parameters`: further
    fields."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback_url(ctx.settings.url, provider.name),
        "code_verifier": attempt.verifier,
        **extra_parameters,
    }
    sent = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **headers}
    answer = await ask(ctx, provider, "POST", address, urlencode(form).encode(), sent)
    complaint = _complaint_in(answer.body)
    # GitHub answers 200 to a wrong code.
    if answer.status != 200 or complaint.error:
        raise failure(provider, complaint.error, complaint.error_description, answer.status)
    return answer


async def ask(
    ctx: Context,
    provider: OidcProvider,
    method: str,
    address: str,
    body: bytes,
    headers: Mapping[str, str],
) -> HttpResult:
    """Sends a request to a provider. Returns the answer with any status."""
    try:
        return await ctx.out.send(method, address, body, headers)
    except OSError as error:
        _log.warning("a provider does not answer: %s", error, extra={"provider": provider.name})
        raise SignInFailed(word_of(error)) from error


def word_of(error: BaseException | None) -> str:
    """Returns the reason for the console after a failed request to a provider.

    An address that the settings do not allow is "broken" and not "unreachable", because another attempt would
    fail too.
    """
    is_unavailable = isinstance(error, OSError) and not isinstance(error, AddressRefused)
    return "unreachable" if is_unavailable else "broken"


def failure(provider: OidcProvider, error: str, description: str, status: int = 0) -> SignInFailed:
    """Logs a provider's error, and returns the exception with the reason for the console.

    `status`: the HTTP status of the provider's response; 0 if the error came with the browser's redirect.
    """
    extra = {
        "provider": provider.name,
        "status": status,
        "error": error[:_MAX_COMPLAINT_LENGTH],
        "description": description[:_MAX_COMPLAINT_LENGTH],
    }
    _log.warning("a provider ends a sign-in", extra=extra)
    if status >= 500 or error in _IS_AWAY:
        return SignInFailed("unreachable")
    if error in _IS_OF_CLIENT:
        return SignInFailed("client")
    if error == _LACKS_EMAIL:
        return SignInFailed("no_email")
    return SignInFailed("refused" if error in _IS_REFUSAL else "broken")


def _complaint_in(body: bytes) -> _ProviderError:
    try:
        return read_json(body, _ProviderError)
    except BadJson:
        return _ProviderError()


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
