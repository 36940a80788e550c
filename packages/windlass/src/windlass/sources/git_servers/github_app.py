"""Tokens of the installations of GitHub Apps.

An app signs a statement with its private key, for which GitHub gives a token that is valid for an hour, for
the repositories of one installation only.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections import OrderedDict
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import AddressRefused, HttpTransport, NoAnswer
from windlass.base.lazy import lazy_pattern
from windlass.sources.git_servers.failures import GitServerFailure, GitServerProblem, explain_refusal

_TOKEN_LIFETIME_SECONDS: Final = 50 * 60.0
"""A token is valid for 60 minutes."""
_REFUSAL_SECONDS: Final = 30.0
"""Seconds for which GitHub is not asked again after a refusal."""
_BACKDATED_SECONDS, _STATEMENT_SECONDS = 60, 9 * 60
"""A statement begins a minute ago, because clocks differ, and GitHub takes none that lasts over ten
minutes."""
_MAX_KEPT: Final = 1000
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_TIMEOUT: Final = 10.0
_MIN_KEY_BITS, _MAX_KEY_BITS = 2048, 4096
_TOKEN_PATTERN: Final = lazy_pattern(r"[!-~]{1,2048}")


class AppInstallation(Struct, frozen=True):
    """An installation of a GitHub App. The private key of the app is the token of the access."""

    app_id: str
    installation_id: str


class _InstallationToken(Struct):
    token: str


class _Kept(Struct):
    lock: asyncio.Lock
    token: str = ""
    ends: float = 0.0
    failure: GitServerFailure | None = None


class InstallationTokens:
    """The tokens of installations that are valid now. Each is asked for once, however many wait for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def get(self, transport: HttpTransport, api_url: str, app: AppInstallation, key: str) -> str:
        """Raises GitServerFailure."""
        mark = sha256("\0".join((api_url, app.app_id, app.installation_id, key)).encode()).hexdigest()
        kept = self._kept.setdefault(mark, _Kept(asyncio.Lock()))
        self._kept.move_to_end(mark)
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        async with kept.lock:
            if time.monotonic() >= kept.ends:
                await _renew(kept, transport, api_url, app, key)
            if kept.failure is not None:
                raise GitServerFailure(kept.failure.problem, str(kept.failure), kept.failure.retry_after)
            return kept.token


async def _renew(kept: _Kept, transport: HttpTransport, api_url: str, app: AppInstallation, key: str) -> None:
    try:
        token = await _ask(transport, api_url, app, key)
    except GitServerFailure as failure:
        kept.failure, kept.ends = failure, time.monotonic() + _REFUSAL_SECONDS
    else:
        kept.token, kept.failure, kept.ends = token, None, time.monotonic() + _TOKEN_LIFETIME_SECONDS


async def _ask(transport: HttpTransport, api_url: str, app: AppInstallation, key: str) -> str:
    host = api_url.split("/", 3)[2]
    # Reading a key takes some milliseconds.
    statement = await asyncio.to_thread(write_statement, app.app_id, key, int(time.time()))
    url = f"{api_url.rstrip('/')}/app/installations/{app.installation_id}/access_tokens"
    headers = {"Authorization": f"Bearer {statement}", "Accept": "application/vnd.github+json"}
    try:
        answer = await transport.send("POST", url, b"", headers, seconds=_TIMEOUT, limit=_MAX_ANSWER_BYTES)
    except AddressRefused as error:
        raise GitServerFailure(GitServerProblem.ADDRESS, f"git_api_url: {error}") from error
    except NoAnswer as error:
        raise GitServerFailure(
            GitServerProblem.UNREACHABLE, f"Check git_api_url, or try again later: {error}"
        ) from error
    if answer.status == 401:
        raise GitServerFailure(
            GitServerProblem.LOGIN,
            f"Check github_app_id, the private key in token, and the clock: {host} does not take what the "
            "key signs",
        )
    if answer.status == 404:
        raise GitServerFailure(
            GitServerProblem.UNKNOWN,
            f"Check github_installation_id: {host} knows no such installation of the app",
        )
    if answer.status != 201:
        raise explain_refusal(host, answer, time.time())
    try:
        token = read_json(answer.body, _InstallationToken).token
    except BadJson:
        token = ""
    if not _TOKEN_PATTERN.fullmatch(token):
        raise GitServerFailure(
            GitServerProblem.NOT_A_SERVER, f"Check git_api_url: {host} does not answer as GitHub does"
        )
    return token


def write_statement(app_id: str, key: str, now: int) -> str:
    """Returns a JSON Web Token that says who the app is. Raises GitServerFailure if the key is none."""
    # Heavy, and needed only for apps.
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError) as error:
        raise _no_key() from error
    if not isinstance(private, RSAPrivateKey) or not _MIN_KEY_BITS <= private.key_size <= _MAX_KEY_BITS:
        raise _no_key()
    claims = {"iat": now - _BACKDATED_SECONDS, "exp": now + _STATEMENT_SECONDS, "iss": app_id}
    signed = f"{_HEADER}.{_encoded(msgspec.json.encode(claims))}"
    return f"{signed}.{_encoded(private.sign(signed.encode(), PKCS1v15(), SHA256()))}"


def _no_key() -> GitServerFailure:
    return GitServerFailure(
        GitServerProblem.LOGIN,
        "Paste the private key of the GitHub App into token, from -----BEGIN to the end: what is there is no "
        "RSA key without a password",
    )


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_HEADER: Final = _encoded(msgspec.json.encode({"alg": "RS256", "typ": "JWT"}))
