"""The variables of a new application: `windlass init` sets its own secrets to random texts, the hosts to
which it answers to all of them, and others as in the example file of the repository, except placeholders."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from windlass.base.file_names import read_beginning
from windlass.cli.client import Api, ApiRefused
from windlass.cli.everyday.variables import parse_dotenv
from windlass.detect import Recipe
from windlass.detect.database_names import part_of
from windlass.detect.own_secrets import is_own_secret
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.tables import plain

EXAMPLE_FILES: Final = (".env.example", ".env.sample", ".env.template", ".env.dist", "example.env")
_MAX_FILE_BYTES: Final = 100_000
_SECRET_BYTES: Final = 32
_MAX_SHOWN: Final = 12
_IGNORED_VARIABLE_PATTERN: Final = re.compile(
    r"PORT|HOST|HOSTNAME|(?:NODE|FLASK|RAILS|RACK|MIX|GO|GIN)_(?:ENV|MODE)|FLASK_APP|(?:\w+_)?DEBUG"
    r"|(?:WINDLASS|QOVERY)_\w*|PATH|HOME|PWD|NODE_OPTIONS|PYTHONPATH"
    r"|\w*(?:ADMIN|ROOT|SUPERUSER)\w*PASS\w*|DB_CONNECTION"
)
"""Matches variables that are for development, that Windlass sets, or that would give a login that everybody
knows."""
_PLACEHOLDER_PATTERN: Final = re.compile(
    r"\byour[_-]?\w|<[^<>]{1,60}>|change[_ -]?(?:me|this|it)|replace[_ -]?(?:me|this|with)"
    r"|\bexample\.(?:com|org|net)\b|x{5,}",
    re.IGNORECASE,
)
"""Matches values that stand for one that the user has to write."""
_ELSEWHERE_PATTERN: Final = re.compile(
    r"/(?:home|Users|root|var|opt|srv|mnt|media|data|usr|etc)/\S*|[A-Za-z]:[\\/]\S*"
)
"""Matches paths of the machine on which the file was written."""
_HTTPS_PATTERN: Final = re.compile(
    r"\w*(?:SSL|HTTPS|HSTS)_(?:REDIRECT|ONLY)|(?:FORCE|REQUIRE)_(?:SSL|HTTPS)|\w*HSTS\w*"
)
"""Matches variables that send visitors to HTTPS, which a new application may not have."""
_KEY_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")


class VariableMaker:
    def __init__(self, api: Api, application: Mapping[str, Any], report_line: Callable[[str], None]) -> None:
        self._api = api
        self._path = f"/application/{application['id']}"
        self._note = report_line

    def provide(self, recipe: Recipe, folder: Path, confirm: Callable[[str], bool]) -> set[str]:
        """Sets the variables of a new application, if `confirm` says so, and returns the names of those that
        it has. What the server refuses is said, and does not end the command."""
        file, values = examples_in(folder)
        named = {name for need in recipe.databases for name in (each.name for each in need.variables)}
        own = list(dict.fromkeys([*recipe.own_secrets, *filter(is_own_secret, values)]))
        taken = {
            name: value
            for name, value in values.items()
            if value and _KEY_PATTERN.fullmatch(name) and not (name in named or is_own_secret(name))
            if not (part_of(name.upper()) or _IGNORED_VARIABLE_PATTERN.fullmatch(name))
            if not (_PLACEHOLDER_PATTERN.search(value) or _ELSEWHERE_PATTERN.fullmatch(value))
            if not _HTTPS_PATTERN.fullmatch(name)
            if name not in recipe.host_variables
        }
        done = set(named)
        try:
            if own and confirm(f"Set {_shown_names(own)} to random texts?"):
                self._set({name: secrets.token_hex(_SECRET_BYTES) for name in own}, is_secret=True)
                self._note(f"Set {_shown_names(own)} to random texts.")
                done.update(own)
            if (hosts := recipe.host_variables) and confirm(f"Set {_shown_names(hosts)} to *?"):
                self._set(dict.fromkeys(hosts, "*"), is_secret=False)
                why = "the gateway lets only the hosts of the application through"
                self._note(f"Set {_shown_names(hosts)} to *: {why}.")
                done.update(hosts)
            if taken and confirm(f"Set {_shown_names(list(taken))} as in {file}?"):
                self._set(taken, is_secret=False)
                self._note(f"Set {_shown_names(list(taken))} as in {file}. Correct what is a placeholder.")
                done.update(taken)
        except ApiRefused as refused:
            self._note(f"The variables are not set: {plain(refused.message)}")
        return done

    def _set(self, values: Mapping[str, str], *, is_secret: bool) -> None:
        entries = [
            {"name": name, "value": value, "scope": "APPLICATION", "is_secret": is_secret}
            for name, value in values.items()
        ]
        body = msgspec.json.encode({"overwrite": False, "vars": entries})
        self._api.call("POST", f"{self._path}/environmentVariable/import", body)


def examples_in(folder: Path) -> tuple[str, dict[str, str]]:
    """Returns the name of the example file of a folder, and its values. Both are empty if there is none, or
    if it is no list of variables."""
    for name in EXAMPLE_FILES:
        try:
            text = read_beginning(folder, name, _MAX_FILE_BYTES).decode("utf-8", "replace")
            return name, parse_dotenv(text, name)
        except (OSError, InvalidUsage):  # missing, or a link, which could point anywhere
            continue
    return "", {}


def _shown_names(names: Sequence[str]) -> str:
    shown = ", ".join(plain(name) for name in names[:_MAX_SHOWN])
    return f"{shown}, …" if len(names) > _MAX_SHOWN else shown
