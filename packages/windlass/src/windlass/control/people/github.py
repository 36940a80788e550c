"""Asks GitHub for a person. GitHub has OAuth 2 without OpenID Connect: the account and its e-mail addresses
are read with an access token, which is then forgotten."""

from __future__ import annotations

import re
from typing import Final, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.log import log
from windlass.config.settings import KNOWN_PROVIDERS, OidcProvider
from windlass.control.context.context import Context
from windlass.control.people.claims import Claims
from windlass.control.people.provider_protocol import (
    SignInAttempt,
    SignInFailed,
    ask,
    exchange_code,
    failure,
    page_url,
)

_TOKEN_PATTERN: Final = re.compile(r"[\x21-\x7e]{1,1024}")
_MAX_ADDRESSES: Final = 20
_OWN_HOSTS: Final = ".ghe.com"
"""Hosts of companies whose data GitHub keeps in one region."""
_log = log("sign-in")
T = TypeVar("T")


class _AccessGrant(Struct, frozen=True):
    access_token: str


class _Account(Struct, frozen=True):
    id: int
    """It stays when the account is renamed. The name of a deleted account can be taken by others."""
    name: str | None = None


class _Address(Struct, frozen=True):
    email: str
    verified: bool
    primary: bool = False


class GitHub:
    def __init__(self, ctx: Context, provider: OidcProvider) -> None:
        self._ctx, self._provider = ctx, provider
        self._api = _api_of(provider.issuer)

    async def page(self, attempt: SignInAttempt) -> str:
        address = f"{self._provider.issuer}/login/oauth/authorize"
        return page_url(self._ctx, self._provider, address, attempt, {})

    async def claims(self, code: str, attempt: SignInAttempt) -> list[Claims]:
        provider = self._provider
        client = {"client_id": provider.client_id, "client_secret": provider.client_secret}
        address = f"{provider.issuer}/login/oauth/access_token"
        answer = await exchange_code(self._ctx, provider, address, code, attempt, client, {})
        token = self._read(answer.body, _AccessGrant).access_token
        if not _TOKEN_PATTERN.fullmatch(token):
            raise self._broken("its access token is none")
        account = await self._get("/user", token, _Account)
        if account.id <= 0:
            raise self._broken("the account has no id")
        found = await self._get("/user/emails?per_page=100", token, list[_Address])
        verified = sorted((each for each in found if each.verified), key=lambda each: not each.primary)
        bare = Claims(provider.issuer, str(account.id), 0, account.name)
        return [
            Claims(bare.iss, bare.sub, 0, bare.name, each.email, email_verified=True)
            for each in verified[:_MAX_ADDRESSES]
        ] or [bare]

    async def _get(self, path: str, token: str, struct_type: type[T]) -> T:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        answer = await ask(self._ctx, self._provider, "GET", f"{self._api}{path}", b"", headers)
        if answer.status != 200:
            raise failure(self._provider, "", f"{path} answers {answer.status}", answer.status)
        return self._read(answer.body, struct_type)

    def _read(self, body: bytes, struct_type: type[T]) -> T:
        try:
            return read_json(body, struct_type)
        except BadJson as error:
            raise self._broken(str(error)) from error

    def _broken(self, reason: str) -> SignInFailed:
        _log.warning("a provider's answer is refused: %s", reason, extra={"provider": self._provider.name})
        return SignInFailed("broken")


def _api_of(address: str) -> str:
    """Returns the address of the API of GitHub, or of an installation of one's own."""
    if address == KNOWN_PROVIDERS["github"].address:
        return "https://api.github.com"
    parts = urlsplit(address)
    if (parts.hostname or "").endswith(_OWN_HOSTS):
        return f"{parts.scheme}://api.{parts.netloc}"
    return f"{address}/api/v3"
