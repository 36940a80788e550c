"""Reads deliveries of git servers: the kind of event, for a push its branches and commits, and for
a pull request its number.

A payload is only a hint. A branch that cannot be read is empty, and stands for every branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from msgspec import Struct, field

from windlass.base.foreign_json import BadJson, payload_of_form, read_json
from windlass.base.lazy import lazy_pattern
from windlass.core.words.comment_commands import COMMAND_PREFIX

GITHUB, GITLAB, GITEA, BITBUCKET = "GITHUB", "GITLAB", "GITEA", "BITBUCKET"
MAX_PUSHES: Final = 50
_EVENTS: Final = (
    # Gitea and Forgejo also send the header of GitHub.
    (b"x-forgejo-event", GITEA),
    (b"x-gitea-event", GITEA),
    (b"x-gitlab-event", GITLAB),
    (b"x-event-key", BITBUCKET),
    (b"x-github-event", GITHUB),
)
_IDS: Final = (
    b"x-forgejo-delivery",
    b"x-gitea-delivery",
    b"x-github-delivery",
    b"idempotency-key",
    b"x-gitlab-event-uuid",
    b"x-request-uuid",
    b"x-request-id",
)
_PUSHES: Final = {"push", "Push Hook", "repo:push", "repo:refs_changed"}
_TAGS: Final = {"Tag Push Hook"}
_PULLS: Final = {"pull_request", "pull_request_sync", "pull_request_label", "Merge Request Hook"}
_PULL_PREFIX: Final = "pullrequest:"
_COMMENTS: Final = {"issue_comment", "pull_request_comment", "Note Hook"}
_COMMENT_ACTIONS: Final = {"created", "create"}
_PINGS: Final = {"ping", "diagnostics:ping"}
_WORD_PATTERN: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9 :_.{}-]{0,99}\Z")
_COMMIT_PATTERN: Final = lazy_pattern(r"[0-9a-f]{7,64}\Z")
_NOTHING_PATTERN: Final = lazy_pattern(r"0{40,64}\Z")
_HEADS: Final = "refs/heads/"
_MAX_BRANCH_LENGTH: Final = 255
_REF_PATTERN: Final = lazy_pattern(rb'"ref"\s*:\s*"(refs/(?:heads|tags)/[^"\\]{1,255})"')
_AFTER_PATTERN: Final = lazy_pattern(rb'"after"\s*:\s*"([0-9a-f]{40,64})"')


_NOTE_PATTERN: Final = lazy_pattern(r"#([0-9]{1,10}), comment ([0-9]{1,19})\Z")


class EventKind(Enum):
    PUSH = auto()
    TAG = auto()
    PULL_REQUEST = auto()
    COMMENT = auto()
    PING = auto()
    OTHER = auto()


class DeliveryHead(NamedTuple):
    """What the headers of a delivery say."""

    provider: str
    event: str
    kind: EventKind
    id: str


class PushedBranch(NamedTuple):
    branch: str
    commit: str


class _Target(Struct):
    hash: str = ""


class _BitbucketRef(Struct):
    type: str = ""
    name: str = ""
    target: _Target = field(default_factory=_Target)


class _ServerRef(Struct):
    id: str = ""


class _BitbucketChange(Struct):
    new: _BitbucketRef | None = None
    ref: _ServerRef | None = None
    to_hash: str = field(default="", name="toHash")


class _BitbucketPush(Struct):
    changes: list[_BitbucketChange] = []


class _NumberedPull(Struct):
    id: int = 0
    iid: int = 0


class _PullPayload(Struct):
    number: int = 0
    object_attributes: _NumberedPull | None = None
    pullrequest: _NumberedPull | None = None


class _AnnouncedComment(Struct):
    id: int = 0
    body: str | None = ""


class _Note(Struct):
    id: int = 0
    note: str = ""
    action: str = "create"


class _CommentPayload(Struct):
    action: str = ""
    issue: _PullPayload | None = None
    comment: _AnnouncedComment | None = None
    object_attributes: _Note | None = None
    merge_request: _NumberedPull | None = None


class CommentHint(NamedTuple):
    """A comment that a delivery tells of. It is read at the git server."""

    pull_request: int
    id: str

    @property
    def note(self) -> str:
        return f"#{self.pull_request}, comment {self.id}"


class _Payload(Struct):
    ref: str = ""
    after: str = ""
    push: _BitbucketPush | None = None
    changes: list[_BitbucketChange] = []


def read_head(headers: Mapping[bytes, bytes]) -> DeliveryHead:
    for name, provider in _EVENTS:
        if name in headers:
            event = headers[name].decode("latin-1")
            event = event if _WORD_PATTERN.match(event) else "?"
            return DeliveryHead(provider, event, _kind(event), _delivery_id(headers))
    return DeliveryHead("", "?", EventKind.OTHER, _delivery_id(headers))


def _kind(event: str) -> EventKind:
    if event.startswith(_PULL_PREFIX):
        return EventKind.PULL_REQUEST
    kinds = (
        (_PUSHES, EventKind.PUSH),
        (_TAGS, EventKind.TAG),
        (_PULLS, EventKind.PULL_REQUEST),
        (_COMMENTS, EventKind.COMMENT),
        (_PINGS, EventKind.PING),
    )
    return next((kind for events, kind in kinds if event in events), EventKind.OTHER)


def _delivery_id(headers: Mapping[bytes, bytes]) -> str:
    sent = next((headers[name] for name in _IDS if headers.get(name)), b"").decode("latin-1")
    return sent if _WORD_PATTERN.match(sent) else ""


def read_pushes(body: bytes, *, is_form: bool, is_whole: bool) -> Sequence[PushedBranch]:
    """Returns the pushed branches with their commits; empty if only tags were pushed or branches removed.

    `is_form`: GitHub sends JSON inside a form, unless told otherwise. `is_whole`: whether `body` is the whole
    body, and not its beginning.
    """
    if is_form and is_whole:
        body = payload_of_form(body)
    if is_whole:
        try:
            return _pushes_in(read_json(body, _Payload))
        except (BadJson, ValueError):
            return [PushedBranch("", "")]
    ref, after = _REF_PATTERN.search(body), _AFTER_PATTERN.search(body)
    if ref is None or is_form:
        return [PushedBranch("", "")]
    name = ref[1].decode("utf-8", "replace")
    return _of_ref(name, after[1].decode() if after else "")


def read_pull_number(body: bytes, *, is_form: bool) -> int:
    """Returns the number of the pull request of a delivery; 0 if it cannot be read. It is for people: what is
    done is decided by a look at the pull requests."""
    if is_form:
        body = payload_of_form(body)
    try:
        payload = read_json(body, _PullPayload)
    except (BadJson, ValueError):
        return 0
    attributes, pull = payload.object_attributes, payload.pullrequest
    number = payload.number or (attributes.iid if attributes else 0) or (pull.id if pull else 0)
    return number if 0 < number < 2**31 else 0


def read_comment_hint(body: bytes, *, is_form: bool) -> CommentHint | None:
    """Returns the new comment of a delivery, if it begins with the prefix of commands and belongs to a pull
    request."""
    try:
        payload = read_json(payload_of_form(body) if is_form else body, _CommentPayload)
    except (BadJson, ValueError):
        return None
    if (note := payload.object_attributes) and payload.merge_request:
        number, id, text, action = payload.merge_request.iid, note.id, note.note, note.action
    elif payload.comment and payload.issue:
        number, id, text = payload.issue.number, payload.comment.id, payload.comment.body or ""
        action = payload.action
    else:
        return None
    is_new = action in _COMMENT_ACTIONS and text.lstrip().startswith(COMMAND_PREFIX)
    return CommentHint(number, str(id)) if is_new and 0 < number < 2**31 and 0 < id < 2**63 else None


def hint_in(note: str) -> CommentHint | None:
    """Returns the comment of the note that `CommentHint.note` made."""
    match = _NOTE_PATTERN.match(note)
    return CommentHint(int(match[1]), match[2]) if match else None


def _pushes_in(payload: _Payload) -> Sequence[PushedBranch]:
    changes = payload.push.changes if payload.push else payload.changes
    if changes:
        return [push for change in changes[:MAX_PUSHES] for push in _of_change(change)]
    return _of_ref(payload.ref, payload.after) if payload.ref else [PushedBranch("", "")]


def _of_change(change: _BitbucketChange) -> Sequence[PushedBranch]:
    if change.ref is not None:
        return _of_ref(change.ref.id, change.to_hash)
    if change.new is None or change.new.type not in {"branch", "named_branch"}:
        return []
    return _of_ref(f"{_HEADS}{change.new.name}", change.new.target.hash)


def _of_ref(ref: str, commit: str) -> Sequence[PushedBranch]:
    if not ref.startswith(_HEADS) or _NOTHING_PATTERN.match(commit):
        return []
    branch = ref.removeprefix(_HEADS)
    if len(branch) > _MAX_BRANCH_LENGTH or not branch.isprintable():
        return [PushedBranch("", "")]
    return [PushedBranch(branch, commit if _COMMIT_PATTERN.match(commit) else "")]
