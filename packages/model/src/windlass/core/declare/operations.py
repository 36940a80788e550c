"""Operations, each a method on a path. They are derived from the verbs and actions of families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from windlass.core.access import Scope
from windlass.core.declare.actions import Action, Itself
from windlass.core.declare.queries import REMOVAL, PageOfWhole, Paging, Removal, ServiceListQuery
from windlass.core.declare.resource import Family, Spec, Verb
from windlass.core.declare.spec import fields_of
from windlass.core.declare.structs import extra_of
from windlass.core.declare.traits import DEPLOYABLE_TRAIT
from windlass.core.words.naming import plural, to_words, with_article

_REPLACE_DESCRIPTION = (
    "Replaces the resource: a field that is left out is reset to its default. Fields that have no default, "
    "are encrypted or cannot be changed are kept. To change only some fields, use PATCH."
)
_MERGE_PATCH = (
    "A JSON merge patch (RFC 7396): only the given fields change. An object is merged into the present "
    "one, a list replaces the present one, and null removes a value or sets it to its default."
)


class PathId(Struct, frozen=True, eq=False):
    """A path parameter: the id of a resource, or a word."""

    param: str
    position: int
    """The position among the parameters of the path."""
    noun: str
    families: tuple[Family, ...]
    """The families that the id may belong to; empty for a word."""
    name: str = ""
    """The name of the family or union; empty for a word."""


class Operation(Struct, frozen=True, kw_only=True, eq=False):
    """An operation of the API: a method on a path, with all its properties."""

    id: str
    """The operation's id in the OpenAPI document."""
    method: str
    path: str
    group: str
    summary: str
    need: Scope
    handler: str
    status: int
    also: tuple[int, ...] = ()
    """Additional statuses that the operation may respond with."""
    family: Family | None = None
    parent: Family | None = None
    ids: tuple[PathId, ...] = ()
    """The path parameters."""
    itself: PathId | None = None
    """The path parameter with the id of the resource that the operation acts on."""
    above: PathId | None = None
    """The path parameter with the id of the parent resource."""
    declared_body: type[Spec] | None = None
    """The struct of the request body. Unused for PUT and PATCH, whose structs the family builds."""
    verb: Verb | None = None
    query: type[Spec] | None = None
    answer: type[Struct] | None = None
    listing: bool = False
    paged: bool = False
    is_array: bool = False
    """Returns whether the response of a list is the array itself instead of an object with `results`."""
    media_type: str = ""
    """The media type of a response that is a file; empty for JSON."""
    streams: bool = False
    """Returns whether the response is always a stream of server-sent events, each with an `answer` as
    data."""
    is_raw: bool = False
    """Returns whether the operation opens a websocket or receives a stream of bytes."""
    outside: bool = False
    """Returns whether the operation ends when the client disconnects, because it occupies programs or other
    machines."""
    only_reads: bool = False
    """Returns whether the operation changes nothing, whatever its method."""
    starts: bool = False
    """Returns whether the operation starts work in services that continues after the response."""
    tagged: bool = False
    """Returns whether the response is one resource with an ETag."""
    conditional: bool = False
    """Returns whether the operation supports `If-Match`."""
    description: str = ""

    @property
    def ends_something(self) -> bool:
        """Returns whether the operation stops, cancels or deletes. Such operations have to work on a full
        disk."""
        return self.method == "DELETE" or self.path.rpartition("/")[2].startswith(("stop", "cancel"))

    @property
    def body(self) -> type[Spec] | None:
        """The struct of the request body. Structs of PUT and PATCH are built on demand, because building all
        of them would delay every start."""
        match self.verb:
            case Verb.UPDATE:
                return self.own_family.edit
            case Verb.PATCH:
                return self.own_family.patch
            case _:
                return self.declared_body

    @property
    def shown_once(self) -> frozenset[str]:
        """Names of response fields that are shown only once."""
        return _fields_shown_once(self.answer) if self.answer else frozenset()

    @property
    def pages_if_asked(self) -> bool:
        """Returns whether the response is a whole list unless the request names a page."""
        return self.query is not None and issubclass(self.query, PageOfWhole)

    @property
    def writes(self) -> bool:
        return self.method != "GET" and not self.only_reads

    @property
    def is_repeatable(self) -> bool:
        """Returns whether the operation supports an `Idempotency-Key`."""
        return self.method == "POST" and not self.only_reads

    @property
    def own_family(self) -> Family:
        """The family of the operation. Raises LookupError if the operation has none."""
        if self.family is None:
            raise LookupError(f"{self.id} belongs to no family")
        return self.family

    def subject(self, ids: Sequence[str]) -> str:
        """Returns the id of the resource that the operation acts on, or of the parent of the listed
        resources; empty if there is none."""
        about = self.itself or self.above
        return ids[about.position] if about else ""

    @property
    def params(self) -> list[str]:
        return [id.param for id in self.ids]


@cache
def _fields_shown_once(answer: type[Struct]) -> frozenset[str]:
    """Cached, because many operations have the same answer."""
    names = (field.encode_name for field in fields_of(answer) if "shown_once" in extra_of(field.type))
    return frozenset(names)


def _summary_words(title: str) -> str:
    """Converts a title to words for a summary. The word organization is omitted, because most resources
    belong to one."""
    if title.isupper():
        return title.lower()
    return to_words(title).removeprefix("organization ").replace("api ", "API ")


def of_verbs(
    family: Family, parent: Family | None, prefix: str, collection: str, item: str
) -> Iterator[Operation]:
    noun, title = with_article(family.spoken or _summary_words(family.title)), prefix + family.title
    nouns = plural(family.spoken) if family.spoken else _summary_words(plural(family.title))
    table = {
        Verb.LIST: ("list", "GET", collection, Scope.READ, f"List {nouns}", 200),
        Verb.CREATE: ("create", "POST", collection, family.write_need, f"Create {noun}", family.created),
        Verb.READ: ("get", "GET", item, Scope.READ, f"Read {noun}", 200),
        Verb.UPDATE: ("edit", "PUT", item, family.write_need, f"Replace {noun}", 200),
        Verb.PATCH: ("patch", "PATCH", item, family.write_need, f"Change some fields of {noun}", 200),
        Verb.DELETE: ("delete", "DELETE", item, Scope.ADMIN, f"Delete {noun}", 204),
    }
    for verb, (word, method, path, need, summary, status) in table.items():
        if (Verb.UPDATE if verb is Verb.PATCH else verb) not in family.verbs:
            continue
        yield Operation(
            id=word + (plural(title) if verb is Verb.LIST else title),
            method=method,
            path=path,
            group=family.group,
            summary=summary,
            need=need,
            handler=f"{family.name}.{verb}",
            status=status,
            family=family,
            parent=parent,
            declared_body=family.spec if verb is Verb.CREATE else None,
            verb=verb,
            query=_verb_query(verb, family),
            answer={Verb.CREATE: family.fresh, Verb.DELETE: None}.get(verb, family.view),
            listing=verb is Verb.LIST,
            paged=verb is Verb.LIST,
            tagged=verb in {Verb.CREATE, Verb.READ, Verb.UPDATE, Verb.PATCH},
            conditional=verb in {Verb.UPDATE, Verb.PATCH, Verb.DELETE},
            description=_description(verb, family),
        )


def _verb_query(verb: Verb, family: Family) -> type[Spec] | None:
    if verb is Verb.DELETE and _goes_with_services(family):
        return next((trait.removal for trait in family.traits if trait.removal), Removal)
    if verb is not Verb.LIST:
        return None
    if family.list_query:
        return family.list_query
    return ServiceListQuery if any(trait.name == DEPLOYABLE_TRAIT for trait in family.traits) else Paging


def _description(verb: Verb, family: Family) -> str:
    gone = REMOVAL if _goes_with_services(family) else ""
    words = {
        Verb.CREATE: family.about,
        Verb.UPDATE: _REPLACE_DESCRIPTION,
        Verb.PATCH: _MERGE_PATCH,
        Verb.DELETE: gone,
    }
    return words.get(verb, "")


def _goes_with_services(family: Family) -> bool:
    return any(trait.ends_services for trait in family.traits)


def of_action(action: Action, base: str, id: str, handler: str, group: str, noun: str = "") -> Operation:
    """Returns the operation for an action. `noun`: the object that the summary mentions."""
    return Operation(
        id=id,
        method=action.method,
        path=base + action.suffix if noun else base,
        group=group,
        summary=f"{action.summary} ({noun})" if noun else action.summary,
        need=action.need,
        handler=handler,
        status=action.status,
        also=action.also,
        declared_body=action.body,
        query=action.query or _query_of_list(action),
        answer=action.answer,
        tagged=action.tagged or (action.answer is Itself and not action.listing),
        conditional=action.conditional,
        listing=action.listing,
        paged=action.listing and action.paged,
        is_array=action.is_array,
        media_type=action.media_type,
        streams=action.streams,
        is_raw=action.is_raw,
        outside=action.outside,
        only_reads=action.only_reads,
        starts=action.starts,
        description=action.description,
    )


def _query_of_list(action: Action) -> type[Paging] | None:
    if not action.listing or action.method != "GET" or action.is_unpaged:
        return None
    return Paging if action.paged else PageOfWhole


def action_id(action: Action, title: str) -> str:
    """Returns the operation's id: deployApplication for `deploy`, getApplicationStatus for `status`."""
    name = action.name
    derived = f"get{title}{name[0].upper()}{name[1:]}" if name in {"status", "log"} else f"{name}{title}"
    return action.id or derived
