"""A row of the table of advanced settings, and the structs that are derived from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.inspect import (
    BoolType,
    DictType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    Type,
    UnionType,
    type_info,
)
from msgspec.structs import replace

from windlass.core.declare.resource import Shown, Spec
from windlass.core.declare.structs import build_struct


class Effect(StrEnum):
    """The time at which a changed value acts, or the reason why it does not."""

    AT_ONCE = "AT_ONCE"
    BUILD = "BUILD"
    DEPLOYMENT = "DEPLOYMENT"
    """The service is OUT_OF_DATE until it is deployed."""
    NONE = "NONE"
    KUBERNETES = "KUBERNETES"
    """The setting has a meaning on Kubernetes only."""


EFFECT_SENTENCES: Final[Mapping[Effect, str]] = {
    Effect.AT_ONCE: "Acts at once",
    Effect.BUILD: "Acts with the next build",
    Effect.DEPLOYMENT: "Acts with the next deployment",
    Effect.NONE: "Stored for other clients of this interface; has no effect here",
    Effect.KUBERNETES: "Stored for other clients of this interface; has a meaning on Kubernetes only",
}
EFFECTS_OF_WINDLASS: Final = frozenset({Effect.AT_ONCE, Effect.BUILD, Effect.DEPLOYMENT})


EVERY_ENGINE: Final = "process, Docker, Kubernetes"
"""The engines with their names in sentences. Most settings act on all of them: those of the gateway and of
job runs do not depend on the engine, and the others are verbs that each engine has."""


class AdvancedSetting(Struct, frozen=True, kw_only=True):
    name: str
    type: Any
    """The annotation of the value."""
    default: Any
    about: str
    """A sentence without its full stop."""
    unit: str = ""
    effect: Effect = Effect.NONE
    note: str = ""
    """An exception, such as an engine on which the setting does not act."""
    engines: str = EVERY_ENGINE
    """The engines on which it acts."""
    operator: str = ""
    """The server's setting that is the default, so that `default` is the default of that setting."""
    of: str = ""
    """The kinds of resource that have the setting, by their letters."""
    acts_of: str = ""
    """The kinds on which it acts, if not all of them."""
    why_not: str = ""
    """Why it does not act on the other kinds."""

    def of_kind(self, letter: str) -> AdvancedSetting:
        """Returns the setting of one kind, which has no effect if it does not act there."""
        if letter in (self.acts_of or self.of):
            return self
        return replace(self, effect=Effect.NONE, note=self.why_not)

    @property
    def acts(self) -> bool:
        return self.effect in EFFECTS_OF_WINDLASS

    @property
    def type_in_words(self) -> str:
        """The type of the value, such as `integer, 0 to 3600`."""
        return type_in_words(self.type)

    @property
    def meaning(self) -> str:
        sentences = [self.about, EFFECT_SENTENCES[self.effect], *([self.note] if self.note else [])]
        if self.operator:
            sentences.append(f"The default is the server's setting {self.operator}")
        return ". ".join(sentences)

    @property
    def annotation(self) -> Any:
        marks = {"x-acts": self.effect} if self.acts else {"x-without-effect": True}
        return Annotated[self.type, Meta(description=self.meaning, extra_json_schema=marks)]


def type_in_words(annotation: Any) -> str:
    """Returns the type of an annotation as a reader of JSON calls it."""
    return _words_of(type_info(annotation))


def _words_of(info: Type) -> str:
    match info:
        case Metadata(type=inner):
            return _words_of(inner)
        case UnionType(types=types):
            return " or ".join(_words_of(one) for one in types)
        case LiteralType(values=values):
            return "one of " + ", ".join(map(str, values))
        case IntType(ge=least, le=most) if least is not None and most is not None:
            return f"integer, {least} to {most}"
        case BoolType():
            return "true or false"
        case StrType():
            return "text"
        case NoneType():
            return "null"
        case ListType(item_type=item):
            return f"list of {_words_of(item)}s"
        case DictType():
            return "object of texts"
    return type(info).__name__.removesuffix("Type").lower()


class SettingsOfKind(Struct, frozen=True, eq=False):
    """All advanced settings of one kind of resource."""

    title: str
    """The name of the kind in schemas and operations, such as `Application`."""
    rows: Sequence[AdvancedSetting]
    body: type[Spec]
    answer: type[Shown]


_SETTINGS_BY_ANSWER: Final[dict[type[Struct], SettingsOfKind]] = {}


def kind_of(answer: type[Struct] | None) -> SettingsOfKind:
    """Returns the settings that an operation answers."""
    return _SETTINGS_BY_ANSWER[answer]  # type: ignore[index]


def settings_of_kind(title: str, rows: Sequence[AdvancedSetting]) -> SettingsOfKind:
    name = f"{title}AdvancedSettings"
    body = build_struct(f"{name}Request", [_struct_field(row, is_sent=True) for row in rows], Spec)
    answer = build_struct(name, [_struct_field(row, is_sent=False) for row in rows], Shown)
    body.__doc__ = answer.__doc__ = f"The advanced settings of {title.lower()} resources."
    kind = _SETTINGS_BY_ANSWER[answer] = SettingsOfKind(title, rows, body, answer)
    return kind


def _struct_field(row: AdvancedSetting, *, is_sent: bool) -> tuple[str, Any, Any]:
    annotation, default = row.annotation, row.default
    if is_sent and row.operator:
        annotation, default = annotation | UnsetType, UNSET
    field = row.name.replace(".", "__")
    if isinstance(default, list | dict):
        return field, annotation, msgspec.field(default_factory=type(default), name=row.name)
    return field, annotation, msgspec.field(default=default, name=row.name)
