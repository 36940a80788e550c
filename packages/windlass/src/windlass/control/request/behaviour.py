"""Behaviours: the steps of a family beyond being stored, found by the family or by one of its traits."""

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
    """A resource that is being created."""

    family: Family
    id: str
    org: str
    parent: Row | None
    spec: S
    actor: Actor
    extras: dict[str, object]
    """The fields that the server adds to the answer."""
    links: dict[str, str]
    """The ids of the resources that it refers to, by field."""
    answer: dict[str, object] = msgspec.field(default_factory=dict)
    """Fields that are only in the answer to the creation."""
    sealed: dict[str, str] = msgspec.field(default_factory=dict)
    """Secrets of the server, in addition to those of the client; later changes do not affect them."""
    is_full: bool = False
    """True for a client of the full interface: Windlass chooses no defaults for it."""
    copy_of: Row | None = None
    """The resource that it is a copy of."""

    @property
    def above(self) -> Row:
        """The parent. Only organizations have none, and their behaviour does not ask for it."""
        if self.parent is None:
            raise LookupError(f"{self.family.name} has no parent")
        return self.parent

    def give(self, **fields: object) -> None:
        self.extras |= fields


class Change(Struct, Generic[S]):
    """A change of a resource on its way into the store."""

    row: Row
    """The resource as it is stored."""
    before: S
    """Its former spec, with the fields that are sealed."""
    spec: S
    actor: Actor
    extras: dict[str, object]
    """Fields that are laid over the new document."""
    sealed: dict[str, str] = msgspec.field(default_factory=dict)
    """Encrypted fields of the server that replace the former ones."""
    is_full: bool = False
    """True for a client of the full interface: Windlass chooses no defaults for it."""


class Behaviour(Generic[S]):
    """The steps of a family beyond being stored: `Behaviour[Webhook]`. Each runs in the transaction of the
    change."""

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[S]) -> None:
        """Completes a new resource before it is stored, or refuses it."""

    async def created(self, ctx: Context, tx: Tx, draft: Draft[S]) -> None:
        """Stores what goes with a new resource."""

    async def updating(self, ctx: Context, tx: Tx, change: Change[S]) -> None:
        """Completes a change before it is stored, or refuses it."""

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Updates data that depends on a changed resource."""

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Refuses a deletion, or deletes what belongs to the resource."""

    def refuses(self, row: Row, address: str) -> str:
        """Returns why this credential is not sent to this address; empty if it is."""
        raise NotImplementedError("a credential says which addresses it is for")


AnyBehaviour: TypeAlias = Behaviour[Any]
"""The behaviour of a family that is known at run time only."""
BEHAVIOURS: dict[str, AnyBehaviour] = {}
"""Keyed by family."""
TRAIT_BEHAVIOURS: dict[str, AnyBehaviour] = {}
"""Keyed by trait; for families without their own behaviour."""
_PLAIN: AnyBehaviour = Behaviour()


def behaves(*families: Family, trait: str = "") -> Callable[[T], T]:
    """Registers the behaviour of these families, or of all families with a trait."""

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
    return _PLAIN


def check_behaviours(registry: Registry) -> None:
    """Refuses to start if a trait lacks a behaviour that it needs."""
    for family in registry.families.values():
        for trait in family.traits:
            if trait.needs_behaviour and trait.name not in TRAIT_BEHAVIOURS and family.name not in BEHAVIOURS:
                raise LookupError(
                    f"{family.name} is {trait.name}, and nothing says what follows from that: "
                    f"register a Behaviour with @behaves(trait={trait.name!r})"
                )
