"""Stand-ins for the APIs of git servers, as their documentation describes them.

GitHub: docs.github.com/en/rest (repos, branches, webhooks). GitLab: docs.gitlab.com/api (projects, branches,
project webhooks). Gitea and Forgejo: their /api/swagger. Bitbucket: developer.atlassian.com, Bitbucket Cloud.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from windlass.base.http_out import HttpResult

TOKEN = "t0ken"
REPOSITORIES = [f"acme/shop-{number}" for number in range(7)]
BRANCHES = ["main", "next", "fix/a b"]


class SentRequest(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: Any


def answer(status: int = 200, body: Any = None, **headers: str) -> HttpResult:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResult(status, names, raw, False, 1)


class FakeGitServer:
    """The ways that all have in common: pages, ETags, and what a test makes go wrong."""

    kind = "GITHUB"
    api = "https://api.github.com"
    host = "github.com"
    per_page = 3
    fields = ("url", "secret")

    def __init__(self) -> None:
        self.sent: list[SentRequest] = []
        self.hooks: list[dict[str, Any]] = []
        self.wrong: Callable[[SentRequest], HttpResult | None] = lambda request: None
        """Answers in the place of the git server."""

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = {}, **_: Any
    ) -> HttpResult:
        request = SentRequest(method, url, dict(headers), json.loads(body) if body else None)
        self.sent.append(request)
        if wrong := self.wrong(request):
            return wrong
        if not url.startswith(self.api):
            return answer(404, {"message": "Not Found"})
        if headers.get("Authorization") != self.authorization():
            return answer(401, {"message": "Bad credentials"})
        return self.route(request)

    async def fetch(self, url: str) -> bytes:
        raise OSError("not here")

    async def close(self) -> None:
        """Has nothing to close."""

    def authorization(self) -> str:
        return f"Bearer {TOKEN}"

    def route(self, request: SentRequest) -> HttpResult:
        path = request.url.removeprefix(self.api).partition("?")[0]
        if path == self.repositories_path():
            return self.page(request, [self.repository(name) for name in REPOSITORIES])
        if path == self.branches_path():
            return self.page(request, [{"name": name} for name in BRANCHES])
        if path.startswith(self.hooks_path()):
            return self.on_hooks(request, unquote(path.removeprefix(self.hooks_path()).strip("/")))
        return answer(404, {"message": "Not Found"})

    def on_hooks(self, request: SentRequest, id: str) -> HttpResult:
        if request.method == "GET":
            return self.page(request, [self.shown(hook) for hook in self.hooks])
        if request.method == "POST":
            self.hooks.append({**request.body, "id": len(self.hooks) + 1})
            return answer(201, self.hooks[-1])
        [hook] = [hook for hook in self.hooks if self.id_of(hook) == id]
        hook |= request.body
        return answer(200, hook)

    def id_of(self, hook: dict[str, Any]) -> str:
        return str(hook["id"])

    def shown(self, hook: dict[str, Any]) -> dict[str, Any]:
        """A git server does not show the secret."""
        config = {name: value for name, value in hook.get("config", {}).items() if name != "secret"}
        return {**hook, "config": config}

    def page(self, request: SentRequest, entries: list[Any]) -> HttpResult:
        query = parse_qs(urlsplit(request.url).query)
        number = int(query.get("page", ["1"])[0])
        shown = entries[(number - 1) * self.per_page : number * self.per_page]
        tag = f'W/"{hash(json.dumps(shown))}"'
        if request.headers.get("If-None-Match") == tag:
            return answer(304, b"")
        more = number * self.per_page < len(entries)
        base = request.url.partition("&page=")[0]
        joint = "&" if "?" in base else "?"
        return self.with_next(shown, f"{base}{joint}page={number + 1}" if more else "", tag)

    def with_next(self, shown: list[Any], url: str, tag: str) -> HttpResult:
        link = f'<{url}>; rel="next", <{url}0>; rel="last"' if url else ""
        return answer(200, shown, etag=tag, link=link)

    def secret(self) -> str:
        return str(self.hooks[0]["config"]["secret"])

    def address(self) -> str:
        return str(self.hooks[0]["config"]["url"])

    def spoil(self) -> None:
        """Somebody switches the webhook to other events."""
        self.hooks[0]["events"] = ["issues"]

    def repositories_path(self) -> str:
        return "/user/repos"

    def branches_path(self) -> str:
        return "/repos/acme/shop/branches"

    def hooks_path(self) -> str:
        return "/repos/acme/shop/hooks"

    def repository(self, name: str) -> dict[str, Any]:
        return {
            "id": 1296269,
            "full_name": name,
            "private": True,
            "clone_url": f"https://{self.host}/{name}.git",
            "default_branch": "main",
        }


class FakeGitHub(FakeGitServer):
    """GitHub itself."""


class FakeEnterprise(FakeGitServer):
    api, host = "https://git.example/api/v3", "git.example"


class FakeGitea(FakeGitServer):
    api, host = "https://gitea.example/api/v1", "gitea.example"

    def authorization(self) -> str:
        return f"token {TOKEN}"

    def on_hooks(self, request: SentRequest, id: str) -> HttpResult:
        if request.method == "POST" and request.body.get("type") != "gitea":
            return answer(422, {"message": "Invalid hook type"})
        return super().on_hooks(request, id)


class FakeGitLab(FakeGitServer):
    kind, api, host = "GITLAB", "https://gitlab.com/api/v4", "gitlab.com"

    def repositories_path(self) -> str:
        return "/projects"

    def branches_path(self) -> str:
        return "/projects/acme%2Fshop/repository/branches"

    def hooks_path(self) -> str:
        return "/projects/acme%2Fshop/hooks"

    def repository(self, name: str) -> dict[str, Any]:
        return {
            "id": 4,
            "path_with_namespace": name,
            "visibility": "private",
            "http_url_to_repo": f"https://{self.host}/{name}.git",
            "default_branch": "main",
        }

    def shown(self, hook: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in hook.items() if name != "token"}

    def secret(self) -> str:
        return str(self.hooks[0]["token"])

    def address(self) -> str:
        return str(self.hooks[0]["url"])

    def spoil(self) -> None:
        self.hooks[0]["push_events"] = False


class FakeBitbucket(FakeGitServer):
    kind, api, host = "BITBUCKET", "https://api.bitbucket.org/2.0", "bitbucket.org"

    def repositories_path(self) -> str:
        return "/repositories/acme"

    def branches_path(self) -> str:
        return "/repositories/acme/shop/refs/branches"

    def hooks_path(self) -> str:
        return "/repositories/acme/shop/hooks"

    def id_of(self, hook: dict[str, Any]) -> str:
        return f"{{{hook['id']}}}"

    def repository(self, name: str) -> dict[str, Any]:
        return {
            "uuid": "{b9f0}",
            "full_name": name,
            "is_private": True,
            "mainbranch": {"type": "branch", "name": "main"},
            "links": {"html": {"href": f"https://{self.host}/{name}"}},
        }

    def shown(self, hook: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in hook.items() if name != "secret"} | {"uuid": self.id_of(hook)}

    def with_next(self, shown: list[Any], url: str, tag: str) -> HttpResult:
        return answer(200, {"values": shown} | ({"next": url} if url else {}), etag=tag)

    def secret(self) -> str:
        return str(self.hooks[0]["secret"])

    def address(self) -> str:
        return str(self.hooks[0]["url"])

    def spoil(self) -> None:
        self.hooks[0]["active"] = False


ALL = (FakeGitHub, FakeEnterprise, FakeGitea, FakeGitLab, FakeBitbucket)
