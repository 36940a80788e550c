"""The language of settings: each is declared once, with its name, default and meaning.

The product has its own settings; a package brings further ones as a struct, which it names as an entry
point of the group `windlass.settings`.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec import Meta, Struct

SETTINGS: Final = "windlass.settings"
"""The group of entry points."""
S = TypeVar("S", bound=Struct)


def says(
    description: str,
    *,
    secret: bool = False,
    opens: str = "",
    after: str = "",
    is_folder_of_services: bool = False,
    **limits: Any,
) -> Meta:
    """Describes a setting. `opens` names the group that begins with it and lasts until another opens; `after`
    is the setting of the product, or of the same package, that it follows in lists. Services may read a
    folder of services."""
    extra = {"secret": secret, "opens": opens, "after": after, "is_folder_of_services": is_folder_of_services}
    return Meta(description=description, extra=extra, **limits)


def settings_of(form: type[S], settings: object) -> S:
    """Returns the settings that a package declares, out of all settings."""
    return form(**{name: getattr(settings, name) for name in form.__struct_fields__})
