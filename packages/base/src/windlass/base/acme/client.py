"""The client of one account at one authority. Each method is one step of an order, and may be repeated.

Requests have a nonce each. A nonce that the authority does not know any more is replaced, and the request is
sent again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from windlass.base.acme.documents import (
    AcmeChallenge,
    AcmeOrder,
    AcmeProblem,
    Authorization,
    Directory,
    RenewalInfo,
)
from windlass.base.acme.signing import AccountKey, ExternalAccount
from windlass.base.http_out import AddressRefused, HttpResult, HttpTransport, NoAnswer

T = TypeVar("T")

MAX_NONCE_ATTEMPTS: Final = 5
"""How often a request is sent whose nonce is refused."""
_MAX_CHAIN_BYTES: Final = 256 * 1024
_MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
_JOSE: Final = "application/jose+json"
_SECONDS_PATTERN: Final = re.compile(r"[0-9]{1,9}")


class AcmeUnavailable(Exception):
    """The authority did not answer, or not as ACME says. The request may be repeated later."""


class AcmeRefusal(Exception):
    """The authority refused a request. The message is in its own words."""

    def __init__(self, problem: AcmeProblem, retry_after: float = 0.0) -> None:
        super().__init__(problem.message or "the authority refuses the request")
        self.problem = problem
        self.retry_after = retry_after
        """The seconds until the request may be repeated; 0 if the authority does not say."""

    @property
    def is_limit(self) -> bool:
        return self.problem.name == "rateLimited" or self.problem.status == 429

    @property
    def is_internal(self) -> bool:
        """Whether the authority has failed, and not the request."""
        return self.problem.name == "serverInternal" or self.problem.status >= 500


class AcmeClient:
    def __init__(self, transport: HttpTransport, directory: str, key: bytes, account: str = "") -> None:
        self._out = transport
        self._directory_url = directory
        self.key = AccountKey(key)
        self.account = account
        """The address of the account; empty until it is opened."""
        self._directory: Directory | None = None
        self._nonces: list[str] = []

    async def open_account(self, email: str = "", external: ExternalAccount | None = None) -> str:
        """Opens the account of this key, or finds it again. Returns its address."""
        directory = await self.directory()
        if directory.meta.externalAccountRequired and external is None:
            raise AcmeRefusal(
                AcmeProblem(
                    detail="This authority wants an account of its website (EAB): the operator of Windlass "
                    "names its key in the settings"
                )
            )
        body: dict[str, object] = {"termsOfServiceAgreed": True}
        if email:
            body["contact"] = [f"mailto:{email}"]
        if external is not None:
            body["externalAccountBinding"] = self.key.bind(external, directory.newAccount)
        answer = await self._post(directory.newAccount, body)
        self.account = _location_header(answer)
        return self.account

    async def place_order(self, name: str, replaces: str = "") -> AcmeOrder:
        """Orders a certificate for one name. `replaces` is the ARI id of the certificate that it renews."""
        directory = await self.directory()
        body: dict[str, object] = {"identifiers": [{"type": "dns", "value": name}]}
        if replaces and directory.renewalInfo:
            body["replaces"] = replaces
        answer = await self._post(directory.newOrder, body)
        return replace(_read(answer, AcmeOrder), url=_location_header(answer))

    async def order(self, url: str) -> AcmeOrder:
        answer = await self._post(url, None)
        return replace(_read(answer, AcmeOrder), url=url, retry_after=_retry_after(answer))

    async def authorization(self, url: str) -> Authorization:
        return _read(await self._post(url, None), Authorization)

    async def respond(self, challenge: AcmeChallenge) -> None:
        """Asks the authority to look at the answer to a challenge."""
        await self._post(challenge.url, {})

    async def finalize(self, order: AcmeOrder, request: str) -> AcmeOrder:
        """Sends the certificate request of an order that is ready. `request` is the CSR in Base64url."""
        answer = await self._post(order.finalize, {"csr": request})
        return replace(_read(answer, AcmeOrder), url=order.url, retry_after=_retry_after(answer))

    async def chain(self, order: AcmeOrder) -> str:
        """Returns the certificate and its chain in PEM."""
        answer = await self._post(order.certificate, None, limit=_MAX_CHAIN_BYTES)
        return answer.body.decode("ascii", "replace")

    async def renewal_info(self, id: str) -> RenewalInfo | None:
        """Returns when a certificate should be renewed; None if the authority does not say. `id` is its ARI
        id."""
        directory = await self.directory()
        if not directory.renewalInfo:
            return None
        answer = await self._send("GET", f"{directory.renewalInfo.rstrip('/')}/{id}")
        if answer.status == 404:
            return None
        return replace(_read(_require_success(answer), RenewalInfo), retry_after=_retry_after(answer))

    async def directory(self) -> Directory:
        if self._directory is None:
            self._directory = _read(_require_success(await self._send("GET", self._directory_url)), Directory)
        return self._directory

    async def _post(self, url: str, payload: Mapping[str, object] | None, *, limit: int = 0) -> HttpResult:
        for attempt in range(MAX_NONCE_ATTEMPTS):
            body = self.key.sign(url, await self._nonce(), payload, self.account)
            answer = await self._send("POST", url, body, limit=limit)
            if (nonce := answer.headers.get("replay-nonce")) and len(self._nonces) < MAX_NONCE_ATTEMPTS:
                self._nonces.append(nonce)
            try:
                return _require_success(answer)
            except AcmeRefusal as refusal:
                if refusal.problem.name != "badNonce" or attempt == MAX_NONCE_ATTEMPTS - 1:
                    raise
        raise AssertionError  # the last attempt returns or raises

    async def _nonce(self) -> str:
        if self._nonces:
            return self._nonces.pop()
        answer = await self._send("HEAD", (await self.directory()).newNonce)
        nonce = answer.headers.get("replay-nonce", "")
        if not nonce:
            raise AcmeUnavailable("The authority gives no nonce.")
        return nonce

    async def _send(self, method: str, url: str, body: bytes = b"", *, limit: int = 0) -> HttpResult:
        headers = {"Content-Type": _JOSE} if body else {}
        limits: dict[str, Any] = {"limit": limit} if limit else {}
        try:
            return await self._out.send(method, url, body, headers, **limits)
        except (NoAnswer, AddressRefused) as error:
            raise AcmeUnavailable(f"The authority cannot be asked: {error}") from error


def _require_success(answer: HttpResult) -> HttpResult:
    """Returns a successful answer. Raises AcmeRefusal with the words of the authority, or AcmeUnavailable."""
    if 200 <= answer.status < 300:
        return answer
    try:
        problem = msgspec.json.decode(answer.body, type=AcmeProblem)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise AcmeUnavailable(f"The authority answers {answer.status}.") from error
    if answer.status >= 500 and problem.name in {"", "serverInternal"} and not problem.detail:
        raise AcmeUnavailable(f"The authority answers {answer.status}.")
    problem = problem if problem.status else replace(problem, status=answer.status)
    raise AcmeRefusal(problem, _retry_after(answer))


def _read(answer: HttpResult, struct: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.body, type=struct)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise AcmeUnavailable("The authority answers something that is no document of ACME.") from error


def _location_header(answer: HttpResult) -> str:
    address = answer.headers.get("location", "")
    if not address:
        raise AcmeUnavailable("The authority does not say where what it has made is.")
    return address


def _retry_after(answer: HttpResult) -> float:
    """Returns the seconds that the authority asks to wait; 0 without such a header. Dates are not read."""
    text = answer.headers.get("retry-after", "").strip()
    return min(float(text), _MAX_RETRY_AFTER_SECONDS) if _SECONDS_PATTERN.fullmatch(text) else 0.0
