"""Reads advanced settings from the document of a resource, which contains those that were changed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.core.declare.resource import Family
from windlass.core.settings.operations import SETTINGS_TRAIT
from windlass.core.settings.service_settings import TABLE
from windlass.core.settings.setting import AdvancedSetting, Effect, kind_of

SETTINGS_FIELD: Final = "advanced_settings"
_SETTINGS_FIELD_BYTES: Final = b'"advanced_settings":{'
_ROWS_BY_NAME: Final[Mapping[str, AdvancedSetting]] = {row.name: row for row in TABLE}
_IMMEDIATE_SETTINGS: Final = frozenset(row.name for row in TABLE if row.effect is Effect.AT_ONCE)


class _StoredChanges(Struct):
    # Any: the values have different types.
    advanced_settings: dict[str, Any] = {}


def changed_in(body: bytes) -> dict[str, Any]:
    """Returns the changed settings in a document. Fast for a document without any."""
    return (
        msgspec.json.decode(body, type=_StoredChanges).advanced_settings
        if _SETTINGS_FIELD_BYTES in body
        else {}
    )


class AdvancedValues:
    """The advanced settings of a service, by key. Settings that were not changed have their defaults."""

    def __init__(self, body: bytes) -> None:
        self._changed = changed_in(body)

    def __bool__(self) -> bool:
        """Returns whether any setting was changed."""
        return bool(self._changed)

    def changed(self, name: str) -> Any:
        """Returns the value of a setting, or None if it has its default."""
        _ROWS_BY_NAME[name]
        return self._changed.get(name)

    def __getitem__(self, name: str) -> Any:
        return self._changed.get(name, _ROWS_BY_NAME[name].default)


def deployed_part(changed_fields: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Returns the settings that act with a deployment of a kind of service, so that a changed one makes a
    service out of date."""
    names = _settings_of_deployment(family)
    return {name: value for name, value in changed_fields.items() if name in names}


@cache
def _settings_of_deployment(family: Family) -> frozenset[str]:
    answers = [
        action.answer for trait in family.traits if trait.name == SETTINGS_TRAIT for action in trait.actions
    ]
    rows = kind_of(answers[0]).rows if answers else ()
    return frozenset(row.name for row in rows if row.effect is Effect.DEPLOYMENT)


def acting_at_once(changed_fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changed_fields.items() if name in _IMMEDIATE_SETTINGS}
