"""Finds the variables that a program or a build misses in its output, and says how to set them. Pure.

A program may name all that it misses at once. If some of them are the address, the host or the password of a
database, the advice says what to create and what to refer to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from windlass.base.lazy import lazy_pattern
from windlass.detect.database_names import (
    MAIN_DATABASE,
    USUAL_ADDRESS,
    KnownDatabase,
    kind_in_name,
    kind_in_text,
    part_of,
    prefix_of,
)

NAME: Final = r"[A-Z][A-Z0-9_]{2,80}"
_MAX_NAMES: Final = 12
_COLOUR: Final = r"(?:\x1b\[\d*m)?"
_QUOTE: Final = r"[\"'`‘’“”]?"
_BULLET: Final = r"(?:\[|\n?[ \t]{0,8}[-*•] ?)?"

MISSING_VARIABLE: Final = (
    rf"^KeyError: '({NAME})'",
    rf"Environment variable not found: ({NAME})",
    r"(?:ZodError|Invalid environment variables): \[[\s\S]{0,200}?"
    rf"\bpath['\"]?: \[\s*+['\"]({NAME})['\"]"
    r"\s*+\][\s\S]{0,100}?(?:received undefined|Required\b)",
    rf"Invalid environment variables:?\s*+\{{\s*+['\"]?({NAME})['\"]?: \[\s*+['\"]"
    r"(?:Required|Invalid input: [^\n]{0,60}received undefined)",
    rf"Missing{_COLOUR} environment variables:\s*+{_COLOUR}({NAME}){_COLOUR}: ",
    rf"\"({NAME})\" is not exported by \"(?:virtual:env/static/|\$env/static/)",
    rf"[Mm]issing required environment variables?:? {_BULLET}['\"`]?({NAME})\b",
)
"""Error messages about a missing variable, of programs and of builds. They match the name."""
OF_PROGRAMS: Final = (
    rf"key not found: \"({NAME})\"",
    r"UndefinedValueError: ([A-Za-z]\w{0,80}) not found",
    rf"\b[Ss]et(?:ting)? the ({NAME}) environment variable",
    rf"\bset the `({NAME})` (?:environment variable|or `)",
    rf"^(?:.*: )?({NAME}): (?:unbound variable|parameter (?:null or )?not set)",
    rf"\b(?:environment |env )?variable[ s:]+{_QUOTE}({NAME}){_QUOTE} "
    r"(?:is |was |must be |has )?(?:not |un|missing|required|set\b|no value)",
    rf"\b(?i:missing|required|undefined|unset)(?: required)?(?: environment| env)? "
    rf"(?:variable|setting)s?:? ?{_BULLET}{_QUOTE}({NAME})\b",
    rf"(?<![\w.]){_QUOTE}(?:process\.env\.)?({NAME}){_QUOTE} (?:environment variable |env var )?"
    r"(?:is |was )?(?:not set|required|must be set|missing|undefined|not defined|unset|not "
    r"configured)",
    rf"^(?:(?!environ|getenv)[^\n])*(?:environ\.get|getenv)\(['\"]({NAME})['\"]\)"
    r"(?:(?!environ|getenv)[^\n])*\n(?:[ \t]*+[~^][~^ ]*+\n)?"
    r"(?:AttributeError: 'NoneType' object|TypeError: [^\n]{0,200}NoneType)",
    rf"process\.env\.({NAME})\b(?:(?!process\.env)[^\n])*\n[ \t]*+\^+\n+"
    r"TypeError: Cannot read properties of (?:undefined|null)",
    r"Could not resolve placeholder '([A-Za-z][\w.-]{1,60})' in value",
    r"Missing `(secret_key_base)` for '\w+' environment",
    *MISSING_VARIABLE,
)
"""Error messages of programs that end because of a missing variable."""
_ENTRIES_OF_ENVALID: Final = (
    lazy_pattern(r"Missing\S{0,6} environment variables:"),
    lazy_pattern(rf"\s*+{_COLOUR}({NAME}){_COLOUR}: [^\n]{{0,200}}"),
)
_OF_LISTS: Final = (
    (r"ZodError|Invalid environment variables", rf"\bpath['\"]?: \[\s*+['\"]({NAME})['\"]\s*+\]"),
    (r"Invalid environment variables", rf"^\s*+['\"]?({NAME})['\"]?: \[\s*+['\"](?:Required|Invalid input)"),
)
"""The beginning of a list of missing variables, and what one entry looks like."""
_NEXT_OF_LINE_PATTERN: Final = lazy_pattern(rf"['\"`]?(?:,| and|\n[ \t]{{0,8}}[-*•]) ?['\"`]?({NAME})\b")
_SETTINGS_PATTERN: Final = lazy_pattern(
    r"\bvalidation errors? for \w*(?:[Ss]ettings|[Cc]onfig|Env)\w*|\bpydantic_settings/main\.py\b"
)
_REQUIRED_PATTERN: Final = lazy_pattern(r"^([A-Za-z]\w{1,60})\n[ \t]++[Ff]ield required", re.MULTILINE)


def missing_settings(text: str) -> list[str]:
    """Returns all missing settings that a pydantic validation error lists."""
    if not _SETTINGS_PATTERN.search(text):
        return []
    return list(dict.fromkeys(match[1].upper() for match in _REQUIRED_PATTERN.finditer(text)))


def variables_named(text: str, match: re.Match[str]) -> list[str]:
    """Returns the missing variables: that of a match, and those that the same error names besides."""
    names = dict.fromkeys(map(_as_variable, _all_names(text, match)))
    return list(names)[:_MAX_NAMES]


def _all_names(text: str, match: re.Match[str]) -> Iterator[str]:
    yield match[1]
    at = match.end(1)
    while following := _NEXT_OF_LINE_PATTERN.match(text, at):
        yield following[1]
        at = following.end(1)
    for other in match.re.finditer(text, match.end()):
        yield other[1]
    beginning_of_list, entry_of_list = _ENTRIES_OF_ENVALID
    begun = beginning_of_list.search(text)
    at = begun.end() if begun else len(text)
    while following := entry_of_list.match(text, at):
        yield following[1]
        at = following.end()
    for beginning, entry in _OF_LISTS:
        if begun := re.search(beginning, text):
            yield from (entry[1] for entry in lazy_pattern(entry, re.MULTILINE).finditer(text, begun.start()))


def _as_variable(name: str) -> str:
    """Returns the variable from which Spring takes a property such as `app.jwt-secret`."""
    return re.sub(r"[.-]", "_", name).upper() if re.search(r"[.-]|^secret_key_base$", name) else name


def remedy_for_variables(names: Sequence[str], name: str, text: str = "") -> str:
    """Returns how to set missing variables. `text`: the output, which may reveal the kind of the database."""
    parts = {variable: part_of(variable) for variable in names}
    if not any(parts.values()):
        return _remedy_for_plain(names, name)
    databases = _databases(names, text)
    values = [
        _value(part, databases[kind_in_name(variable)], text) if part else "…"
        for variable, part in parts.items()
    ]
    settings = " ".join(f"{variable}={value}" for variable, value in zip(parts, values, strict=True))
    command = f"`windlass env set {settings}`"
    if len(databases) > 1:
        created = " and ".join(
            f"{database} ({kind.title if kind else 'of the kind that it uses'})"
            for kind, database in databases.items()
        )
        needs = f"{name} needs them to start"
        return f"Create the databases {created}, and set the variables with {command}: {needs}"
    kind = next(iter(databases)) or kind_in_text(text)
    if len(names) == 1:
        value = " to its address" if parts[names[0]] == "URL" else ""
        what = f"set the variable {names[0]}{value} with {command}"
        return f"{creation_of(kind)}, and {what}: {name} needs it to start"
    return f"{creation_of(kind)}, and set the variables with {command}: {name} needs them to start"


def _remedy_for_plain(names: Sequence[str], name: str) -> str:
    command = f"`windlass env set {' '.join(f'{variable}=…' for variable in names)}`"
    if len(names) == 1:
        return f"Set the variable {names[0]}, such as with {command}: {name} needs it to start"
    return f"Set the variables {', '.join(names)}, such as with {command}: {name} needs them to start"


def _databases(names: Sequence[str], text: str) -> dict[KnownDatabase | None, str]:
    """Returns a name for each kind of database of which the variables hold a part."""
    kinds = list(dict.fromkeys(kind_in_name(variable) for variable in names if part_of(variable)))
    return {
        kind: MAIN_DATABASE if not number or kind is None else f"{kind.title.lower()}-db"
        for number, kind in enumerate(kinds)
    }


def _value(access_field: str, database: str, text: str) -> str:
    """Returns the reference to a part of the access to a database; the address in the form of the client."""
    prefix = prefix_of(database)
    if access_field == "URL" and "org.springframework" in text:
        scheme = "mysql" if "mysql" in text.lower() else "postgresql"
        parts = [f"{{{{{prefix}{each}}}}}" for each in ("HOST", "PORT", "NAME")]
        return f"jdbc:{scheme}://{parts[0]}:{parts[1]}/{parts[2]}"
    return f"{{{{{prefix}{access_field}}}}}"


def creation_of(kind: KnownDatabase | None) -> str:
    if kind is None:
        return f"Create a database, such as {MAIN_DATABASE}"
    command = f"`windlass database create --name {MAIN_DATABASE} --type {kind.type} …`"
    return f"Create a {kind.title} database, such as {MAIN_DATABASE} with {command}"


def database_words(said: str, text: str) -> dict[str, str]:
    """Returns the words with which a message names the database that a program misses. `said`: the part of
    its output `text` that reveals this."""
    kind = kind_in_text(said) or kind_in_text(text)
    return {"create": creation_of(kind), "address": kind.address if kind else USUAL_ADDRESS}
