"""The two kinds of struct that families are declared with: sent by clients, and added by the server."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec
from msgspec import Struct, StructMeta

from windlass.core.declare.fields import Id, Timestamp


class _KeywordStruct(StructMeta):
    """A metaclass for structs with keyword-only fields, in subclasses too (msgspec's own `kw_only` is not
    inherited)."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any
    ) -> _KeywordStruct:
        return super().__new__(mcls, name, bases, space, **{"kw_only": True, **options})


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Spec(Struct, metaclass=_KeywordStruct, forbid_unknown_fields=True):
    """The fields that a client may send: unknown fields are refused by name."""


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Shown(Struct, metaclass=_KeywordStruct):
    """The fields that the server adds to an answer."""


class Chosen(Spec):
    """One of several services to be deployed, with the options of its own deploy."""

    @property
    def service(self) -> str:
        """The id of the service."""
        raise NotImplementedError


class Owner(Struct):
    """`{"id": …}` of a resource above, filled from the field's name."""

    id: Id


class Base(Shown):
    id: Id
    created_at: Timestamp
    updated_at: Timestamp
