"""Reads the settings of Django: what serves static files, and which hosts are answered."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from windlass.core.detect.known_files import KnownFiles
from windlass.core.detect.recipe import Recipe

_HOSTS: Final = re.compile(
    r"^[ \t]*+ALLOWED_HOSTS[ \t]*+(?:=|\+=|\.append\(|\.extend\()(.{0,300})", re.MULTILINE
)
_VARIABLE: Final = re.compile(r"(?:env|config)\w*[\w.]*[\[(][ \t]*['\"]([A-Z][A-Z0-9_]{2,60})['\"]")
_OF_VARIABLE: Final = re.compile(r"[ \t]*([A-Z][A-Z0-9_]{2,60})\)")


MIGRATE: Final = "python manage.py migrate --noinput"
_SQLITE: Final = re.compile(r"django\.db\.backends\.sqlite3|sqlite:///")


def apply_django_settings(files: KnownFiles, recipe: Recipe, module: str, needed: Collection[str]) -> str:
    """Returns the beginning of the start command: each instance has a file of SQLite of its own, which a
    release command elsewhere does not reach."""
    text = _settings_text(files, module)
    _static_files(recipe, text, needed)
    if problem := _hosts_problem(text):
        recipe.problems.append(problem)
    return f"{MIGRATE} && " if _SQLITE.search(text) else ""


def _static_files(recipe: Recipe, settings: str, needed: Collection[str]) -> None:
    serves = "whitenoise" in needed or "whitenoise" in settings
    collects = "python manage.py collectstatic --noinput"
    if "STATIC_ROOT" in settings:
        recipe.choose("The settings name a STATIC_ROOT, where static files are collected.", build=collects)
    if "django.contrib.staticfiles" in settings and not serves:
        recipe.problems.append(
            "Add the package whitenoise and its middleware to serve static files, such as those of the admin "
            "pages: Django's own server for development does that, and no other server."
        )


def _hosts_problem(settings: str) -> str:
    """Returns what to do so that Django answers at the public host; empty if it answers at any host, or if
    the settings do not tell."""
    values = [match[1] for match in _HOSTS.finditer(settings)]
    if not values or any(re.search(r"['\"]\*['\"]", value) for value in values):
        return ""
    named = [match[1] for value in values for match in _VARIABLE.finditer(value)]
    named += [match[1] for value in values if (match := _OF_VARIABLE.match(value))]
    todo = (
        f"Set the variable {named[0]} to the public host of the application, or to *"
        if named
        else "Add the public host of the application, or '*', to ALLOWED_HOSTS of the settings"
    )
    return (
        f"{todo}: Django answers 400 to other hosts. The gateway lets only those of the application through."
    )


def _settings_text(files: KnownFiles, module: str) -> str:
    path = module.replace(".", "/")
    inner = [f"{path}/{name}" for name in ("base.py", "common.py", "production.py", "__init__.py")]
    beside = f"{path.rpartition('/')[0]}/base.py"
    return "".join(files.text(name) for name in (f"{path}.py", beside, *inner))
