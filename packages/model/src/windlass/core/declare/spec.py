"""The two base structs of family declarations: fields that clients send, and fields that the server adds."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any, ClassVar, Final, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import Struct, StructMeta
from msgspec.structs import FieldInfo, fields

from windlass.core.declare.fields import Id, Timestamp


class _KeywordStruct(StructMeta):
    """A metaclass that makes all fields keyword-only, including fields of subclasses (msgspec's own `kw_only`
    is not inherited)."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any
    ) -> _KeywordStruct:
        return super().__new__(mcls, name, bases, space, **{"kw_only": True, **options})


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Spec(Struct, metaclass=_KeywordStruct, forbid_unknown_fields=True):
    """The base struct of fields that clients send. Unknown fields are rejected with their name."""

    own_fields_follow: ClassVar[str] = ""
    """For a shared struct: the name of the field after which each family's own fields are listed."""


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Shown(Struct, metaclass=_KeywordStruct):
    """The base struct of fields that the server adds to a response."""

    own_fields_follow: ClassVar[str] = ""


class Chosen(Spec):
    """One service in a deployment of several services, with the options of its own deployment."""

    @property
    def service(self) -> str:
        """The id of the service."""
        raise NotImplementedError


class Owner(Struct):
    """A reference to a parent resource, `{"id": …}`. The field's name determines the family."""

    id: Id


class Base(Shown):
    id: Id
    created_at: Timestamp
    updated_at: Timestamp


T = TypeVar("T")
_NESTED_TYPES: Final = (Struct, list, dict)


def copy_of(value: T) -> T:
    """Returns a deep copy of a spec. The copy is not validated, because the server may have completed the
    spec."""
    if isinstance(value, list):
        return cast(T, [copy_of(item) for item in value])
    if isinstance(value, dict):
        return cast(T, {key: copy_of(item) for key, item in value.items()})
    if not isinstance(value, Struct):
        return value
    copied = copy(value)
    for name in value.__struct_fields__:
        if isinstance(part := getattr(value, name), _NESTED_TYPES):
            setattr(copied, name, copy_of(part))
    return copied


@cache
def fields_of(struct: type[Struct]) -> tuple[FieldInfo, ...]:
    """Returns the fields of a struct. Cached, because msgspec evaluates all annotations each time."""
    return fields(struct)


def ordered_fields(struct: type[Struct]) -> tuple[FieldInfo, ...]:
    """Returns the fields of a struct in display order."""
    declared = fields_of(struct)
    follows = getattr(struct, "own_fields_follow", "")
    if not follows:
        return declared
    parents = [cls for cls in reversed(struct.__mro__) if getattr(cls, "own_fields_follow", "")]
    shared = [field.name for field in fields_of(parents[0])]
    last = shared.index(follows)

    def place(field: FieldInfo) -> int:
        """Fields with equal keys keep their order, because sorting is stable."""
        return 1 if field.name not in shared else 0 if shared.index(field.name) <= last else 2

    return tuple(sorted(declared, key=place))
