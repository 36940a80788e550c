"""Reads the settings: flags override the environment, and the environment overrides the TOML file.

No other module reads the environment.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from windlass.base.errors import BadSetting
from windlass.config.settings import Settings

VARIABLE_PREFIX = "WINDLASS_"
_FILE_VARIABLE = VARIABLE_PREFIX + "CONFIG"
_READ_VARIABLE = VARIABLE_PREFIX + "CONFIG_READ"
# Variables with the prefix that are not settings: those of a client, and the paths of the settings file.
FORMER_NAMES = {"gateway_domain": "public_domain"}
"""Settings that got another name. They are read under both; the current name wins."""
_NOT_SETTINGS = {_FILE_VARIABLE, _READ_VARIABLE, VARIABLE_PREFIX + "URL", VARIABLE_PREFIX + "TOKEN"}


class ShownSetting(Struct, frozen=True):
    """A setting as `windlass config` shows it."""

    name: str
    variable: str
    value: Any
    default: Any
    source: str
    meaning: str
    group: str
    secret: bool


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, file: Path | None = None
) -> tuple[Settings, Mapping[str, str]]:
    """Returns the settings, and the source of each setting that is not a default."""
    environment = os.environ if environment is None else environment
    file = file or _named_file(environment)
    if file is not None and environment is os.environ:
        os.environ[_READ_VARIABLE] = str(file.absolute())
    layers = [
        ("file", _read(file) if file else {}),
        ("environment", _from_environment(environment)),
        ("flag", {name: value for name, value in flags.items() if value is not None}),
    ]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, given in layers:
        layer = {FORMER_NAMES.get(name, name): value for name, value in given.items()} | {
            name: value for name, value in given.items() if name not in FORMER_NAMES
        }
        values |= layer
        sources |= dict.fromkeys(layer, source)
    return _check(values, sources), sources


def settings_file() -> Path | None:
    """Returns the path of the settings file that this process has read, if any."""
    named = os.environ.get(_READ_VARIABLE) or os.environ.get(_FILE_VARIABLE)
    return Path(named).absolute() if named else None


def unknown_variables(environment: Mapping[str, str] | None = None) -> list[str]:
    """Returns environment variables that have the prefix of settings but name no setting. They have no
    effect, and may be misspelt."""
    environment = os.environ if environment is None else environment
    names = (*Settings.__struct_fields__, *FORMER_NAMES)
    declared = {VARIABLE_PREFIX + name.upper() for name in names} | _NOT_SETTINGS
    return sorted(name for name in environment if name.startswith(VARIABLE_PREFIX) and name not in declared)


def take_secrets() -> list[str]:
    """Removes the secret settings from the environment after they were read. Returns the names of the
    variables."""
    declared = {
        VARIABLE_PREFIX + name.upper() for name, setting in _declared_settings().items() if setting.secret
    }
    secret = declared | {VARIABLE_PREFIX + "TOKEN"}
    names = sorted(secret & os.environ.keys())
    for name in names:
        del os.environ[name]
    return names


def take_variables(names: Iterable[str]) -> dict[str, str]:
    """Removes variables from the environment. Returns the values of the variables that were set."""
    return {name: os.environ.pop(name) for name in names if name in os.environ}


def describe(settings: Settings, sources: Mapping[str, str]) -> list[ShownSetting]:
    """Describes every setting, with its source. Values of secrets are replaced by "(set)" or "(not set)"."""
    described: list[ShownSetting] = []
    for name, declared in _declared_settings().items():
        value = getattr(settings, name)
        described.append(
            ShownSetting(
                name=name,
                variable=VARIABLE_PREFIX + name.upper(),
                value=("(set)" if value else "(not set)") if declared.secret else value,
                default=declared.default,
                source=sources.get(name, "default"),
                meaning=declared.meaning,
                group=declared.opens or described[-1].group,
                secret=declared.secret,
            )
        )
    return described


_TYPES_PATTERN = re.compile(r"^Expected `(\w+)`, got `(\w+)`$")
_BOUNDS_PATTERN = re.compile(r"^Expected `\w+` ([<>]=?) (\S+)$")
_PATTERN = re.compile(r"^Expected `str` matching regex .*$", re.DOTALL)
_TYPE_NAMES = {"int": "a number", "float": "a number", "bool": "yes or no", "str": "text", "array": "a list"}


def _to_plain_words(message: str) -> str:
    """Returns an error message of msgspec without Python types and regular expressions."""
    message = _TYPES_PATTERN.sub(lambda match: f"must be {_TYPE_NAMES.get(match[1], match[1])}", message)
    return _PATTERN.sub("set it to a value of this form", _BOUNDS_PATTERN.sub(r"must be \1 \2", message))


def _check(values: Mapping[str, Any], sources: Mapping[str, str]) -> Settings:
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        name = path.strip("`.").split("[")[0]
        if not name:
            unknown = message.removeprefix("Object contains unknown field ")
            raise BadSetting(
                f"{unknown}: there is no setting of this name; `windlass config` lists them"
            ) from error
        where = {"environment": VARIABLE_PREFIX + name.upper(), "flag": "--" + name.replace("_", "-")}
        meaning = _declared_settings()[name].meaning
        raise BadSetting(
            f"{where.get(sources.get(name, ''), name)}: {_to_plain_words(message)}: {meaning}"
        ) from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, declared in _declared_settings().items():
        former = [old for old, new in FORMER_NAMES.items() if new == name]
        for variable in (VARIABLE_PREFIX + known.upper() for known in (*former, name)):
            text = environment.get(variable)
            if text is not None:
                values[name] = _parse(variable, declared.default, text)
    return values


def _parse(variable: str, default: Any, text: str) -> Any:
    if isinstance(default, tuple) and text.lstrip().startswith("["):  # a list of tables, as JSON
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise BadSetting(f"{variable}: must be JSON: {error}") from error
    if isinstance(default, tuple):
        return tuple(word for word in text.replace(",", " ").split())
    if isinstance(default, bool):
        return {"yes": "true", "on": "true", "no": "false", "off": "false", "": "false"}.get(
            text.lower(), text
        )
    return text.strip()


def _named_file(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(_FILE_VARIABLE)
    return Path(named) if named else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise BadSetting(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise BadSetting(f"{file} cannot be read as TOML: {error}") from error


class _SettingAnnotation(NamedTuple):
    """The parsed annotation of a setting."""

    default: Any
    meaning: str
    opens: str
    """The heading of the group of settings that begins here; empty inside a group."""
    secret: bool
    after: str
    """For a setting of a package: the setting after which it is listed."""
    is_folder_of_services: bool


@cache
def _declared_settings() -> Mapping[str, _SettingAnnotation]:
    """Returns the annotations of all settings, in order. Cached, because parsing takes longer than the rest
    of a start."""
    settings = _annotations()
    return {name: settings[name] for name in _in_order(settings)}


def _in_order(settings: Mapping[str, _SettingAnnotation]) -> list[str]:
    """Returns the names of all settings in order. A setting of a package follows the setting in its
    `after`."""
    order = [name for name, declared in settings.items() if not declared.after]
    left = [name for name, declared in settings.items() if declared.after]
    while placed := [name for name in left if settings[name].after in order]:
        for name in placed:
            order.insert(order.index(settings[name].after) + 1, name)
        left = [name for name in left if name not in placed]
    return order + left


def _annotations() -> dict[str, _SettingAnnotation]:
    settings = {}
    for field in msgspec.structs.fields(Settings):
        info = msgspec.inspect.type_info(field.type)
        assert isinstance(info, msgspec.inspect.Metadata)
        extra, schema = info.extra or {}, info.extra_json_schema or {}
        settings[field.name] = _SettingAnnotation(
            field.default,
            str(schema["description"]),
            extra["opens"],
            bool(extra["secret"]),
            extra["after"],
            extra["is_folder_of_services"],
        )
    return settings


def folders_of_services(settings: Settings) -> tuple[str, ...]:
    """Returns the folders that every service may read, in addition to the folders of the system."""
    named = [name for name, declared in _declared_settings().items() if declared.is_folder_of_services]
    return tuple(folder for name in named if (folder := getattr(settings, name)))


def to_type(settings: Settings, words: str) -> str:
    """Returns a command line for the terminal, with `--data-dir` if the data directory is not the default."""
    if settings.data_dir == Settings().data_dir:
        return f"windlass {words}"
    return f"windlass {words} --data-dir {shlex.quote(str(Path(settings.data_dir).absolute()))}"
