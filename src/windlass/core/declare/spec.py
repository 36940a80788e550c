"""The two kinds of struct from which families are declared: what clients send, and what the server adds."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec
from msgspec import Struct, StructMeta

from windlass.core.declare.fields import Id, Timestamp


class _KeywordStruct(StructMeta):
    """Structs whose fields go by name, in subclasses too (msgspec's own `kw_only` is not inherited)."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any
    ) -> _KeywordStruct:
        return super().__new__(mcls, name, bases, space, **{"kw_only": True, **options})


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Spec(Struct, metaclass=_KeywordStruct, forbid_unknown_fields=True):
    """What a client may send: unknown fields are refused by name."""


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Shown(Struct, metaclass=_KeywordStruct):
    """What the server adds to an answer."""


class Chosen(Spec):
    """One of several services to be deployed, with what its own deploy would be asked."""

    @property
    def service(self) -> str:
        """Its id."""
        raise NotImplementedError


class Owner(Struct):
    """`{"id": …}` of something above, filled from the field's name."""

    id: Id


class Base(Shown):
    id: Id
    created_at: Timestamp
    updated_at: Timestamp
