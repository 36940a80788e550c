"""What a family does beyond being stored: its `Behaviour`, found by the family or by one of its traits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from windlass.control.request.context import Context
from windlass.core.access import Actor
from windlass.core.declare.document import (
    Document,
)
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Family
from windlass.store.store import Row, Tx

T = TypeVar("T", bound="type[Behaviour]")


class Draft(Struct):
    """A resource on its way into the store."""

    family: Family
    id: str
    org: str
    parent: Row | None
    spec: Any
    actor: Actor
    extras: Document
    """What the server adds to the answer."""
    answer: Document
    """What only the answer to the creation carries."""
    links: dict[str, str]
    """Whom it refers to, by field."""
    sealed: dict[str, str] = msgspec.field(default_factory=dict)
    """What the server keeps sealed with it, beside what the client sent; later changes leave it as it is."""

    @property
    def above(self) -> Row:
        """The parent. Only organizations have none, and their behaviour does not ask."""
        if self.parent is None:
            raise LookupError(f"{self.family.name} has no parent")
        return self.parent

    def give(self, **fields: Any) -> None:
        self.extras |= fields


class Behaviour:
    """What a family does beyond being stored. Every step is in the transaction of the change."""

    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        """Before: look up, complete, refuse."""

    async def created(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        """After: what goes with it."""

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Any, extras: Document
    ) -> None:
        """Before: complete or refuse; `extras` are laid over the new document."""

    async def updated(self, ctx: Context, tx: Tx, row: Row, before: Document, after: Document) -> None:
        """After: what depends on it."""

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Before: refuse, or let go of what it holds."""

    def refuses(self, document: Document, address: str) -> str:
        """Says why this credential is not sent to this address; empty if it is."""
        raise NotImplementedError("a credential says which addresses it is for")


BEHAVIOURS: dict[str, Behaviour] = {}
"""By family."""
TRAIT_BEHAVIOURS: dict[str, Behaviour] = {}
"""By trait; for families without a behaviour of their own."""
_PLAIN = Behaviour()


def behaves(*families: Family, trait: str = "") -> Callable[[T], T]:
    """Registers the behaviour of these families, or of all families with a trait."""

    def register(behaviour: T) -> T:
        BEHAVIOURS.update({family.name: behaviour() for family in families})
        TRAIT_BEHAVIOURS.update({trait: behaviour()} if trait else {})
        return behaviour

    return register


def behaviour_of(family: Family) -> Behaviour:
    of_traits = (TRAIT_BEHAVIOURS[trait.name] for trait in family.traits if trait.name in TRAIT_BEHAVIOURS)
    return BEHAVIOURS.get(family.name) or next(of_traits, _PLAIN)


def check_behaviours(registry: Registry) -> None:
    """Stops the start where a trait needs a behaviour and there is none."""
    for family in registry.families.values():
        for trait in family.traits:
            if trait.needs_behaviour and trait.name not in TRAIT_BEHAVIOURS and family.name not in BEHAVIOURS:
                raise LookupError(
                    f"{family.name} is {trait.name}, and nothing says what follows from that: "
                    f"register a Behaviour with @behaves(trait={trait.name!r})"
                )
