"""The databases of an application of Spring Boot: those that its properties name."""

from __future__ import annotations

import re
from typing import Final

from windlass.base.lazy import lazy_pattern
from windlass.detect.database_names import MAIN_DATABASE, kind_of_type, prefix_of
from windlass.detect.known_files import KnownFiles
from windlass.detect.own_secrets import is_own_secret
from windlass.detect.recipe import DatabaseVariable, NeededDatabase

_RESOURCES_FOLDER: Final = "src/main/resources"
_SETTINGS_SUFFIXES: Final = ("properties", "yml", "yaml")
_ACTIVE_PATTERN: Final = lazy_pattern(
    r"^spring\.profiles\.active[ \t]*+=[ \t]*+(\w{1,40}+)|^ {2,8}active:[ \t]*+(\w{1,40}+)", re.MULTILINE
)
_LINE_PATTERN: Final = lazy_pattern(
    r"^(?P<indent> *+)(?P<key>[\w.-]{1,80}+)[ \t]*+[:=][ \t]*+(?P<value>[^\n#]*+)", re.MULTILINE
)
_VARIABLE_PATTERN: Final = lazy_pattern(r"\$\{([A-Z][A-Z0-9_]{1,60}+)[:}]")
_JDBC_PATTERN: Final = lazy_pattern(r"jdbc:(postgresql|mysql|mariadb):")
_DRIVER_PATTERNS: Final = {
    "POSTGRESQL": re.compile(r"org\.postgresql"),
    "MYSQL": re.compile(r"mysql-connector|mariadb-java-client"),
}
_PROPERTY_PARTS: Final = {"url": "URL", "jdbc-url": "URL", "username": "USER", "password": "PASSWORD"}
_ADDRESS_PARTS: Final = (("HOST", "HOST|SERVER"), ("PORT", "PORT"), ("NAME", "NAME|DATABASE|SCHEMA|DB"))
_OWN_NAMES: Final = {
    "URL": "SPRING_DATASOURCE_URL",
    "USER": "SPRING_DATASOURCE_USERNAME",
    "PASSWORD": "SPRING_DATASOURCE_PASSWORD",
}
"""Variables that replace properties, whatever their values are."""
_JDBC_SCHEMES: Final = {"POSTGRESQL": "postgresql", "MYSQL": "mysql"}


def spring_databases(files: KnownFiles) -> list[tuple[NeededDatabase, str]]:
    """Returns the databases that the properties name, each with the reason."""
    path, properties = _spring_properties(files)
    source = {
        _PROPERTY_PARTS[key.rpartition(".")[2]]: value
        for key, value in properties.items()
        if re.fullmatch(r"spring\.(?:datasource|r2dbc)(?:\.hikari)?\.(?:url|jdbc-url|username|password)", key)
    }
    found = []
    if type := _type_of(files, source.get("URL", "")):
        found.append((_needed_database(type, source), _database_reason(path, type)))
    mongo = {key.rpartition(".")[2]: value for key, value in properties.items() if ".mongodb." in key}
    if mongo and not found:
        found.append((_mongo(mongo), _database_reason(path, "MONGODB")))
    return found


def spring_secrets(files: KnownFiles) -> dict[str, str]:
    """Returns the variables with secrets of the application that the properties name, each with the file."""
    path, properties = _spring_properties(files)
    names = (name for value in properties.values() for name in _VARIABLE_PATTERN.findall(value))
    return {name: path for name in names if is_own_secret(name)}


def _database_reason(path: str, type: str) -> str:
    return f"{path} names a {kind_of_type(type).title} database."


def _needed_database(type: str, source: dict[str, str]) -> NeededDatabase:
    prefix = prefix_of(MAIN_DATABASE)
    values = {part: f"{{{{{prefix}{part}}}}}" for part in ("HOST", "PORT", "NAME", "USER", "PASSWORD")}
    values["URL"] = f"jdbc:{_JDBC_SCHEMES[type]}://{values['HOST']}:{values['PORT']}/{values['NAME']}"
    variables: dict[str, str] = {}
    for part, own in _OWN_NAMES.items():
        text = source.get(part, "")
        names = _VARIABLE_PATTERN.findall(text)
        is_whole = len(names) == 1 and re.fullmatch(r"['\"]?\$\{[^{}]*+\}['\"]?", text.strip())
        inner = {name: _part_in(name) for name in names}
        if is_whole:
            variables[names[0]] = values[part]
        elif names and part == "URL" and all(inner.values()) and "HOST" in inner.values():
            variables |= {name: values[inner_part] for name, inner_part in inner.items()}
        else:
            variables[own] = values[part]
    return NeededDatabase(
        type, MAIN_DATABASE, [DatabaseVariable(name, value) for name, value in variables.items()]
    )


def _mongo(values: dict[str, str]) -> NeededDatabase:
    """Returns the variables of MongoDB. Spring refuses an address beside a host, so the properties decide."""
    prefix = prefix_of(MAIN_DATABASE)
    if "host" in values and "uri" not in values:
        parts = {
            "host": f"{{{{{prefix}HOST}}}}",
            "port": f"{{{{{prefix}PORT}}}}",
            "username": f"{{{{{prefix}USER}}}}",
            "password": f"{{{{{prefix}PASSWORD}}}}",
            "database": f"{{{{{prefix}NAME}}}}",
            "authentication-database": "admin",
        }
    else:
        parts = {"uri": f"{{{{{prefix}URL}}}}"}
    variables = [
        DatabaseVariable(
            name[1]
            if (name := _VARIABLE_PATTERN.search(values.get(part, "")))
            else f"SPRING_DATA_MONGODB_{part.replace('-', '').upper()}",
            value,
        )
        for part, value in parts.items()
    ]
    return NeededDatabase("MONGODB", MAIN_DATABASE, variables)


def _part_in(name: str) -> str:
    return next((part for part, words in _ADDRESS_PARTS if re.search(rf"(?:{words})", name)), "")


def _type_of(files: KnownFiles, url: str) -> str:
    """Returns the type of the database of an address; empty if it is in memory, or of another kind."""
    if named := _JDBC_PATTERN.search(url):
        return "POSTGRESQL" if named[1] == "postgresql" else "MYSQL"
    if not url or "jdbc:" in url:
        return ""
    text = files.text(files.has("pom.xml", "build.gradle.kts", "build.gradle"))
    drivers = [type for type, pattern in _DRIVER_PATTERNS.items() if pattern.search(text)]
    return drivers[0] if len(drivers) == 1 else ""


def _spring_properties(files: KnownFiles) -> tuple[str, dict[str, str]]:
    """Returns the file with the properties, and its values with those of the profile that it activates."""
    path = files.has(*(f"{_RESOURCES_FOLDER}/application.{suffix}" for suffix in _SETTINGS_SUFFIXES))
    if not path:
        return "", {}
    text = files.text(path)
    values = _property_values(text)
    if active := _ACTIVE_PATTERN.search(text):
        profile = active[1] or active[2]
        values |= _property_values(
            files.text(
                files.has(
                    *(f"{_RESOURCES_FOLDER}/application-{profile}.{suffix}" for suffix in _SETTINGS_SUFFIXES)
                )
                or path
            )
        )
    return path, values


def _property_values(text: str) -> dict[str, str]:
    """Returns the values of a file of properties, or of a simple file of YAML, by their full keys. Later
    documents of a file of YAML, which are for other profiles, are left out."""
    values: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    for match in _LINE_PATTERN.finditer(
        re.split(r"^---[ \t]*$", text.lstrip("-\n "), maxsplit=1, flags=re.MULTILINE)[0]
    ):
        indent = len(match["indent"])
        parents = [(depth, key) for depth, key in parents if depth < indent]
        key = ".".join([*(key for _, key in parents), match["key"]])
        if match["value"].strip():
            values[key] = match["value"].strip()
        parents.append((indent, match["key"]))
    return values
