"""Behaviours: additional steps when resources of a family are created, changed or deleted. A behaviour is
registered for a family or for a trait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from windlass.control.context.context import Context
from windlass.core.access import Actor
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Family, Spec
from windlass.store import Row, Tx

S = TypeVar("S", bound=Spec)
T = TypeVar("T", bound="type[AnyBehaviour]")


class Draft(Struct, Generic[S]):
    """A new resource before it is stored."""

    family: Family
    id: str
    org: str
    parent: Row | None
    spec: S
    actor: Actor
    extras: dict[str, object]
    """Fields that the server adds to the document."""
    links: dict[str, str]
    """The ids of referenced resources, by field."""
    answer: dict[str, object] = msgspec.field(default_factory=dict)
    """Additional fields of the response to the creation."""
    sealed: dict[str, str] = msgspec.field(default_factory=dict)
    """Secrets that the server adds to those of the client. Later changes keep them."""
    is_full: bool = False
    """Indicates whether the client uses the full interface, for which the server chooses no defaults."""
    copy_of: Row | None = None
    """The resource from which this one is copied."""

    @property
    def above(self) -> Row:
        """The parent. Only organizations have no parent, and their behaviour does not use this property."""
        if self.parent is None:
            raise LookupError(f"{self.family.name} has no parent")
        return self.parent

    def give(self, **fields: object) -> None:
        self.extras |= fields


class Change(Struct, Generic[S]):
    """A change of a resource before it is stored."""

    row: Row
    """The resource as it is stored."""
    before: S
    """The spec before the change, including encrypted fields."""
    spec: S
    actor: Actor
    extras: dict[str, object]
    """Fields that override those of the new document."""
    sealed: dict[str, str] = msgspec.field(default_factory=dict)
    """Secrets of the server that replace the previous ones."""
    is_full: bool = False
    """Indicates whether the client uses the full interface, for which the server chooses no defaults."""


class Behaviour(Generic[S]):
    """Additional steps of a family, such as `Behaviour[Webhook]`. Each step runs in the transaction of the
    change."""

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[S]) -> None:
        """Completes a new resource before it is stored, or refuses it."""

    async def created(self, ctx: Context, tx: Tx, draft: Draft[S]) -> None:
        """Stores records that belong to a new resource."""

    async def updating(self, ctx: Context, tx: Tx, change: Change[S]) -> None:
        """Completes a change before it is stored, or refuses it."""

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Updates records that depend on a changed resource."""

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Refuses a deletion, or deletes records that belong to the resource."""

    def refuses(self, row: Row, address: str) -> str:
        """Returns why this credential must not be sent to an address; empty if it may be sent."""
        raise NotImplementedError("a credential says which addresses it is for")


AnyBehaviour: TypeAlias = Behaviour[Any]
"""The behaviour of a family that is known only at run time."""
BEHAVIOURS: dict[str, AnyBehaviour] = {}
"""Behaviours by family."""
TRAIT_BEHAVIOURS: dict[str, AnyBehaviour] = {}
"""Behaviours by trait, for families without their own behaviour."""
_DEFAULT_BEHAVIOUR: AnyBehaviour = Behaviour()


def behaves(*families: Family, trait: str = "") -> Callable[[T], T]:
    """Registers a behaviour for families, or for all families with a trait."""

    def register(behaviour: T) -> T:
        BEHAVIOURS.update({family.name: behaviour() for family in families})
        TRAIT_BEHAVIOURS.update({trait: behaviour()} if trait else {})
        return behaviour

    return register


def behaviour_of(family: Family) -> AnyBehaviour:
    if own := BEHAVIOURS.get(family.name):
        return own
    for trait in family.traits:
        if trait.name in TRAIT_BEHAVIOURS:
            return TRAIT_BEHAVIOURS[trait.name]
    return _DEFAULT_BEHAVIOUR


def check_behaviours(registry: Registry) -> None:
    """Raises LookupError at the start if a trait lacks a behaviour that it needs."""
    for family in registry.families.values():
        for trait in family.traits:
            if trait.needs_behaviour and trait.name not in TRAIT_BEHAVIOURS and family.name not in BEHAVIOURS:
                raise LookupError(
                    f"{family.name} is {trait.name}, and nothing says what follows from that: "
                    f"register a Behaviour with @behaves(trait={trait.name!r})"
                )
