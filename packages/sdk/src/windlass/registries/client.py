"""A client of container registries (OCI Distribution), with or without credentials.

If a registry requires authentication, it requests either user name and password (basic), or a token that
another server issues for them (bearer). The credentials are sent to that server only if `may_give_tokens`
confirms that it belongs to the registry.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import (
    AddressRefused,
    HttpResult,
    HttpTransport,
    NoAnswer,
    TlsFailure,
    UnknownName,
)
from windlass.engines.image_names import DOCKER_HUB, is_digest
from windlass.engines.registries import (
    RegistryLogin,
    api_url,
    host_of,
    may_give_tokens,
    repository_of,
)
from windlass.registries.challenge import (
    Allowance,
    RegistryChallenge,
    next_page,
    read_allowance,
    read_challenge,
    wait_of,
)
from windlass.registries.refusals import Problem, RegistryFailure, RegistryFailures

T = TypeVar("T", bound=Struct)

TIMEOUT: Final = 10.0
MAX_ANSWER_BYTES: Final = 1024 * 1024
"""Maximum size of an answer, in bytes; much larger than a page of tags."""
PER_PAGE: Final = 1000
LIST_SECONDS: Final = 60.0
"""Time limit in seconds for all pages of a list."""
MAX_PAGES: Final = 200
"""Maximum number of pages of a list, because a registry may always announce a next page."""
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,254}\Z")
"""Matches valid names of images and tags. Other names in a registry's answers are ignored."""
_LIMIT_IMAGE: Final = "ratelimitpreview/test"
"""An image for which Docker Hub reports the rate limit. A HEAD request is not counted as a pull."""


PauseKey = tuple[str, int]
"""A registry's host, and a hash of the credentials. The hash covers the password, so that a stranger who
knows the user name cannot pause another user's requests."""


class RequestPauses:
    """Stores until when registries with an exhausted rate limit must not be queried."""

    def __init__(self) -> None:
        self._until: dict[PauseKey, float] = {}

    def left(self, key: PauseKey) -> int:
        left = self._until.get(key, 0.0) - time.monotonic()
        if left <= 0:
            self._until.pop(key, None)
        return max(0, round(left))

    def note(self, key: PauseKey, seconds: int) -> None:
        now = time.monotonic()
        self._until = {other: until for other, until in self._until.items() if until > now}
        self._until[key] = time.monotonic() + seconds


class TagsAnswer(Struct):
    tags: list[str] | None = None


class CatalogueAnswer(Struct):
    repositories: list[str] | None = None


class TokenAnswer(Struct):
    token: str = ""
    access_token: str = ""


class RegistryNames(Struct, frozen=True):
    """A list of image names or tags."""

    names: Sequence[str]
    is_complete: bool


class RegistryClient:
    """A client of one registry for one API request. Caches registry tokens during that request."""

    def __init__(
        self,
        transport: HttpTransport,
        kind: str,
        url: str,
        login: RegistryLogin | None,
        pauses: RequestPauses,
        list_seconds: float = LIST_SECONDS,
    ) -> None:
        self._out = transport
        self._kind, self._url = kind, url
        self._login = login
        self._api = api_url(url)
        self._host = host_of(url)
        self._failures = RegistryFailures(self._host, has_login=login is not None)
        self._pauses = pauses
        self._list_seconds = list_seconds
        self._authorization: dict[str, str] = {}
        """Authorization header by scope."""
        self.allowance: Allowance | None = None

    async def check(self) -> None:
        """Checks that a registry answers, and that it accepts the credentials, if any."""
        answer = await self._send("GET", f"{self._api}/v2/", {})
        challenge = _challenge_in(answer)
        if answer.status != 401 or challenge is None:
            self._failures.refuse_non_registry(answer)
            return
        if self._login is None:
            return
        header = await self._authorize(challenge, "")
        answer = await self._send("GET", f"{self._api}/v2/", {"Authorization": header})
        if answer.status != 200:
            raise self._failures.explain(answer, "")
        if self._host == DOCKER_HUB:
            await self._ask_limit()

    async def tags(self, image: str, limit: int) -> RegistryNames:
        """Returns the tags of an image, in the registry's order."""
        name = repository_of(self._url, image)
        path = f"/v2/{name}/tags/list?n={PER_PAGE}"
        return await self._pages(path, f"repository:{name}:pull", image, limit, TagsAnswer)

    async def images(self, limit: int) -> RegistryNames:
        """Returns the names of all images. Many registries do not support this."""
        return await self._pages(
            f"/v2/_catalog?n={PER_PAGE}", "registry:catalog:*", "", limit, CatalogueAnswer
        )

    async def digest(self, image: str, tag: str) -> str:
        """Returns the current digest of a tag. Docker Hub does not count this as a pull."""
        name = repository_of(self._url, image)
        path = f"/v2/{name}/manifests/{quote(tag, safe='')}"
        answer = await self._send_request(
            "HEAD", path, f"repository:{name}:pull", f"{image}:{tag}", MANIFEST_TYPES
        )
        digest = answer.headers.get("docker-content-digest", "")
        if not is_digest(digest):
            raise self._failures.not_a_registry("it returns no digest of an image")
        return digest

    async def manifest(self, name: str, reference: str, accept: str) -> bytes:
        """Returns the manifest of an artifact that is not necessarily an image, by its tag or digest."""
        scope = f"repository:{name}:pull"
        path = f"/v2/{name}/manifests/{quote(reference, safe=':')}"
        return (await self._send_request("GET", path, scope, f"{name}:{reference}", accept)).body

    def blob_request(self, name: str, digest: str) -> tuple[str, Mapping[str, str]]:
        """Returns the address of a blob, and the headers with which its download begins. `manifest` of the
        same artifact comes before, because it gets the authorization."""
        header = self._authorization.get(f"repository:{name}:pull")
        return f"{self._api}/v2/{name}/blobs/{digest}", {"Authorization": header} if header else {}

    async def _ask_limit(self) -> None:
        try:
            await self.digest(_LIMIT_IMAGE, "latest")
        except RegistryFailure as failure:
            if failure.problem is not Problem.UNKNOWN_IMAGE:
                raise

    async def _pages(
        self,
        path: str,
        scope: str,
        image: str,
        limit: int,
        answer_type: type[TagsAnswer] | type[CatalogueAnswer],
    ) -> RegistryNames:
        try:
            async with asyncio.timeout(self._list_seconds):
                return await self._read_pages(path, scope, image, limit, answer_type)
        except TimeoutError as error:
            raise RegistryFailure(
                Problem.UNREACHABLE,
                f"Try again later: {self._host} does not send its list in {self._list_seconds:g} seconds",
            ) from error

    async def _read_pages(
        self,
        path: str,
        scope: str,
        image: str,
        limit: int,
        answer_type: type[TagsAnswer] | type[CatalogueAnswer],
    ) -> RegistryNames:
        names: list[str] = []
        for _ in range(MAX_PAGES):
            answer = await self._send_request("GET", path, scope, image)
            page = self._decode(answer, answer_type)
            listed = (page.tags if isinstance(page, TagsAnswer) else page.repositories) or ()
            names += filter(_NAME_PATTERN.match, listed)
            following = next_page(answer.headers.get("link", ""), self._api)
            if len(names) >= limit:
                return RegistryNames(names[:limit], is_complete=not following and len(names) == limit)
            if following in ("", path):
                return RegistryNames(names, is_complete=True)
            path = following
        return RegistryNames(names, is_complete=False)

    # Single requests, with authentication

    async def _send_request(
        self, method: str, path: str, scope: str, image: str, accept: str = ""
    ) -> HttpResult:
        headers = {"Accept": accept or "application/json"}
        earlier = self._authorization.get(scope)
        url = self._api + path
        answer = await self._send(method, url, {**headers, "Authorization": earlier} if earlier else headers)
        if answer.status == 401 and not earlier and (challenge := _challenge_in(answer)):
            self._authorization[scope] = header = await self._authorize(challenge, scope)
            answer = await self._send(
                method, url, {**headers, "Authorization": header} if header else headers
            )
        if answer.status != 200:
            raise self._failures.explain(answer, image)
        return answer

    async def _authorize(self, challenge: RegistryChallenge, scope: str) -> str:
        """Responds to a challenge. Returns the Authorization header for the next attempt."""
        if challenge.scheme == "basic":
            return _basic_authorization(self._login) if self._login else ""
        if not may_give_tokens(self._kind, self._url, challenge.realm):
            raise RegistryFailure(
                Problem.NOT_A_REGISTRY,
                "Ask the operator of the registry for the address of the registry itself: "
                f"{self._host} sends its login to another server than its own, and Windlass does not send it "
                "there",
            )
        headers = {"Authorization": _basic_authorization(self._login)} if self._login else {}
        answer = await self._send("GET", challenge.token_url(scope), headers)
        if answer.status in (400, 401, 403):
            raise self._failures.login_failure()
        if answer.status != 200:
            raise self._failures.explain(answer, "")
        token = self._decode(answer, TokenAnswer)
        if not (value := token.token or token.access_token):
            raise self._failures.not_a_registry("the server for its logins gives no token")
        return f"Bearer {value}"

    async def _send(self, method: str, url: str, headers: Mapping[str, str]) -> HttpResult:
        key = (self._host, hash(self._login))
        if left := self._pauses.left(key):
            raise self._failures.limit_failure(left)
        try:
            answer = await self._out.send(method, url, b"", headers, seconds=TIMEOUT, limit=MAX_ANSWER_BYTES)
        except AddressRefused as error:
            raise RegistryFailure(Problem.ADDRESS, str(error)) from error
        except UnknownName as error:
            raise RegistryFailure(Problem.NAME, f"Check the address. {error}") from error
        except TlsFailure as error:
            raise RegistryFailure(
                Problem.TLS,
                "Give the registry a certificate of an authority that Windlass knows, or ask the operator to "
                f"add its authority with the setting outbound_ca_file. {error}",
            ) from error
        except NoAnswer as error:
            raise RegistryFailure(
                Problem.UNREACHABLE, f"Check the address, and try again. {error}"
            ) from error
        self.allowance = read_allowance(answer.headers) or self.allowance
        if answer.status == 429:
            wait = wait_of(answer.headers, time.time())
            self._pauses.note(key, wait)
            raise self._failures.limit_failure(wait)
        return answer

    def _decode(self, answer: HttpResult, answer_type: type[T]) -> T:
        if answer.cut:
            raise self._failures.not_a_registry(f"its answer is longer than {MAX_ANSWER_BYTES} bytes")
        try:
            return read_json(answer.body, answer_type)
        except BadJson as error:
            raise self._failures.not_a_registry("its answer is not JSON of the expected form") from error


def _challenge_in(answer: HttpResult) -> RegistryChallenge | None:
    return read_challenge(answer.headers.get("www-authenticate", ""))


def _basic_authorization(login: RegistryLogin) -> str:
    return "Basic " + base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
