"""The settings of an installation: `settings` declares them, `loading` reads them."""

from windlass.base.errors import BadSetting
from windlass.config.loading import (
    FORMER_NAMES,
    VARIABLE_PREFIX,
    ShownSetting,
    describe,
    folders_of_services,
    load,
    settings_file,
    take_secrets,
    take_variables,
    to_type,
    unknown_variables,
)
from windlass.config.settings import Settings

DATABASE = "windlass.db"

__all__ = [
    "DATABASE",
    "FORMER_NAMES",
    "VARIABLE_PREFIX",
    "BadSetting",
    "Settings",
    "ShownSetting",
    "describe",
    "folders_of_services",
    "load",
    "settings_file",
    "take_secrets",
    "take_variables",
    "to_type",
    "unknown_variables",
]
