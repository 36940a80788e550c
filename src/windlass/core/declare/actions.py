"""Actions: operations beyond create, list, read, update and delete, each declared in one line.

get("status", Status, "Read the status")
post("deploy", Deployment, "Deploy", body=DeployRequest, need=Scope.DEPLOY)
put("moveBefore", list[Itself], "Move it", suffix="/moveBefore/{other_id}", ids={"other_id": "stage"})
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypedDict, Unpack, get_args, get_origin

from msgspec import Struct

from windlass.core.access import Scope
from windlass.core.declare.spec import Chosen, Spec

WORD: Final = ""
"""In the `ids` of an action: the parameter is a word, not the id of a resource."""
_NO_IDS: Final[Mapping[str, str]] = MappingProxyType({})


class Itself(Struct):
    """As an answer: a resource of the family that the action belongs to."""


Answer: TypeAlias = type[Struct] | type[list[Any]] | None
"""What an action answers: one of these, a list of these as `results`, or nothing."""


class Action(Struct, frozen=True, kw_only=True):
    """An operation on a resource beyond the five verbs."""

    name: str
    """Names the handler, and with the family's title the operation."""
    id: str = ""
    """The name of the operation, where the derived one does not fit."""
    method: str
    suffix: str
    """What follows the path of the resource, such as `/deploy`."""
    ids: Mapping[str, str] = _NO_IDS
    """Parameters of the suffix, each with the family or the union whose id it is, or with WORD."""
    need: Scope
    summary: str
    body: type[Spec] | None = None
    query: type[Spec] | None = None
    answer: type[Struct] | None = None
    listing: bool = False
    """Answers `results`, of `answer`."""
    paged: bool = True
    streams: bool = False
    """Answers server-sent events, each with an `answer` as its data; the query says whether to go on."""
    outside: bool = False
    """Starts programs, or asks other machines, while the caller waits: it ends when the caller hangs up."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other statuses that it may answer: a good one has no body, a refusal is beyond those of its kind."""
    on_collection: bool = False
    """Its path is that of the collection, and not that of one resource."""
    unnested: bool = False
    """Its path leaves out the parent, although the family's own path does not: `/cluster/{id}/lock`."""
    description: str = ""


class Trait(Struct, frozen=True, kw_only=True):
    """Actions and other abilities that several families share."""

    name: str
    actions: tuple[Action, ...] = ()
    chosen: type[Chosen] | None = None
    """How one of these is named among several to be deployed; None is by its id."""
    needs_behaviour: bool = False
    """Whether more follows from it than that its actions are handled: `control` has a Behaviour for it."""
    ends_services: bool = False
    """Deleting a resource with this trait ends services: itself, or those below it."""


class ActionOptions(TypedDict, total=False):
    """What an action may say beyond its name, answer and summary; see `Action`."""

    id: str
    suffix: str
    ids: Mapping[str, str]
    need: Scope
    body: type[Spec] | None
    query: type[Spec] | None
    paged: bool
    streams: bool
    outside: bool
    status: int
    also: tuple[int, ...]
    on_collection: bool
    unnested: bool


def get(name: str, answer: Answer, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an action that reads. Without a `suffix` its path ends with its name."""
    return _action("GET", name, answer, summary, about, {"need": Scope.READ, **options})


def post(
    name: str, answer: Answer, summary: str, about: str = "", **options: Unpack[ActionOptions]
) -> Action:
    """Declares an action that starts or creates something. One that needs Deploy and answers, answers 202."""
    starts = options.get("need") is Scope.DEPLOY and answer is not None
    return _action("POST", name, answer, summary, about, {"status": 202 if starts else 200, **options})


def put(name: str, answer: Answer, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an action that replaces or moves something; it may be repeated."""
    return _action("PUT", name, answer, summary, about, options)


def delete(name: str, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an action that takes something away. It needs Admin and answers 204."""
    return _action("DELETE", name, None, summary, about, {"need": Scope.ADMIN, "status": 204, **options})


def _action(
    method: str, name: str, answer: Answer, summary: str, about: str, options: ActionOptions
) -> Action:
    usual: ActionOptions = {"suffix": f"/{name}", "need": Scope.WRITE}
    said: ActionOptions = {**usual, **options}
    return Action(
        name=name,
        method=method,
        answer=_one_of(answer),
        listing=get_origin(answer) is list,
        summary=summary,
        description=about,
        **said,
    )


def _one_of(answer: Any) -> type[Struct] | None:
    """Returns what a list is of; anything else as it is."""
    one: type[Struct] | None = get_args(answer)[0] if get_origin(answer) is list else answer
    return one
