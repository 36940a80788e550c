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
"""A value in `ids` of an action: the parameter is a word, not the id of a resource."""
_NO_IDS: Final[Mapping[str, str]] = MappingProxyType({})


class Itself(Struct):
    """Stands for a resource of the family that the action belongs to, as its answer."""


Answer: TypeAlias = type[Struct] | type[list[Any]] | None
"""The answer of an action: a struct, a list of structs as `results`, or nothing."""


class Action(Struct, frozen=True, kw_only=True):
    """An operation on a resource beyond create, list, read, update and delete."""

    name: str
    """Names the handler; with the family's title, also the operation."""
    id: str = ""
    """The name of the operation, if the derived one does not fit."""
    method: str
    suffix: str
    """The part of the path after that of the resource, such as `/deploy`."""
    ids: Mapping[str, str] = _NO_IDS
    """Parameters of the suffix, each with the family or the union whose id it is, or with WORD."""
    need: Scope
    summary: str
    body: type[Spec] | None = None
    query: type[Spec] | None = None
    answer: type[Struct] | None = None
    listing: bool = False
    """True if the answer is `results`, each an `answer`."""
    paged: bool = True
    """False if the list is answered whole, unless a page of it is asked for."""
    is_unpaged: bool = False
    """True if the list has no pages at all, as that of regions."""
    is_array: bool = False
    """True if the answer of a listing is the array itself, not an object with `results`."""
    streams: bool = False
    """True if it answers server-sent events, each with an `answer` as its data; the query decides whether
    to follow."""
    is_raw: bool = False
    """True if it is more than a request and an answer of JSON: it opens a websocket, or takes a stream of
    bytes. It is in `Registry.raw`, apart from the other operations."""
    outside: bool = False
    """True if it starts programs or calls other machines while the client waits: it ends when the client
    disconnects."""
    only_reads: bool = False
    """True if it changes nothing, although its method is POST: its body is a question."""
    starts: bool = False
    """True if the operation starts work in services that continues after the answer."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Additional statuses of the operation: a success without a body, or a refusal that similar operations
    do not have."""
    on_collection: bool = False
    """True if its path is that of the collection, not that of one resource."""
    unnested: bool = False
    """True if its path omits the parent, although the family's own path has it: `/cluster/{id}/lock`."""
    description: str = ""


class SubAction(Struct, frozen=True, kw_only=True):
    """A part of a deployment that can be requested alone, such as only a plan."""

    word: str
    """The word for it in the status of the deployment."""
    trigger: str
    """The word for its request in histories."""
    outcome: str
    """The end of the line that is printed after a success: *the service* `is planned`."""


class Trait(Struct, frozen=True, kw_only=True):
    """Actions and other abilities that several families share."""

    name: str
    actions: tuple[Action, ...] = ()
    chosen: type[Chosen] | None = None
    """The struct that selects one of these among several to be deployed; None if the id is enough."""
    needs_behaviour: bool = False
    """True if it needs a Behaviour in `control`, beyond handlers for its actions."""
    ends_services: bool = False
    """True if deleting a resource with this trait ends services: itself, or those below it."""
    runs_once: bool = False
    """True if a deployment runs the service to its end, and nothing of it goes on running."""
    sub_actions: tuple[SubAction, ...] = ()
    removal: type[Spec] | None = None
    """The query of a deletion, if it has more fields than that of other services."""


class ActionOptions(TypedDict, total=False):
    """The optional settings of an action; see `Action`."""

    id: str
    suffix: str
    ids: Mapping[str, str]
    need: Scope
    body: type[Spec] | None
    query: type[Spec] | None
    paged: bool
    is_unpaged: bool
    is_array: bool
    streams: bool
    is_raw: bool
    outside: bool
    only_reads: bool
    starts: bool
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
    """Declares an action that starts or creates something. One that needs Deploy starts something. One that
    does and answers, answers 202."""
    starts = options.get("starts", options.get("need") is Scope.DEPLOY)
    status = 202 if starts and answer is not None else 200
    return _action("POST", name, answer, summary, about, {"starts": starts, "status": status, **options})


def put(name: str, answer: Answer, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an action that replaces or moves something; it may be repeated."""
    return _action("PUT", name, answer, summary, about, options)


def delete(name: str, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an action that removes something. It needs Admin and answers 204."""
    return _action("DELETE", name, None, summary, about, {"need": Scope.ADMIN, "status": 204, **options})


def _action(
    method: str, name: str, answer: Answer, summary: str, about: str, options: ActionOptions
) -> Action:
    usual: ActionOptions = {"suffix": f"/{name}", "need": Scope.WRITE}
    defaults: ActionOptions = {**usual, **options}
    return Action(
        name=name,
        method=method,
        answer=_one_of(answer),
        listing=get_origin(answer) is list,
        summary=summary,
        description=about,
        **defaults,
    )


def _one_of(answer: Any) -> type[Struct] | None:
    """Returns the item type of a list; any other type unchanged."""
    item: type[Struct] | None = get_args(answer)[0] if get_origin(answer) is list else answer
    return item
