"""Resource families: declarations from which everything else is derived.

Nothing here runs. A family declares the fields that a client may send, those that the server adds, its place
in the tree and its operations; `registry` derives the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from windlass.base.errors import Invalid
from windlass.core.access import Scope
from windlass.core.declare.actions import Action as Action
from windlass.core.declare.actions import Trait as Trait
from windlass.core.declare.fields import example
from windlass.core.declare.spec import Base as Base
from windlass.core.declare.spec import Owner as Owner
from windlass.core.declare.spec import Shown as Shown
from windlass.core.declare.spec import Spec as Spec
from windlass.core.declare.spec import fields_of
from windlass.core.declare.structs import (
    DeclaredField,
    ReferenceField,
    build_struct,
    declaration,
    declared_fields,
    hidden_fields_of,
    partial_struct,
    references_of,
)
from windlass.core.words.audit import AUDIT_WORDS, AuditWords
from windlass.core.words.naming import enum_value, plural, snake, to_words


class Verb(StrEnum):
    CREATE = "create"
    LIST = "list"
    READ = "read"
    UPDATE = "update"
    PATCH = "patch"
    """The verb PATCH, which follows from `UPDATE`; families do not declare it."""
    DELETE = "delete"


ALL = frozenset(Verb)


class ServiceLists(Struct, frozen=True):
    """A struct with one list for each family of services. The registry builds it, because it knows all
    families."""

    base: type[Struct]
    """The struct that actions name as their body or answer."""
    field: Callable[[Family], tuple[str, Any]] | None = None
    """A function from a family of services to the name and the type of its list."""
    inside: tuple[str, ServiceLists] | None = None
    """The field with a list of such structs, if the lists are not in the struct itself."""

    def build(self, services: Iterable[Family]) -> type[Struct]:
        declared: list[tuple[Any, ...]] = []
        if self.field:
            declared += [(*self.field(family), []) for family in services]
        if self.inside:
            name, lists = self.inside
            declared.append((name, list[lists.build(services)], []))  # type: ignore[misc]
        return build_struct(self.base.__name__, declared, self.base)


Parent: TypeAlias = "Family | Trait | None"


class Family:
    """A family of resources.

    Title, group, parameter and path segment follow from the name unless they are given: `gitToken` is
    GitToken, in the group GitTokens, at `/gitToken/{git_token_id}`.
    """

    def __init__(
        self,
        name: str,
        spec: type[Spec],
        *,
        parent: Parent,
        segment: str = "",
        param: str = "",
        title: str = "",
        spoken: str = "",
        group: str = "",
        about: str = "",
        shown: type[Shown] = Shown,
        verbs: frozenset[Verb] = ALL,
        traits: tuple[Trait, ...] = (),
        actions: tuple[Action, ...] = (),
        nested: bool = False,
        names: str | None = "name",
        list_query: type[Spec] | None = None,
        created: int = 201,
        write_need: Scope = Scope.WRITE,
        normalise: Callable[[Any], None] = lambda spec: None,
        in_full: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        audit: AuditWords = AUDIT_WORDS,
    ) -> None:
        self.name = name
        """The unique name of the family, which is used for rows, handlers and commands."""
        self.spec = spec
        self.parent = parent
        self.segment = segment or name
        """Its segment in paths, such as `aws/credentials`. Unique among the children of a parent."""
        self.param = param or f"{snake(name)}_id"
        self.title = title or name[0].upper() + name[1:]
        self.spoken = spoken
        """Its display name, if the title is none."""
        self.group = group or plural(self.title)
        self.about = about
        self.shown = shown
        self.verbs = verbs
        self.traits = traits
        self.own_actions = actions
        self.nested = nested
        """True if its own path goes through its parent: `/organization/{org_id}/webhook/{webhook_id}`."""
        self.names = names
        """The field whose value is unique among siblings."""
        self.list_query = list_query
        """The query of its list, if that has more than a page."""
        self.created = created
        """The status that answers a creation."""
        self.write_need = write_need
        self.normalise = normalise
        """Brings a spec into its final form, or raises Invalid: rules between fields."""
        self.in_full = in_full
        """Converts a document to the full interface's words, if they differ."""
        self.audit = audit

    def __repr__(self) -> str:
        return f"<Family {self.name}>"

    @cached_property
    def noun(self) -> str:
        """The display name of the family: `environment variable`."""
        return self.spoken or to_words(self.title).removeprefix("organization ") or self.name

    @cached_property
    def enum_value(self) -> str:
        """Its name as a value of fields, such as `service_type` and `scope`: `APPLICATION`."""
        return enum_value(self.name)

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for trait in self.traits for action in trait.actions) + self.own_actions

    @cached_property
    def sent_fields(self) -> tuple[DeclaredField, ...]:
        """The fields that clients send."""
        return declared_fields(self.spec)

    @cached_property
    def additions(self) -> tuple[DeclaredField, ...]:
        """The fields that the server adds."""
        return declared_fields(self.shown)

    @cached_property
    def _hidden_fields(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(hidden_fields_of(self.spec))

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Paths of fields that are encrypted and never answered, such as `token` or `config.password`."""
        return frozenset(self._hidden_fields)

    @cached_property
    def encrypted(self) -> tuple[str, ...]:
        """Fields that are encrypted beside the document."""
        return tuple(sorted(self.hidden | self.redacted))

    @cached_property
    def exact_names(self) -> bool:
        """Returns whether names that differ only in case are distinct."""
        return any(entry.name == self.names and "exact" in entry.extra for entry in self.sent_fields)

    @cached_property
    def counts(self) -> Mapping[str, str]:
        """Families whose resources below it are counted, each with the field for the count."""
        return {entry.extra["counts"]: entry.name for entry in self.additions if "counts" in entry.extra}

    @cached_property
    def counts_users(self) -> str:
        """The field with the number of resources that refer to one of the family; empty if none is kept."""
        return next((entry.name for entry in self.additions if "counts_users" in entry.extra), "")

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Maps a hidden field to the field of the answer that shows whether it is set."""
        return {path: extra["hidden"] for path, extra in self._hidden_fields.items() if extra["hidden"]}

    @cached_property
    def fixed(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.sent_fields if "fixed" in entry.extra)

    @cached_property
    def sent_to(self) -> Mapping[str, tuple[str, ...]]:
        """Maps a hidden field to the paths of the fields that decide where the server sends it."""
        return {path: extra["sent_to"] for path, extra in self._hidden_fields.items()}

    @cached_property
    def redacted(self) -> frozenset[str]:
        """Fields with an address that only Admin sees in full."""
        return frozenset(entry.name for entry in self.sent_fields if "redacted" in entry.extra)

    @cached_property
    def references(self) -> Mapping[str, ReferenceField]:
        """Maps the path of a field, such as `git_repository.git_token_id`, to the reference that it holds."""
        return dict(references_of(self.spec, ""))

    @cached_property
    def owners(self) -> frozenset[str]:
        """Fields of the answer that hold the id of a resource above."""
        return frozenset(field.name for field in fields_of(self.shown) if _is_owner(field.type))

    @cached_property
    def view(self) -> type[Struct]:
        """The struct that the API answers: base fields, then sent ones, then those that the server adds."""
        own = {
            entry.info.name: declaration(entry.info)
            for entry in self.additions
            if "shown_once" not in entry.extra
        }
        sent = {
            entry.name: own.pop(entry.name, declaration(entry.info))
            for entry in self.sent_fields
            if entry.name not in self.hidden
        }
        flags = {flag: (flag, self._flag(field), False) for field, flag in self.flags.items()}
        base = {field.name: declaration(field) for field in fields_of(Base)}
        if own.keys() >= base.keys() and not sent:
            return self.shown  # It declares all fields itself.
        declared = [*(base | sent | own | flags).values()]
        return build_struct(self.title, declared, Shown)

    def _flag(self, field: str) -> Any:
        """Returns the type of a hidden field's flag: true for a required field."""
        is_required = any(entry.info.required for entry in self.sent_fields if entry.name == field)
        return Annotated[bool, example(True)] if is_required else bool

    @cached_property
    def fresh(self) -> type[Struct]:
        """The answer to a creation: the document, and the fields that are shown only once."""
        shown_once = [entry.info for entry in self.additions if "shown_once" in entry.extra]
        if not shown_once:
            return self.view
        declared = [declaration(field) for field in (*fields_of(self.view), *shown_once)]
        return build_struct(f"{self.title}Created", declared, Shown)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Fields that keep their value if a PUT leaves them out: they have no default."""
        marked = {entry.name for entry in self.sent_fields if "kept" in entry.extra or entry.info.required}
        return self.hidden | self.fixed | marked

    @cached_property
    def edit(self) -> type[Spec]:
        """The body of a PUT: a whole spec, in which fields with a default and kept ones may be left out."""
        declared = [
            (entry.name, entry.info.type | UnsetType, UNSET)
            if entry.name in self.kept
            else declaration(entry.info)
            for entry in self.sent_fields
        ]
        return build_struct(f"{self.title}Edit", declared, Spec)

    @cached_property
    def patch(self) -> type[Spec]:
        """The body of a PATCH: any part of the spec, at every depth; null removes a value."""
        return partial_struct(self.spec, f"{self.title}Patch")

    def key_of(self, document: Mapping[str, Any]) -> str | None:
        """Returns the name that must be unique among siblings."""
        return self._key(document[self.names]) if self.names else None

    def key_in(self, view: Struct) -> str | None:
        """The same for an answer."""
        return self._key(getattr(view, self.names)) if self.names else None

    def _key(self, name: object) -> str:
        return str(name) if self.exact_names else str(name).casefold()


def _is_owner(annotation: Any) -> bool:
    return annotation is Owner


def clash(field: str, reason: str) -> Invalid:
    """Returns the error that `normalise` raises for a broken rule between fields."""
    return Invalid(f"{field}: {reason}")
