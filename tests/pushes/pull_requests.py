"""Stand-ins for pull requests, comments and commit statuses at git servers, as their documentation describes
them."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

from tests.pushes.deliveries import digest
from tests.pushes.git_servers import (
    FakeBitbucket,
    FakeGitea,
    FakeGitHub,
    FakeGitLab,
    FakeGitServer,
    SentRequest,
    answer,
)
from windlass.base.http_out import HttpResult


class Pull(NamedTuple):
    number: int
    commit: str
    branch: str = "colours"
    target: str = "main"
    is_fork: bool = False
    labels: tuple[str, ...] = ()
    is_agit: bool = False
    """Whether it was pushed into the repository itself, by somebody who may only read it."""


class Said(NamedTuple):
    """A comment of a person."""

    number: int
    text: str
    author: str


def commit(what: str) -> str:
    return hashlib.sha1(what.encode(), usedforsecurity=False).hexdigest()


class WithPulls(FakeGitServer):
    """A git server with pull requests, in the form of GitHub."""

    def __init__(self) -> None:
        super().__init__()
        self.pulls: dict[int, Pull] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.statuses: dict[str, list[str]] = {}
        """The states of each commit, oldest first."""
        self.said: dict[str, Said] = {}
        """The comments of people, by their ids."""
        self.writers = {"ada"}

    def say(self, number: int, text: str, author: str = "ada") -> str:
        """Adds a comment of a person to a pull request. Returns its id."""
        id = str(7000 + len(self.said))
        self.said[id] = Said(number, text, author)
        return id

    def shown_comment(self, said: Said) -> dict[str, Any]:
        url = f"{self.api}/repos/acme/shop/issues/{said.number}"
        return {"id": 1, "body": said.text, "user": {"login": said.author}, "issue_url": url}

    def shown_right(self, author: str) -> HttpResult:
        return answer(200, {"permission": "write" if author in self.writers else "read"})

    def comment_delivery(self, secret: str, number: int, id: str, text: str) -> tuple[bytes, dict[str, str]]:
        comment = {"id": int(id), "body": text, "user": {"login": "ada"}}
        body = json.dumps({"action": "created", "issue": {"number": number}, "comment": comment}).encode()
        return body, self.delivery_headers(secret, body)

    def delivery_headers(self, secret: str, body: bytes) -> dict[str, str]:
        return {"x-github-event": "issue_comment", "x-hub-signature-256": f"sha256={digest(secret, body)}"}

    def open(self, number: int, what: str, **fields: Any) -> str:
        """Opens a pull request, or pushes another commit to it. Returns the commit."""
        before = self.pulls.get(number)
        pull = before._replace(commit=commit(what)) if before else Pull(number, commit(what))
        self.pulls[number] = pull._replace(**fields)
        return self.pulls[number].commit

    def close_pull(self, number: int) -> None:
        del self.pulls[number]

    def text(self, number: int) -> str:
        """The one comment of a pull request."""
        [comment] = self.comments[number]
        return self.text_of(comment)

    def route(self, request: SentRequest) -> HttpResult:
        path = request.url.removeprefix(self.api).partition("?")[0]
        if path == self.pulls_path:
            return self.page(request, [self.shown_pull(pull) for pull in self.pulls.values()])
        if found := re.fullmatch(r".*/pullrequests/(\d+)/commits", path):
            return answer(200, {"values": [{"hash": self.pulls[int(found[1])].commit}]})
        if found := re.fullmatch(self.right_pattern, path):
            return self.shown_right(found["author"])
        if (found := re.fullmatch(self.comments_pattern, path)) and found["id"] in self.said:
            return answer(200, self.shown_comment(self.said[found["id"]]))
        if found := re.fullmatch(self.comments_pattern, path):
            return self.on_comments(request, int(found["number"] or 0), found["id"] or "")
        if found := re.fullmatch(self.status_pattern, path):
            self.statuses.setdefault(found["commit"], []).append(request.body["state"])
            return answer(201, {})
        return super().route(request)

    def on_comments(self, request: SentRequest, number: int, id: str) -> HttpResult:
        if request.method == "GET":
            return self.page(request, self.comments.get(number, []))
        if request.method == "POST":
            made = {"id": 100 + number, **request.body}
            self.comments.setdefault(number, []).append(made)
            return answer(201, made)
        assert request.method == self.edit_method
        [comment] = [one for many in self.comments.values() for one in many if str(one["id"]) == id]
        comment |= request.body
        return answer(200, comment)

    edit_method = "PATCH"
    right_pattern = r"/repos/acme/shop/collaborators/(?P<author>[^/]+)/permission"
    pulls_path = "/repos/acme/shop/pulls"
    comments_pattern = r"/repos/acme/shop/issues/(?:(?P<number>\d+)/comments|comments/(?P<id>\d+))"
    status_pattern = r"/repos/acme/shop/statuses/(?P<commit>\w+)"

    def text_of(self, comment: dict[str, Any]) -> str:
        return str(comment["body"])

    def shown_pull(self, pull: Pull) -> dict[str, Any]:
        fork = "mallory/shop" if pull.is_fork else "acme/shop"
        return {
            "number": pull.number,
            "title": f"Pull request {pull.number}",
            "html_url": f"https://{self.host}/acme/shop/pull/{pull.number}",
            "user": {"login": "ada"},
            "labels": [{"name": name} for name in pull.labels],
            "head": {"ref": pull.branch, "sha": pull.commit, "repo": {"full_name": fork}},
            "base": {"ref": pull.target, "sha": "0" * 40, "repo": {"full_name": "acme/shop"}},
        }

    def delivery(self, secret: str, number: int) -> tuple[bytes, dict[str, str]]:
        body = json.dumps({"action": "opened", "number": number}).encode()
        return body, {
            "x-github-event": "pull_request",
            "x-hub-signature-256": f"sha256={digest(secret, body)}",
        }


class GitHubWithPulls(WithPulls, FakeGitHub):
    pass


class GiteaWithPulls(WithPulls, FakeGitea):
    def shown_pull(self, pull: Pull) -> dict[str, Any]:
        shown = super().shown_pull(pull)
        if pull.is_agit:  # as services/convert/pull.go of Gitea and Forgejo shows it
            shown["head"] |= {"label": "", "ref": f"refs/pull/{pull.number}/head"}
        return shown

    def delivery(self, secret: str, number: int) -> tuple[bytes, dict[str, str]]:
        body, _ = super().delivery(secret, number)
        return body, {"x-gitea-event": "pull_request", "x-gitea-signature": digest(secret, body)}

    def shown_comment(self, said: Said) -> dict[str, Any]:
        page = f"https://{self.host}/acme/shop/pulls/{said.number}"
        return super().shown_comment(said) | {"issue_url": "", "pull_request_url": page}

    def delivery_headers(self, secret: str, body: bytes) -> dict[str, str]:
        return {"x-gitea-event": "issue_comment", "x-gitea-signature": digest(secret, body)}


class GitLabWithPulls(WithPulls, FakeGitLab):
    edit_method = "PUT"
    pulls_path = "/projects/acme%2Fshop/merge_requests"
    comments_pattern = r"/projects/acme%2Fshop/merge_requests/(?P<number>\d+)/notes(?:/(?P<id>\d+))?"
    status_pattern = r"/projects/acme%2Fshop/statuses/(?P<commit>\w+)"

    def shown_pull(self, pull: Pull) -> dict[str, Any]:
        return {
            "iid": pull.number,
            "title": f"Merge request {pull.number}",
            "web_url": f"https://{self.host}/acme/shop/-/merge_requests/{pull.number}",
            "author": {"username": "ada"},
            "labels": [*pull.labels],
            "source_branch": pull.branch,
            "target_branch": pull.target,
            "sha": pull.commit,
            "source_project_id": 5 if pull.is_fork else 4,
            "target_project_id": 4,
        }

    def delivery(self, secret: str, number: int) -> tuple[bytes, dict[str, str]]:
        body = json.dumps({"object_kind": "merge_request", "object_attributes": {"iid": number}}).encode()
        return body, {"x-gitlab-event": "Merge Request Hook", "x-gitlab-token": secret}

    right_pattern = r"/projects/acme%2Fshop/members/all/(?P<author>\d+)"

    def shown_comment(self, said: Said) -> dict[str, Any]:
        author = {"id": 1 if said.author in self.writers else 2}
        where = {"noteable_type": "MergeRequest", "noteable_iid": said.number}
        return {"id": 1, "body": said.text, "author": author, "system": False, **where}

    def shown_right(self, author: str) -> HttpResult:
        return answer(200, {"access_level": 30, "state": "active"}) if author == "1" else answer(404, {})

    def comment_delivery(self, secret: str, number: int, id: str, text: str) -> tuple[bytes, dict[str, str]]:
        attributes = {"id": int(id), "note": text, "noteable_type": "MergeRequest", "action": "create"}
        sent = {"object_kind": "note", "object_attributes": attributes, "merge_request": {"iid": number}}
        return json.dumps(sent).encode(), {"x-gitlab-event": "Note Hook", "x-gitlab-token": secret}


class BitbucketWithPulls(WithPulls, FakeBitbucket):
    edit_method = "PUT"
    pulls_path = "/repositories/acme/shop/pullrequests"
    comments_pattern = r"/repositories/acme/shop/pullrequests/(?P<number>\d+)/comments(?:/(?P<id>\d+))?"
    status_pattern = r"/repositories/acme/shop/commit/(?P<commit>\w+)/statuses/build"

    def text_of(self, comment: dict[str, Any]) -> str:
        return str(comment["content"]["raw"])

    def shown_pull(self, pull: Pull) -> dict[str, Any]:
        fork = "mallory/shop" if pull.is_fork else "acme/shop"
        return {
            "id": pull.number,
            "title": f"Pull request {pull.number}",
            "links": {"html": {"href": f"https://{self.host}/acme/shop/pull-requests/{pull.number}"}},
            "author": {"nickname": "ada"},
            "source": {
                "branch": {"name": pull.branch},
                "commit": {"hash": pull.commit[:12]},
                "repository": {"full_name": fork},
            },
            "destination": {"branch": {"name": pull.target}, "repository": {"full_name": "acme/shop"}},
        }

    def delivery(self, secret: str, number: int) -> tuple[bytes, dict[str, str]]:
        body = json.dumps({"pullrequest": {"id": number}}).encode()
        return body, {
            "x-event-key": "pullrequest:created",
            "x-hub-signature": f"sha256={digest(secret, body)}",
        }


EACH = (GitHubWithPulls, GiteaWithPulls, GitLabWithPulls, BitbucketWithPulls)
