"""The forms of the APIs of git servers, as published: paths, answers, and webhooks of repositories."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct, field

from windlass.base.foreign_json import read_json

_EVENTS: Final = ("push", "pull_request", "issue_comment")
_GITEA_EVENTS: Final = (
    "push",
    "pull_request_only",
    "pull_request_sync",
    "pull_request_label",
    "pull_request_comment",
)
"""`pull_request` would include reviews."""
GITEA_PATH: Final = "/api/v1"
"""The end of the addresses of the API of Gitea and Forgejo, whose tokens have the type of GitHub."""


class ServerRepository(NamedTuple):
    id: str
    name: str
    """Owner and name, such as `acme/shop`."""
    url: str
    default_branch: str = ""
    is_private: bool | None = None
    """None if the git server does not say so."""


class InstalledWebhook(NamedTuple):
    id: str
    url: str
    is_active: bool
    has_pushes: bool
    has_pull_requests: bool
    has_comments: bool
    """Whether it sends comments of pull requests; true for git servers whose comments are not read."""


class ServerForm(Protocol):
    """The form of the API of one kind of git server."""

    def authorization(self, token: str) -> str: ...

    def repositories_path(self, workspace: str) -> str: ...

    def read_repositories(self, body: bytes) -> Sequence[ServerRepository]: ...

    def branches_path(self, repository: str) -> str: ...

    def webhooks_path(self, repository: str) -> str: ...

    def read_branches(self, body: bytes) -> Sequence[str]: ...

    def read_webhooks(self, body: bytes) -> Sequence[InstalledWebhook]: ...

    def webhook_body(self, url: str, secret: str) -> Mapping[str, Any]: ...

    def next_page(self, body: bytes) -> str:
        """Returns the address of the next page in the body of an answer; empty if it is in a header."""
        ...

    @property
    def update_method(self) -> str: ...


class _Branch(Struct):
    name: str


class _GitHubRepository(Struct):
    id: int
    full_name: str
    clone_url: str = ""
    html_url: str = ""
    default_branch: str | None = None
    private: bool | None = None


class _GitHubConfig(Struct):
    url: str = ""


class _GitHubHook(Struct):
    id: int
    active: bool = True
    events: list[str] = []
    config: _GitHubConfig = field(default_factory=_GitHubConfig)


def _shown_repository(one: _GitHubRepository) -> ServerRepository:
    url = one.clone_url or one.html_url
    return ServerRepository(str(one.id), one.full_name, url, one.default_branch or "", one.private)


class GitHubForm:
    update_method = "PATCH"
    _per_page = "per_page=100"
    _comment_event = "issue_comment"

    def authorization(self, token: str) -> str:
        return f"Bearer {_password_of(token)}"

    def repositories_path(self, workspace: str) -> str:
        return f"/user/repos?{self._per_page}&sort=pushed"

    def read_repositories(self, body: bytes) -> Sequence[ServerRepository]:
        return [_shown_repository(one) for one in read_json(body, list[_GitHubRepository])]

    def branches_path(self, repository: str) -> str:
        return f"/repos/{quote(repository)}/branches?{self._per_page}"

    def webhooks_path(self, repository: str) -> str:
        return f"/repos/{quote(repository)}/hooks"

    def read_branches(self, body: bytes) -> Sequence[str]:
        return [branch.name for branch in read_json(body, list[_Branch])]

    def read_webhooks(self, body: bytes) -> Sequence[InstalledWebhook]:
        return [
            InstalledWebhook(
                str(hook.id),
                hook.config.url,
                hook.active,
                bool({"push", "*"} & set(hook.events)),
                bool({"pull_request", "pull_request_only", "*"} & set(hook.events)),
                bool({self._comment_event, "*"} & set(hook.events)),
            )
            for hook in read_json(body, list[_GitHubHook])
        ]

    def webhook_body(self, url: str, secret: str) -> Mapping[str, Any]:
        config = {"url": url, "content_type": "json", "secret": secret, "insecure_ssl": "0"}
        return {"name": "web", "active": True, "events": _EVENTS, "config": config}

    def next_page(self, body: bytes) -> str:
        return ""


class _GitHubRepositories(Struct):
    repositories: list[_GitHubRepository] = []


class GitHubAppForm(GitHubForm):
    """GitHub for the token of an installation, which has repositories instead of a person's."""

    def repositories_path(self, workspace: str) -> str:
        return f"/installation/repositories?{self._per_page}"

    def read_repositories(self, body: bytes) -> Sequence[ServerRepository]:
        return [_shown_repository(one) for one in read_json(body, _GitHubRepositories).repositories]


class GiteaForm(GitHubForm):
    _per_page = "limit=50"
    _comment_event = "pull_request_comment"

    def authorization(self, token: str) -> str:
        return f"token {_password_of(token)}"

    def repositories_path(self, workspace: str) -> str:
        return f"/user/repos?{self._per_page}"

    def webhook_body(self, url: str, secret: str) -> Mapping[str, Any]:
        config = {"url": url, "content_type": "json", "secret": secret}
        return {"type": "gitea", "active": True, "events": _GITEA_EVENTS, "config": config}


class _GitLabProject(Struct):
    id: int
    path_with_namespace: str
    http_url_to_repo: str = ""
    default_branch: str | None = None
    visibility: str | None = None


class _GitLabHook(Struct):
    id: int
    url: str = ""
    push_events: bool = False
    push_events_branch_filter: str | None = None
    merge_requests_events: bool = False
    note_events: bool = False


class GitLabForm:
    update_method = "PUT"

    def authorization(self, token: str) -> str:
        return f"Bearer {_password_of(token)}"

    def repositories_path(self, workspace: str) -> str:
        return "/projects?membership=true&archived=false&order_by=last_activity_at&per_page=100"

    def read_repositories(self, body: bytes) -> Sequence[ServerRepository]:
        return [
            ServerRepository(
                str(one.id),
                one.path_with_namespace,
                one.http_url_to_repo,
                one.default_branch or "",
                None if one.visibility is None else one.visibility != "public",
            )
            for one in read_json(body, list[_GitLabProject])
        ]

    def branches_path(self, repository: str) -> str:
        return f"/projects/{quote(repository, safe='')}/repository/branches?per_page=100"

    def webhooks_path(self, repository: str) -> str:
        return f"/projects/{quote(repository, safe='')}/hooks"

    def read_branches(self, body: bytes) -> Sequence[str]:
        return [branch.name for branch in read_json(body, list[_Branch])]

    def read_webhooks(self, body: bytes) -> Sequence[InstalledWebhook]:
        return [
            InstalledWebhook(
                str(hook.id),
                hook.url,
                True,
                hook.push_events and not hook.push_events_branch_filter,
                hook.merge_requests_events,
                hook.note_events,
            )
            for hook in read_json(body, list[_GitLabHook])
        ]

    def webhook_body(self, url: str, secret: str) -> Mapping[str, Any]:
        return {
            "url": url,
            "token": secret,
            "push_events": True,
            "push_events_branch_filter": "",
            "merge_requests_events": True,
            "note_events": True,
            "enable_ssl_verification": True,
        }

    def next_page(self, body: bytes) -> str:
        return ""


class _BitbucketBranch(Struct):
    name: str = ""


class _BitbucketLink(Struct):
    href: str = ""


class _BitbucketLinks(Struct):
    html: _BitbucketLink = field(default_factory=_BitbucketLink)


class _BitbucketRepository(Struct):
    uuid: str
    full_name: str
    is_private: bool | None = None
    mainbranch: _BitbucketBranch | None = None
    links: _BitbucketLinks = field(default_factory=_BitbucketLinks)


class _BitbucketHook(Struct):
    uuid: str
    url: str = ""
    active: bool = True
    events: list[str] = []


class _BitbucketRepositories(Struct):
    values: list[_BitbucketRepository] = []


class _BitbucketBranches(Struct):
    values: list[_Branch] = []


class _BitbucketHooks(Struct):
    values: list[_BitbucketHook] = []


class _BitbucketPage(Struct):
    next: str = ""


_BITBUCKET_PULLS: Final = (
    "pullrequest:created",
    "pullrequest:updated",
    "pullrequest:fulfilled",
    "pullrequest:rejected",
)


class BitbucketForm:
    update_method = "PUT"

    def authorization(self, token: str) -> str:
        if ":" in token:  # an account's address with an API token
            return f"Basic {base64.b64encode(token.encode()).decode()}"
        return f"Bearer {token}"

    def repositories_path(self, workspace: str) -> str:
        return f"/repositories/{quote(workspace, safe='')}?role=member&pagelen=100&sort=-updated_on"

    def read_repositories(self, body: bytes) -> Sequence[ServerRepository]:
        return [
            ServerRepository(
                one.uuid,
                one.full_name,
                f"{one.links.html.href}.git" if one.links.html.href else "",
                one.mainbranch.name if one.mainbranch else "",
                one.is_private,
            )
            for one in read_json(body, _BitbucketRepositories).values
        ]

    def branches_path(self, repository: str) -> str:
        return f"/repositories/{quote(repository)}/refs/branches?pagelen=100"

    def webhooks_path(self, repository: str) -> str:
        return f"/repositories/{quote(repository)}/hooks"

    def read_branches(self, body: bytes) -> Sequence[str]:
        return [branch.name for branch in read_json(body, _BitbucketBranches).values]

    def read_webhooks(self, body: bytes) -> Sequence[InstalledWebhook]:
        return [
            InstalledWebhook(
                hook.uuid,
                hook.url,
                hook.active,
                "repo:push" in hook.events,
                set(_BITBUCKET_PULLS) <= set(hook.events),
                has_comments=True,
            )
            for hook in read_json(body, _BitbucketHooks).values
        ]

    def webhook_body(self, url: str, secret: str) -> Mapping[str, Any]:
        return {
            "description": "Windlass",
            "url": url,
            "active": True,
            "events": ["repo:push", *_BITBUCKET_PULLS],
            "secret": secret,
        }

    def next_page(self, body: bytes) -> str:
        return msgspec.json.decode(body, type=_BitbucketPage).next


_FORMS: Final[Mapping[str, ServerForm]] = {
    "GITHUB": GitHubForm(),
    "GITLAB": GitLabForm(),
    "BITBUCKET": BitbucketForm(),
}
_GITEA: Final = GiteaForm()
_GITHUB_APP: Final = GitHubAppForm()


def form_of(kind: str, api_url: str, *, is_app: bool = False) -> ServerForm:
    """Returns the form of a git server's API, from the type of its token and the address of its API."""
    if is_app:
        return _GITHUB_APP
    if urlsplit(api_url).path.rstrip("/").endswith(GITEA_PATH):
        return _GITEA
    return _FORMS[kind]


def _password_of(token: str) -> str:
    """Returns a token without the user name that git needs before it."""
    return token.rpartition(":")[2]
