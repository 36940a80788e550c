"""Resource families: declarations from which everything else is derived.

A family declares the fields that clients send, the fields that the server adds, its parent and its
operations. `registry` derives the operations.
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
from windlass.core.declare.exported import ExportedResource
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
    reference_lists_of,
    references_of,
    staying_fields_of,
)
from windlass.core.words.audit import AUDIT_WORDS, AuditWords
from windlass.core.words.naming import enum_value, plural, snake, to_words


class Verb(StrEnum):
    CREATE = "create"
    LIST = "list"
    READ = "read"
    UPDATE = "update"
    PATCH = "patch"
    """Partial updates. Derived from `UPDATE`; families do not declare it."""
    DELETE = "delete"


ALL_VERBS = frozenset(Verb)


class ServiceLists(Struct, frozen=True):
    """A struct with one list per service family. The registry builds it, because only the registry has all
    families."""

    base: type[Struct]
    """The placeholder struct that actions declare as body or answer."""
    field: Callable[[Family], tuple[str, Any]] | None = None
    """Returns the name and type of the list for a service family."""
    inside: tuple[str, ServiceLists] | None = None
    """The field that contains a list of such structs, if the struct itself has no lists."""

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

    Title, group, path parameter and segment are derived from the name by default: `gitToken` has the title
    GitToken, the group GitTokens, and the path `/gitToken/{git_token_id}`.
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
        verbs: frozenset[Verb] = ALL_VERBS,
        traits: tuple[Trait, ...] = (),
        actions: tuple[Action, ...] = (),
        nested: bool = False,
        names: str | None = "name",
        list_query: type[Spec] | None = None,
        created_status: int = 201,
        write_need: Scope = Scope.WRITE,
        normalise: Callable[[Any], None] = lambda spec: None,
        in_full: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        audit: AuditWords = AUDIT_WORDS,
        exported: ExportedResource | None = None,
    ) -> None:
        self.name = name
        """The unique name of the family, used in rows, handlers and commands."""
        self.spec = spec
        self.parent = parent
        self.segment = segment or name
        """The path segment, such as `aws/credentials`. Unique among the families with the same parent."""
        self.param = param or f"{snake(name)}_id"
        self.title = title or name[0].upper() + name[1:]
        self.spoken = spoken
        """The display name; empty if it is derived from the title."""
        self.group = group or plural(self.title)
        self.about = about
        self.shown = shown
        self.verbs = verbs
        self.traits = traits
        self.own_actions = actions
        self.nested = nested
        """Returns whether a resource's path includes its parent:
        `/organization/{org_id}/webhook/{webhook_id}`."""
        self.names = names
        """The field that identifies a resource among its siblings; None if the family has no names."""
        self.list_query = list_query
        """The query of the list, if it has parameters besides paging."""
        self.created = created_status
        """The status of a successful creation."""
        self.write_need = write_need
        self.normalise = normalise
        """Normalizes a spec and checks rules between its fields; raises Invalid if a rule is broken."""
        self.in_full = in_full
        """Converts a document to the vocabulary of the full interface, if it differs."""
        self.audit = audit
        self.exported = exported
        """The resource of the Terraform provider that it is exported as; None if it is not exported."""

    def __repr__(self) -> str:
        return f"<Family {self.name}>"

    @cached_property
    def noun(self) -> str:
        """The display name of the family: `environment variable`."""
        return self.spoken or to_words(self.title).removeprefix("organization ") or self.name

    @cached_property
    def enum_value(self) -> str:
        """The family's value in fields such as `service_type` and `scope`: `APPLICATION`."""
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
        """Paths of fields that are encrypted and never returned, such as `token` or `config.password`."""
        return frozenset(self._hidden_fields)

    @cached_property
    def encrypted(self) -> tuple[str, ...]:
        """Paths of fields that are stored encrypted, separate from the document."""
        return tuple(sorted(self.hidden | self.redacted))

    @cached_property
    def exact_names(self) -> bool:
        """Returns whether names are case-sensitive."""
        return any(entry.name == self.names and "exact" in entry.extra for entry in self.sent_fields)

    @cached_property
    def counts(self) -> Mapping[str, str]:
        """Child families whose resources are counted, each with the counter field."""
        return {entry.extra["counts"]: entry.name for entry in self.additions if "counts" in entry.extra}

    @cached_property
    def counts_users(self) -> str:
        """The field that counts the resources referring to a resource of this family; empty if they are not
        counted."""
        return next((entry.name for entry in self.additions if "counts_users" in entry.extra), "")

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Maps each hidden field to the response field that shows whether a value is set."""
        return {path: extra["hidden"] for path, extra in self._hidden_fields.items() if extra["hidden"]}

    @cached_property
    def fixed(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.sent_fields if "fixed" in entry.extra)

    @cached_property
    def sent_to(self) -> Mapping[str, tuple[str, ...]]:
        """Maps each hidden field to the paths of the fields that determine where the server sends its
        value."""
        return {path: extra["sent_to"] for path, extra in self._hidden_fields.items()}

    @cached_property
    def redacted(self) -> frozenset[str]:
        """Fields with an address that only Admins see completely."""
        return frozenset(entry.name for entry in self.sent_fields if "redacted" in entry.extra)

    @cached_property
    def references(self) -> Mapping[str, ReferenceField]:
        """Maps the path of each field with a resource id, such as `git_repository.git_token_id`, to its
        reference."""
        return dict(references_of(self.spec, ""))

    @cached_property
    def reference_lists(self) -> Mapping[str, str]:
        """Maps each field with a list of references, such as `labels_groups`, to the family of these
        resources. Responses have the whole resources in their place."""
        return dict(reference_lists_of(self.spec))

    @cached_property
    def staying(self) -> frozenset[str]:
        """Paths of fields whose values a rollback does not change, such as `storage`: those that are marked,
        the name, and what cannot be changed or is not shown."""
        names = {self.names} if self.names else set()
        return frozenset({*staying_fields_of(self.spec), *names, *self.fixed, *self.encrypted})

    @cached_property
    def owners(self) -> frozenset[str]:
        """Response fields that contain the id of a parent resource."""
        return frozenset(field.name for field in fields_of(self.shown) if _is_owner(field.type))

    @cached_property
    def view(self) -> type[Struct]:
        """The struct of responses: base fields, then sent fields, then fields that the server adds."""
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
        flags = {flag: (flag, self._flag_type(field), False) for field, flag in self.flags.items()}
        base = {field.name: declaration(field) for field in fields_of(Base)}
        if own.keys() >= base.keys() and not sent:
            return self.shown  # The struct already declares all fields.
        declared = [*(base | sent | own | flags).values()]
        return build_struct(self.title, declared, Shown)

    def _flag_type(self, field: str) -> Any:
        """Returns the type of a hidden field's flag. The example of a required field is true."""
        is_required = any(entry.info.required for entry in self.sent_fields if entry.name == field)
        return Annotated[bool, example(True)] if is_required else bool

    @cached_property
    def fresh(self) -> type[Struct]:
        """The struct of the response to a creation, including the fields that are shown only once."""
        shown_once = [entry.info for entry in self.additions if "shown_once" in entry.extra]
        if not shown_once:
            return self.view
        declared = [declaration(field) for field in (*fields_of(self.view), *shown_once)]
        return build_struct(f"{self.title}Created", declared, Shown)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Fields that keep their value if a PUT omits them, because they have no default."""
        marked = {entry.name for entry in self.sent_fields if "kept" in entry.extra or entry.info.required}
        return self.hidden | self.fixed | marked

    @cached_property
    def edit(self) -> type[Spec]:
        """The body of a PUT: a whole spec, except that kept fields and fields with a default may be
        omitted."""
        declared = [
            (entry.name, entry.info.type | UnsetType, UNSET)
            if entry.name in self.kept
            else declaration(entry.info)
            for entry in self.sent_fields
        ]
        return build_struct(f"{self.title}Edit", declared, Spec)

    @cached_property
    def patch(self) -> type[Spec]:
        """The body of a PATCH: any part of the spec, at every depth. Null removes a value."""
        return partial_struct(self.spec, f"{self.title}Patch")

    def key_of(self, document: Mapping[str, Any]) -> str | None:
        """Returns the name that must be unique among siblings; None if the family has no names."""
        return self._name_key(document[self.names]) if self.names else None

    def key_in(self, view: Struct) -> str | None:
        """Returns the unique name of a resource in a response; None if the family has no names."""
        return self._name_key(getattr(view, self.names)) if self.names else None

    def _name_key(self, name: object) -> str:
        return str(name) if self.exact_names else str(name).casefold()


def _is_owner(annotation: Any) -> bool:
    return annotation is Owner


def clash(field: str, reason: str) -> Invalid:
    """Returns the exception for a broken rule between fields, which `normalise` raises."""
    return Invalid(f"{field}: {reason}")
