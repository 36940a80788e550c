"""A client of the APIs of git servers: GitHub, GitLab, Gitea with Forgejo, and Bitbucket.

A token is sent only to the host of its API. Pages are followed only there, and are limited in number, size
and time. Answers are asked for again with their ETag, and a git server that wants no requests gets none.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from windlass.base.foreign_json import BadJson
from windlass.base.http_out import AddressRefused, HttpResult, HttpTransport, NoAnswer
from windlass.base.http_out.url import parse_url
from windlass.registries.client import RequestPauses
from windlass.sources.git_servers.failures import (
    GitServerFailure,
    GitServerProblem,
    explain_refusal,
    rate_limit_failure,
    rate_limit_wait,
)
from windlass.sources.git_servers.forms import InstalledWebhook, ServerForm, ServerRepository, form_of
from windlass.sources.git_servers.github_app import AppInstallation, InstallationTokens
from windlass.sources.git_servers.pull_requests import (
    Comment,
    CommitState,
    OpenPullRequest,
    PullRequestCall,
    PullRequestForm,
    SentComment,
    pull_form_of,
)

T = TypeVar("T")

TIMEOUT: Final = 10.0
LIST_SECONDS: Final = 30.0
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of an answer, in bytes; larger than a page of repositories."""
MAX_PAGES: Final = 50
MAX_ENTRIES: Final = 5000
"""Maximum number of entries of a list."""
MAX_CACHED_ANSWERS: Final = 200
MAX_CACHED_BYTES: Final = 16 * 1024 * 1024
"""Limits of the answers that are kept with their ETags, in entries and bytes."""
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_.~{}-]+(/[A-Za-z0-9_.~{}-]+){1,20}\Z")
_MAX_NAME_LENGTH: Final = 400
WHOLE_LENGTHS: Final = frozenset({40, 64})
"""The lengths of the whole id of a commit."""
_NO_LIST: Final = b"null"
"""What Gitea answers for the branches of a repository without commits."""
_NEXT_PATTERN: Final = re.compile(r'<([^<>]*)>\s*;[^<>]*\brel="?next"?', re.IGNORECASE)


class GitServerAccess(Struct, frozen=True):
    """The API of a git server, and the token for it."""

    kind: str
    api_url: str
    token: str
    """With an app, its private key."""
    workspace: str = ""
    app: AppInstallation | None = None

    def __repr__(self) -> str:
        return f"GitServerAccess({self.kind!r}, {self.api_url!r}, …)"


class KeptAnswers:
    """Answers with their ETags, limited in number and size."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], HttpResult] = OrderedDict()
        self._bytes = 0

    def find(self, key: tuple[str, str]) -> HttpResult | None:
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def keep(self, key: tuple[str, str], answer: HttpResult) -> None:
        self._forget(key)
        self._answers[key] = answer
        self._bytes += len(answer.body)
        while len(self._answers) > MAX_CACHED_ANSWERS or self._bytes > MAX_CACHED_BYTES:
            self._forget(next(iter(self._answers)))

    def _forget(self, key: tuple[str, str]) -> None:
        if former := self._answers.pop(key, None):
            self._bytes -= len(former.body)


class GitServerClient:
    def __init__(
        self,
        transport: HttpTransport,
        access: GitServerAccess,
        pauses: RequestPauses,
        answer_cache: KeptAnswers,
        installation_tokens: InstallationTokens,
    ) -> None:
        self._installation_tokens = installation_tokens
        self._out, self._access, self._pauses, self._kept = transport, access, pauses, answer_cache
        self._base = access.api_url.rstrip("/")
        try:
            where = parse_url(self._base)
        except AddressRefused as error:
            raise GitServerFailure(GitServerProblem.ADDRESS, f"git_api_url: {error}") from error
        self._host, self._origin = where.shown, _origin_of(self._base)
        self._form: ServerForm = form_of(access.kind, access.api_url, is_app=access.app is not None)
        self._pulls: PullRequestForm = pull_form_of(access.kind, access.api_url)
        self._mark = hashlib.sha256(f"{self._base}\0{access.token}".encode()).hexdigest()
        self._pause = (self._host, int(self._mark[:12], 16))

    async def repositories(self) -> list[ServerRepository]:
        path = self._form.repositories_path(self._access.workspace)
        return await self._list(path, self._form.read_repositories)

    async def branches(self, repository: str) -> list[str]:
        return await self._list(self._form.branches_path(checked(repository)), self._form.read_branches)

    async def webhooks(self, repository: str) -> list[InstalledWebhook]:
        return await self._list(self._form.webhooks_path(checked(repository)), self._form.read_webhooks)

    async def install_webhook(
        self, repository: str, url: str, secret: str, previous: InstalledWebhook | None
    ) -> None:
        """Creates the webhook, or repairs a former one."""
        path = self._form.webhooks_path(checked(repository))
        method = self._form.update_method if previous else "POST"
        if previous:
            path += f"/{_quoted_id(previous.id)}"
        body = msgspec.json.encode(self._form.webhook_body(url, secret))
        answer = await self._send(method, self._base + path, body)
        if not 200 <= answer.status < 300:
            raise explain_refusal(self._host, answer, time.time())

    async def pull_requests(self, repository: str, known: Mapping[int, str] = {}) -> list[OpenPullRequest]:
        """Returns the open pull requests of a repository. `known`: the newest commit of each, as it was found
        before."""
        pulls = await self._list(self._pulls.list_path(checked(repository)), self._pulls.read_list)
        return [await self._with_whole_commit(repository, pull, known.get(pull.number, "")) for pull in pulls]

    async def _with_whole_commit(
        self, repository: str, pull_request: OpenPullRequest, known: str
    ) -> OpenPullRequest:
        """Returns a pull request of a fork with the whole id of its newest commit; with none if the git
        server does not tell it.

        Bitbucket lists the first 12 digits. Within a minute, anyone makes two commits with the same ones, of
        which one would be approved, and the other one built.
        """
        path = self._pulls.commits_path(checked(repository), pull_request.number)
        if not (path and pull_request.is_fork and pull_request.commit):
            return pull_request
        if len(known) in WHOLE_LENGTHS and known.startswith(pull_request.commit):
            return pull_request._replace(commit=known)
        try:
            whole = self._pulls.read_newest_commit((await self._get(self._base + path)).body)
        except (GitServerFailure, BadJson, msgspec.MsgspecError, ValueError):
            whole = ""
        is_whole = len(whole) in WHOLE_LENGTHS and whole.startswith(pull_request.commit)
        return pull_request._replace(commit=whole if is_whole else "")

    async def comments(self, repository: str, number: int) -> list[Comment]:
        """Returns the comments of a pull request."""
        return await self._list(
            self._pulls.comments_path(checked(repository), number), self._pulls.read_comments
        )

    async def sent_comment(self, repository: str, number: int, id: str) -> SentComment | None:
        """Returns a comment of a pull request; None if it does not belong to that."""
        path = self._pulls.comment_path(checked(repository), number, id)
        if not path:
            return None
        comment = await self._read(path, lambda body: self._pulls.read_sent_comment(body, number))
        return comment if comment.pull_request == number and comment.author else None

    async def may_write(self, repository: str, author: str) -> bool:
        """Returns whether a person may write to a repository."""
        try:
            return await self._read(
                self._pulls.permission_path(checked(repository), author), self._pulls.may_write
            )
        except GitServerFailure as failure:
            if failure.problem is GitServerProblem.UNKNOWN:
                return False  # it is no member
            raise

    async def _read(self, path: str, parse_answer: Callable[[bytes], T]) -> T:
        answer = await self._get(self._base + path)
        try:
            return parse_answer(answer.body)
        except (BadJson, msgspec.MsgspecError, ValueError) as error:
            raise self._not_a_server() from error

    async def write_comment(self, repository: str, number: int, id: str, text: str) -> str:
        """Adds a comment to a pull request, or edits the one with this id. Returns its id."""
        answer = await self._request(self._pulls.write_comment(checked(repository), number, id, text))
        try:
            return id or self._pulls.read_comment(answer.body).id
        except (BadJson, msgspec.MsgspecError, ValueError) as error:
            raise self._not_a_server() from error

    async def set_status(self, repository: str, commit: str, state: CommitState, text: str, url: str) -> None:
        """Sets the commit status of previews."""
        await self._request(self._pulls.set_status(checked(repository), commit, state, text, url))

    async def _request(self, request: PullRequestCall) -> HttpResult:
        body = msgspec.json.encode(request.body)
        answer = await self._send(request.method, self._base + request.path, body)
        if not 200 <= answer.status < 300:
            raise explain_refusal(self._host, answer, time.time())
        return answer

    def _not_a_server(self) -> GitServerFailure:
        return GitServerFailure(
            GitServerProblem.NOT_A_SERVER,
            f"Check type and git_api_url of the git token: {self._host} does not answer as such a git server "
            "does",
        )

    async def _list(self, path: str, parse_answer: Callable[[bytes], Sequence[T]]) -> list[T]:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                return await self._read_pages(path, parse_answer)
        except TimeoutError as error:
            raise GitServerFailure(
                GitServerProblem.UNREACHABLE,
                f"Try again later: {self._host} does not send its list in {LIST_SECONDS:g} seconds",
            ) from error

    async def _read_pages(self, path: str, parse_answer: Callable[[bytes], Sequence[T]]) -> list[T]:
        entries: list[T] = []
        url, seen = self._base + path, set[str]()
        while url and url not in seen and len(seen) < MAX_PAGES and len(entries) < MAX_ENTRIES:
            seen.add(url)
            answer = await self._get(url)
            try:
                if answer.body.strip() == _NO_LIST:
                    break
                entries += parse_answer(answer.body)
                url = self._next_page(answer)
            except (BadJson, msgspec.MsgspecError, ValueError) as error:
                raise self._not_a_server() from error
        return entries[:MAX_ENTRIES]

    def _next_page(self, answer: HttpResult) -> str:
        """Returns the address of the next page; empty if there is none at the same server."""
        match = _NEXT_PATTERN.search(answer.headers.get("link", ""))
        url = match[1] if match else self._form.next_page(answer.body)
        return url if url.startswith(f"{self._origin}/") else ""

    async def _get(self, url: str) -> HttpResult:
        key = (self._mark, url)
        kept = self._kept.find(key)
        answer = await self._send("GET", url, etag=kept.headers["etag"] if kept else "")
        if answer.status == 304 and kept:
            return kept
        if answer.status != 200:
            raise explain_refusal(self._host, answer, time.time())
        if answer.cut:
            raise GitServerFailure(
                GitServerProblem.NOT_A_SERVER,
                f"Check git_api_url: {self._host} sends pages beyond all measure",
            )
        if answer.headers.get("etag"):
            self._kept.keep(key, answer)
        return answer

    async def _token(self) -> str:
        return await usable_token(self._out, self._installation_tokens, self._access)

    async def _send(self, method: str, url: str, body: bytes = b"", *, etag: str = "") -> HttpResult:
        if left := self._pauses.left(self._pause):
            raise rate_limit_failure(self._host, left)
        headers = {
            "Authorization": self._form.authorization(await self._token()),
            "Accept": "application/json",
        }
        if body:
            headers["Content-Type"] = "application/json"
        if etag:
            headers["If-None-Match"] = etag
        try:
            answer = await self._out.send(method, url, body, headers, seconds=TIMEOUT, limit=MAX_ANSWER_BYTES)
        except AddressRefused as error:
            raise GitServerFailure(GitServerProblem.ADDRESS, f"git_api_url: {error}") from error
        except NoAnswer as error:
            raise GitServerFailure(
                GitServerProblem.UNREACHABLE, f"Check git_api_url, or try again later: {error}"
            ) from error
        if wait := rate_limit_wait(answer, time.time()):
            self._pauses.note(self._pause, wait)
        return answer


async def usable_token(
    transport: HttpTransport, installation_tokens: InstallationTokens, access: GitServerAccess
) -> str:
    """Returns the token for requests: that of the installation, if the access is that of an app. Raises
    GitServerFailure."""
    if access.app is None:
        return access.token
    return await installation_tokens.get(transport, access.api_url, access.app, access.token)


def checked(repository: str) -> str:
    """Returns the path of a repository at its git server. Raises GitServerFailure if it is none."""
    path = repository.strip("/").removesuffix(".git")
    is_name = len(path) <= _MAX_NAME_LENGTH and _NAME_PATTERN.match(path)
    if not is_name or any(part in {".", ".."} for part in path.split("/")):
        raise GitServerFailure(
            GitServerProblem.UNKNOWN, "Name the repository with its owner, such as acme/shop"
        )
    return path


def _origin_of(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])


def _quoted_id(id: str) -> str:
    return quote(id, safe="")
