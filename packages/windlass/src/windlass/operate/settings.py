"""Settings on the command line: flags for all settings that are not secret, and the output of values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from windlass.config import FORMER_NAMES, Settings, ShownSetting, describe, load
from windlass.terminal.sections import Option

DEFAULT_URL = "http://127.0.0.1:8080"
"""The address at which the command line expects the server by default."""
_FILE_HELP = "TOML file with settings; or name it in WINDLASS_CONFIG."


def all_settings() -> list[ShownSetting]:
    return describe(Settings(), {})


def flags(*names: str) -> list[click.Option]:
    """Returns the flags for the given settings, or for all.

    Secrets have no flags, because every user of the machine can read the command lines of processes.
    """
    file = Option(["config_file", "--config"], type=click.Path(path_type=Path), help=_FILE_HELP)
    wanted = [
        setting for setting in all_settings() if not setting.secret and (not names or setting.name in names)
    ]
    return [*map(_flag, wanted), file]


def settings_from(options: Mapping[str, Any]) -> tuple[Settings, Mapping[str, str]]:
    """Returns the settings that result from flags, environment and file, and the source of each setting."""
    chosen = {setting.name: options.get(setting.name) for setting in all_settings()}
    flags = {name: value for name, value in chosen.items() if value not in (None, ())}
    return load(flags, file=options["config_file"])


def _flag(setting: ShownSetting) -> click.Option:
    name = "--" + setting.name.replace("_", "-")
    declared = [setting.name, f"{name}/--no-{name[2:]}" if isinstance(setting.default, bool) else name]
    declared += [f"--{old.replace('_', '-')}" for old, new in FORMER_NAMES.items() if new == setting.name]
    return Option(
        declared,
        type=type(setting.default) if type(setting.default) in {int, float} else None,
        multiple=isinstance(setting.default, tuple),
        default=None,
        help=f"{setting.meaning}.{_default(setting.default)}",
        section=setting.group,
    )


def _default(value: Any) -> str:
    again = "  May be repeated." if isinstance(value, tuple) else ""
    return again + (f"  [{to_text(value)}]" if value not in ("", (), False) else "")


def to_text(value: Any) -> str:
    """Returns a value in the form in which it is written on a command line."""
    match value:
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return " ".join(str(item) for item in value)
        case _:
            return str(value)


def example() -> str:
    """Returns a TOML file with every setting, commented out and at its default."""
    lines = [
        "# Settings of Windlass. Name this file in WINDLASS_CONFIG, or as in: windlass serve --config FILE",
        "# Flags override environment variables, and these override this file.",
    ]
    group = ""
    for setting in all_settings():
        if setting.group != group:
            group = setting.group
            lines += ["", f"# {group}"]
        lines += [
            "",
            f"# {setting.meaning}  ({setting.variable})",
            f"# {setting.name} = {_to_toml(setting.default)}",
        ]
    return "\n".join(lines) + "\n"


def _to_toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case list() | tuple():
            return "[" + ", ".join(_to_toml(item) for item in value) + "]"
        case _:
            return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
