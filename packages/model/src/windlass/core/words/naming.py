"""Converts names between forms: for display, for paths, and for parameters."""

from __future__ import annotations

import re
from functools import cache
from typing import Final


def kebab(name: str) -> str:
    """Converts a name to kebab case: `environmentVariable` → `environment-variable`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", "-", name).lower()


LOCAL_DOMAIN: Final = "localhost"
"""The domain of names that only this machine knows."""
PLACE_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?\Z"
"""Matches names that operators give to machines."""


@cache
def snake(name: str) -> str:
    """Converts a name to snake case: `apiToken` → `api_token`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def enum_value(name: str) -> str:
    """Converts a name to an enum value of fields such as `service_type` or `scope`: `gitToken` →
    `GIT_TOKEN`."""
    return snake(name).upper()


def to_words(title: str) -> str:
    """Converts a title to words: `EnvironmentVariable` → `environment variable`, `APIToken` → `API token`."""
    out = ""
    for place, letter in enumerate(title):
        following = title[place + 1 : place + 2]
        if letter.isupper() and out and (not title[place - 1].isupper() or following.islower()):
            out += " "
        out += letter
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in out.split())


def plural(title: str) -> str:
    """Returns the plural of a title: `Project` → `Projects`, `ContainerRegistry` → `ContainerRegistries`.

    Titles that end with s, such as `AwsCredentials`, are not changed.
    """
    if title.endswith("s"):
        return title
    return re.sub(r"(?<=[^aeiou])y$", "ie", title) + "s"


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[0].lower() in "aeiou" else f"a {noun}"
