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

WORD_PARAMETER: Final = ""
"""A value in the `ids` of an action: the path parameter is a word instead of a resource id."""
_NO_IDS: Final[Mapping[str, str]] = MappingProxyType({})


class Itself(Struct):
    """A placeholder for the action's own family, used as an answer."""


Answer: TypeAlias = type[Struct] | type[list[Any]] | None
"""The answer of an action: a struct, a list of structs (as `results`), or None for an empty body."""


class Action(Struct, frozen=True, kw_only=True):
    """An operation on a resource beyond create, list, read, update and delete."""

    name: str
    """The name of the handler. Together with the family's title, also the default operation id."""
    id: str = ""
    """The operation id; empty for the default."""
    method: str
    suffix: str
    """The part of the path that follows the resource's path, such as `/deploy`."""
    ids: Mapping[str, str] = _NO_IDS
    """Path parameters in the suffix, each with the family or union that its id belongs to, or
    `WORD_PARAMETER`."""
    need: Scope
    summary: str
    body: type[Spec] | None = None
    query: type[Spec] | None = None
    answer: type[Struct] | None = None
    listing: bool = False
    """Returns whether the response is a list of `answer` objects, in `results`."""
    paged: bool = True
    """Returns whether the list is always paged. If not, the response is the whole list unless the request
    names a page."""
    is_unpaged: bool = False
    """Returns whether the list has no paging at all, like the list of regions."""
    is_array: bool = False
    """Returns whether the response is the array itself instead of an object with `results`."""
    media_type: str = ""
    """The media type of a response that is a file; empty for JSON."""
    streams: bool = False
    """Returns whether the response is always a stream of server-sent events, each with an `answer` as data.
    The query decides whether the stream continues with new events."""
    is_raw: bool = False
    """Returns whether the operation opens a websocket or receives a stream of bytes. Such operations are in
    `Registry.raw`, separate from the others."""
    outside: bool = False
    """Returns whether the operation starts programs or calls other machines during the request. It ends when
    the client disconnects."""
    only_reads: bool = False
    """Returns whether the operation changes nothing although its method is POST, because its body is a
    query."""
    starts: bool = False
    """Returns whether the operation starts work in services that continues after the response."""
    tagged: bool = False
    """Returns whether the response has the ETag of the resource, although it is not the resource itself."""
    conditional: bool = False
    """Returns whether the operation supports `If-Match`."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Additional response statuses: a success without a body, or an error that similar operations do not
    have."""
    on_collection: bool = False
    """Returns whether the path begins with the collection's path instead of a resource's path."""
    unnested: bool = False
    """Returns whether the path omits the parent although the family is nested: `/cluster/{id}/lock`."""
    description: str = ""


class SubAction(Struct, frozen=True, kw_only=True):
    """A part of a deployment that can be requested separately, such as only a plan."""

    word: str
    """The value of `sub_action` in the deployment's status."""
    trigger: str
    """The value that represents the request in histories."""
    outcome: str
    """The end of the message that is printed after a success: *the service* `is planned`."""


class Trait(Struct, frozen=True, kw_only=True):
    """Actions and other abilities that several families share."""

    name: str
    actions: tuple[Action, ...] = ()
    chosen: type[Chosen] | None = None
    """The struct that selects a service in a deployment of several services; None if the id is sufficient."""
    needs_behaviour: bool = False
    """Returns whether the trait needs a Behaviour in `control`, in addition to the handlers of its
    actions."""
    ends_services: bool = False
    """Returns whether deleting a resource with this trait ends services: the resource itself or services
    below it."""
    runs_once: bool = False
    """Returns whether a deployment runs the service's program to completion. Nothing keeps running
    afterwards."""
    sub_actions: tuple[SubAction, ...] = ()
    removal: type[Spec] | None = None
    """The query of a deletion, if it has more fields than deletions of other services."""


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
    media_type: str
    streams: bool
    is_raw: bool
    outside: bool
    only_reads: bool
    starts: bool
    tagged: bool
    conditional: bool
    status: int
    also: tuple[int, ...]
    on_collection: bool
    unnested: bool


def get(name: str, answer: Answer, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an action that only reads. The default suffix is the action's name."""
    return _action("GET", name, answer, summary, about, {"need": Scope.READ, **options})


def post(
    name: str, answer: Answer, summary: str, about: str = "", **options: Unpack[ActionOptions]
) -> Action:
    """Declares an action that starts or creates something.

    By default, an action that needs Deploy starts work. If it also has an answer, its status is 202.
    """
    starts = options.get("starts", options.get("need") is Scope.DEPLOY)
    status = 202 if starts and answer is not None else 200
    return _action("POST", name, answer, summary, about, {"starts": starts, "status": status, **options})


def put(name: str, answer: Answer, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an idempotent action that replaces or moves something."""
    return _action("PUT", name, answer, summary, about, options)


def delete(name: str, summary: str, about: str = "", **options: Unpack[ActionOptions]) -> Action:
    """Declares an action that removes something. By default, it needs Admin and responds with 204."""
    return _action("DELETE", name, None, summary, about, {"need": Scope.ADMIN, "status": 204, **options})


def _action(
    method: str, name: str, answer: Answer, summary: str, about: str, options: ActionOptions
) -> Action:
    usual: ActionOptions = {"suffix": f"/{name}", "need": Scope.WRITE}
    defaults: ActionOptions = {**usual, **options}
    return Action(
        name=name,
        method=method,
        answer=_item_type(answer),
        listing=get_origin(answer) is list,
        summary=summary,
        description=about,
        **defaults,
    )


def _item_type(answer: Any) -> type[Struct] | None:
    """Returns the item type of a list; any other type unchanged."""
    item: type[Struct] | None = get_args(answer)[0] if get_origin(answer) is list else answer
    return item
