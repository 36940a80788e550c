"""The forms of pull requests, their comments and commit statuses at each kind of git server, as published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct, field

from windlass.base.foreign_json import read_json
from windlass.sources.git_servers.forms import GITEA_PATH

STATUS_CONTEXT: Final = "windlass/preview"
"""The name of the commit status."""
_MAX_STATUS_LENGTH: Final = 140
_REFS: Final = "refs/"


class CommitState(StrEnum):
    """What a commit status says."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"


class OpenPullRequest(NamedTuple):
    """An open pull request."""

    number: int
    title: str
    url: str
    author: str
    branch: str
    commit: str
    target: str
    """The branch into which it is to be merged."""
    is_fork: bool
    """Whether its author needs no right to write to the repository."""
    labels: Sequence[str] = ()
    source_url: str = ""
    """Address of the fork, where the repository itself does not have its commits."""


class Comment(NamedTuple):
    id: str
    text: str


class SentComment(NamedTuple):
    """A comment with its author."""

    text: str
    author: str
    """The login or id by which the git server tells the rights of the author."""
    pull_request: int
    """The number of its pull request; 0 if the git server does not say it."""


class PullRequestCall(NamedTuple):
    """A request to the API of a git server."""

    method: str
    path: str
    body: Mapping[str, Any]


class PullRequestForm(Protocol):
    """The form of pull requests of one kind of git server."""

    def list_path(self, repository: str) -> str: ...

    def read_list(self, body: bytes) -> Sequence[OpenPullRequest]: ...

    def commits_path(self, repository: str, number: int) -> str:
        """Returns the path of the whole id of the newest commit; empty if the list has it."""
        ...

    def read_newest_commit(self, body: bytes) -> str: ...

    def comments_path(self, repository: str, number: int) -> str: ...

    def read_comments(self, body: bytes) -> Sequence[Comment]: ...

    def read_comment(self, body: bytes) -> Comment: ...

    def comment_path(self, repository: str, number: int, id: str) -> str:
        """Returns the path of one comment; empty if comments have no commands at this git server."""
        ...

    def read_sent_comment(self, body: bytes, number: int) -> SentComment: ...

    def permission_path(self, repository: str, author: str) -> str:
        """Returns the path of the right of a person in a repository."""
        ...

    def may_write(self, body: bytes) -> bool: ...

    def write_comment(self, repository: str, number: int, id: str, text: str) -> PullRequestCall:
        """Returns the request that adds a comment, or edits it if it has an id."""
        ...

    def set_status(
        self, repository: str, commit: str, state: CommitState, text: str, url: str
    ) -> PullRequestCall: ...


class _Named(Struct):
    name: str = ""


class _GitHubUser(Struct):
    login: str = ""


class _GitHubRepo(Struct):
    full_name: str = ""


class _GitHubEnd(Struct):
    ref: str = ""
    sha: str = ""
    repo: _GitHubRepo | None = None


class _GitHubPull(Struct):
    number: int
    title: str = ""
    html_url: str = ""
    user: _GitHubUser | None = None
    labels: list[_Named] | None = None
    head: _GitHubEnd = field(default_factory=_GitHubEnd)
    base: _GitHubEnd = field(default_factory=_GitHubEnd)


class _GitHubComment(Struct):
    id: int
    body: str | None = None


class _SentGitHubComment(Struct):
    body: str | None = None
    user: _GitHubUser | None = None
    issue_url: str = ""
    pull_request_url: str = ""


class _GitHubPermission(Struct):
    permission: str = ""


_WRITERS: Final = {"write", "maintain", "admin", "owner"}


def _is_of_outsider(pull_request: _GitHubPull) -> bool:
    if not (
        pull_request.head.repo and pull_request.base.repo and pull_request.head.repo == pull_request.base.repo
    ):
        return True  # the repository of a deleted fork is null
    # At Gitea and Forgejo, who may only read a repository may push a pull request into it (AGit). It has the
    # repository itself as its source, and no branch there.
    return pull_request.head.ref.startswith(_REFS)


class _WithWholeCommits:
    """A git server whose list of pull requests has the whole ids of commits."""

    def commits_path(self, repository: str, number: int) -> str:
        return ""

    def read_newest_commit(self, body: bytes) -> str:
        raise NotImplementedError


class GitHubPulls(_WithWholeCommits):
    _per_page = "per_page=100"

    def list_path(self, repository: str) -> str:
        return f"/repos/{repository}/pulls?state=open&{self._per_page}"

    def read_list(self, body: bytes) -> Sequence[OpenPullRequest]:
        return [
            OpenPullRequest(
                one.number,
                one.title,
                one.html_url,
                one.user.login if one.user else "",
                one.head.ref,
                one.head.sha,
                one.base.ref,
                _is_of_outsider(one),
                [label.name for label in one.labels or ()],
            )
            for one in read_json(body, list[_GitHubPull])
        ]

    def comments_path(self, repository: str, number: int) -> str:
        return f"/repos/{repository}/issues/{number}/comments?{self._per_page}"

    def read_comments(self, body: bytes) -> Sequence[Comment]:
        return [Comment(str(one.id), one.body or "") for one in read_json(body, list[_GitHubComment])]

    def read_comment(self, body: bytes) -> Comment:
        one = read_json(body, _GitHubComment)
        return Comment(str(one.id), one.body or "")

    def write_comment(self, repository: str, number: int, id: str, text: str) -> PullRequestCall:
        if id:
            return PullRequestCall(
                "PATCH", f"/repos/{repository}/issues/comments/{quote(id)}", {"body": text}
            )
        return PullRequestCall("POST", f"/repos/{repository}/issues/{number}/comments", {"body": text})

    def set_status(
        self, repository: str, commit: str, state: CommitState, text: str, url: str
    ) -> PullRequestCall:
        body = {"state": state, "context": STATUS_CONTEXT, "description": text[:_MAX_STATUS_LENGTH]}
        return PullRequestCall(
            "POST",
            f"/repos/{repository}/statuses/{quote(commit)}",
            body | ({"target_url": url} if url else {}),
        )

    def comment_path(self, repository: str, number: int, id: str) -> str:
        return f"/repos/{repository}/issues/comments/{quote(id)}"

    def read_sent_comment(self, body: bytes, number: int) -> SentComment:
        one = read_json(body, _SentGitHubComment)
        # Gitea names the pull request with its page, and leaves `issue_url` empty.
        of = (one.issue_url or one.pull_request_url).rpartition("/")[2]
        return SentComment(
            one.body or "", one.user.login if one.user else "", int(of) if of.isdecimal() else 0
        )

    def permission_path(self, repository: str, author: str) -> str:
        return f"/repos/{repository}/collaborators/{quote(author, safe='')}/permission"

    def may_write(self, body: bytes) -> bool:
        return read_json(body, _GitHubPermission).permission in _WRITERS


class GiteaPulls(GitHubPulls):
    _per_page = "limit=50"


class _Username(Struct):
    username: str = ""


class _GitLabAuthor(Struct):
    id: int = 0


class _GitLabNote(Struct):
    body: str = ""
    author: _GitLabAuthor | None = None
    noteable_iid: int | None = None
    noteable_type: str = ""
    system: bool = False


class _GitLabMember(Struct):
    access_level: int = 0
    state: str = "active"


_DEVELOPER: Final = 30
"""The access level of GitLab from which a member may push."""


class _GitLabMerge(Struct):
    iid: int
    title: str = ""
    web_url: str = ""
    author: _Username | None = None
    labels: list[str] = []
    source_branch: str = ""
    target_branch: str = ""
    sha: str | None = None
    source_project_id: int | None = None
    target_project_id: int | None = None


_GITLAB_STATES: Final = {CommitState.FAILURE: "failed"}


class GitLabPulls(_WithWholeCommits):
    def _project(self, repository: str) -> str:
        return f"/projects/{quote(repository, safe='')}"

    def list_path(self, repository: str) -> str:
        return f"{self._project(repository)}/merge_requests?state=opened&per_page=100"

    def read_list(self, body: bytes) -> Sequence[OpenPullRequest]:
        return [
            OpenPullRequest(
                one.iid,
                one.title,
                one.web_url,
                one.author.username if one.author else "",
                one.source_branch,
                one.sha or "",
                one.target_branch,
                one.source_project_id is None or one.source_project_id != one.target_project_id,
                one.labels,
            )
            for one in read_json(body, list[_GitLabMerge])
        ]

    def comments_path(self, repository: str, number: int) -> str:
        return f"{self._project(repository)}/merge_requests/{number}/notes?per_page=100"

    def read_comments(self, body: bytes) -> Sequence[Comment]:
        return [Comment(str(one.id), one.body or "") for one in read_json(body, list[_GitHubComment])]

    def read_comment(self, body: bytes) -> Comment:
        one = read_json(body, _GitHubComment)
        return Comment(str(one.id), one.body or "")

    def write_comment(self, repository: str, number: int, id: str, text: str) -> PullRequestCall:
        path = f"{self._project(repository)}/merge_requests/{number}/notes"
        return (
            PullRequestCall("PUT", f"{path}/{quote(id)}", {"body": text})
            if id
            else PullRequestCall("POST", path, {"body": text})
        )

    def set_status(
        self, repository: str, commit: str, state: CommitState, text: str, url: str
    ) -> PullRequestCall:
        body = {
            "state": _GITLAB_STATES.get(state, str(state)),
            "name": STATUS_CONTEXT,
            "description": text[:_MAX_STATUS_LENGTH],
        }
        path = f"{self._project(repository)}/statuses/{quote(commit)}"
        return PullRequestCall("POST", path, body | ({"target_url": url} if url else {}))

    def comment_path(self, repository: str, number: int, id: str) -> str:
        return f"{self._project(repository)}/merge_requests/{number}/notes/{quote(id)}"

    def read_sent_comment(self, body: bytes, number: int) -> SentComment:
        one = read_json(body, _GitLabNote)
        is_of_pull = one.noteable_type == "MergeRequest" and not one.system
        author = str(one.author.id) if one.author and one.author.id else ""
        return SentComment(one.body, author, one.noteable_iid or number if is_of_pull else 0)

    def permission_path(self, repository: str, author: str) -> str:
        return f"{self._project(repository)}/members/all/{quote(author)}"

    def may_write(self, body: bytes) -> bool:
        member = read_json(body, _GitLabMember)
        return member.access_level >= _DEVELOPER and member.state == "active"


class _Href(Struct):
    href: str = ""


class _Links(Struct):
    html: _Href = field(default_factory=_Href)


class _Hash(Struct):
    hash: str = ""


class _BitbucketEnd(Struct):
    branch: _Named = field(default_factory=_Named)
    commit: _Hash | None = None
    repository: _GitHubRepo | None = None


class _Nickname(Struct):
    nickname: str = ""
    display_name: str = ""


class _BitbucketPull(Struct):
    id: int
    title: str = ""
    links: _Links = field(default_factory=_Links)
    author: _Nickname | None = None
    source: _BitbucketEnd = field(default_factory=_BitbucketEnd)
    destination: _BitbucketEnd = field(default_factory=_BitbucketEnd)


class _BitbucketPullPage(Struct):
    values: list[_BitbucketPull] = []


class _BitbucketCommits(Struct):
    values: list[_Hash] = []


class _Raw(Struct):
    raw: str = ""


class _BitbucketComment(Struct):
    id: int
    content: _Raw = field(default_factory=_Raw)
    deleted: bool = False


class _BitbucketComments(Struct):
    values: list[_BitbucketComment] = []


_BITBUCKET_STATES: Final = {
    CommitState.PENDING: "INPROGRESS",
    CommitState.SUCCESS: "SUCCESSFUL",
    CommitState.FAILURE: "FAILED",
}


class BitbucketPulls:
    def list_path(self, repository: str) -> str:
        return f"/repositories/{quote(repository)}/pullrequests?state=OPEN&pagelen=50"

    def read_list(self, body: bytes) -> Sequence[OpenPullRequest]:
        return [self._read(one) for one in read_json(body, _BitbucketPullPage).values]

    def _read(self, pull_request: _BitbucketPull) -> OpenPullRequest:
        is_fork = (
            pull_request.source.repository is None
            or pull_request.source.repository != pull_request.destination.repository
        )
        page = urlsplit(pull_request.links.html.href)
        fork = pull_request.source.repository.full_name if pull_request.source.repository else ""
        return OpenPullRequest(
            pull_request.id,
            pull_request.title,
            pull_request.links.html.href,
            (pull_request.author.nickname or pull_request.author.display_name) if pull_request.author else "",
            pull_request.source.branch.name,
            pull_request.source.commit.hash if pull_request.source.commit else "",
            pull_request.destination.branch.name,
            is_fork,
            # The repository has no refs for commits of forks.
            source_url=f"{page.scheme}://{page.netloc}/{fork}.git"
            if is_fork and fork and page.netloc
            else "",
        )

    def commits_path(self, repository: str, number: int) -> str:
        return f"/repositories/{quote(repository)}/pullrequests/{number}/commits?pagelen=1"

    def read_newest_commit(self, body: bytes) -> str:
        found = read_json(body, _BitbucketCommits).values
        return found[0].hash if found else ""

    def comments_path(self, repository: str, number: int) -> str:
        return f"/repositories/{quote(repository)}/pullrequests/{number}/comments?pagelen=100"

    def read_comments(self, body: bytes) -> Sequence[Comment]:
        found = read_json(body, _BitbucketComments).values
        return [Comment(str(one.id), one.content.raw) for one in found if not one.deleted]

    def read_comment(self, body: bytes) -> Comment:
        one = read_json(body, _BitbucketComment)
        return Comment(str(one.id), one.content.raw)

    def write_comment(self, repository: str, number: int, id: str, text: str) -> PullRequestCall:
        path = f"/repositories/{quote(repository)}/pullrequests/{number}/comments"
        body = {"content": {"raw": text}}
        return (
            PullRequestCall("PUT", f"{path}/{quote(id)}", body) if id else PullRequestCall("POST", path, body)
        )

    def set_status(
        self, repository: str, commit: str, state: CommitState, text: str, url: str
    ) -> PullRequestCall:
        body = {
            "key": STATUS_CONTEXT,
            "name": STATUS_CONTEXT,
            "state": _BITBUCKET_STATES[state],
            "description": text[:_MAX_STATUS_LENGTH],
            "url": url or f"https://bitbucket.org/{repository}",
        }
        return PullRequestCall(
            "POST", f"/repositories/{quote(repository)}/commit/{quote(commit)}/statuses/build", body
        )

    def comment_path(self, repository: str, number: int, id: str) -> str:
        return ""  # it tells the rights of others to administrators alone

    def read_sent_comment(self, body: bytes, number: int) -> SentComment:
        raise NotImplementedError

    def permission_path(self, repository: str, author: str) -> str:
        raise NotImplementedError

    def may_write(self, body: bytes) -> bool:
        return False


_FORMS: Final[Mapping[str, PullRequestForm]] = {
    "GITHUB": GitHubPulls(),
    "GITLAB": GitLabPulls(),
    "BITBUCKET": BitbucketPulls(),
}
_GITEA: Final = GiteaPulls()


def pull_form_of(kind: str, api_url: str) -> PullRequestForm:
    """Returns the form of a git server's pull requests, from the type of its token and the address of its
    API."""
    if urlsplit(api_url).path.rstrip("/").endswith(GITEA_PATH):
        return _GITEA
    return _FORMS[kind]
