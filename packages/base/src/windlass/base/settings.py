"""Declares settings: each with its name, default and description.

The product declares its own settings. A package adds a struct with further settings by an entry point of the
group `windlass.settings`.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec import Meta, Struct

SETTINGS_GROUP: Final = "windlass.settings"
"""The group of entry points that declare settings."""
S = TypeVar("S", bound=Struct)


def says(
    description: str,
    *,
    secret: bool = False,
    opens: str = "",
    after_setting: str = "",
    is_folder_of_services: bool = False,
    **limits: Any,
) -> Meta:
    """Returns the metadata of a setting.

    `opens` is the title of a new group of settings that begins with this setting. `after_setting` is the
    setting that precedes it in lists: a setting of the product or of the same package.
    `is_folder_of_services` marks a folder that services may read.
    """
    extra = {
        "secret": secret,
        "opens": opens,
        "after": after_setting,
        "is_folder_of_services": is_folder_of_services,
    }
    return Meta(description=description, extra=extra, **limits)


def settings_of(struct_type: type[S], settings: object) -> S:
    """Returns the settings that a package declares, selected from all settings."""
    return struct_type(**{name: getattr(settings, name) for name in struct_type.__struct_fields__})
