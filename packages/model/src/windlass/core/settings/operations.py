"""The operations that read and replace advanced settings."""

from __future__ import annotations

from typing import Final

from windlass.core.access import Scope
from windlass.core.declare.actions import Action, Trait, get, put
from windlass.core.declare.registry import StandaloneOperation
from windlass.core.settings.setting import SettingsOfKind

READ, REPLACE, DEFAULTS = "advancedSettings", "editAdvancedSettings", "defaultAdvancedSettings"
"""The names of the handlers."""
SETTINGS_TRAIT: Final = "has_advanced_settings"
_READ_DESCRIPTION: Final = "All keys, each with its value or its default."
_REPLACE_DESCRIPTION: Final = (
    "Keys that are left out get their defaults. The schema says of each key whether a change acts at once, "
    "with the next build, or with the next deployment: the service is then OUT_OF_DATE until it is deployed."
)


def has_advanced_settings(settings: SettingsOfKind, *, required_scope: Scope = Scope.WRITE) -> Trait:
    """Returns the trait of resources with these advanced settings."""
    return Trait(name=SETTINGS_TRAIT, actions=(_read(settings), _replace(settings, required_scope)))


def _read(settings: SettingsOfKind) -> Action:
    return get(
        READ,
        settings.answer,
        "Read the advanced settings",
        _READ_DESCRIPTION,
        id=f"get{settings.title}AdvancedSettings",
        tagged=True,
    )


def _replace(settings: SettingsOfKind, required_scope: Scope) -> Action:
    return put(
        REPLACE,
        settings.answer,
        "Replace the advanced settings",
        _REPLACE_DESCRIPTION,
        id=f"edit{settings.title}AdvancedSettings",
        suffix="/advancedSettings",
        body=settings.body,
        need=required_scope,
        status=201,
        tagged=True,
        conditional=True,
    )


def default_advanced_settings(settings: SettingsOfKind, group: str) -> StandaloneOperation:
    """Returns the operation that reads the defaults, at `/defaultApplicationAdvancedSettings` and such."""
    title = settings.title
    action = get(
        f"{title[0].lower()}{title[1:]}.{DEFAULTS}",
        settings.answer,
        f"Read the default advanced settings ({title.lower()})",
        _READ_DESCRIPTION,
        id=f"getDefault{title}AdvancedSettings",
    )
    return StandaloneOperation(path=f"/default{title}AdvancedSettings", group=group, action=action)
