"""Reads Django settings: how static files are served, the allowed hosts, and the environment variable with
the secret key."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.python_code import module_file
from windlass.detect.recipe import Recipe

_ALLOWED_HOSTS_PATTERN: Final = re.compile(
    r"^[ \t]*+ALLOWED_HOSTS[ \t]*+(?:=|\+=|\.append\(|\.extend\()(.{0,300})", re.MULTILINE
)
_VARIABLE_PATTERN: Final = re.compile(r"(?:env|config)\w*[\w.]*[\[(][ \t]*['\"]([A-Z][A-Z0-9_]{2,60})['\"]")
_SECRET_KEY_PATTERN: Final = re.compile(r"^[ \t]*+SECRET_KEY[ \t]*+=[ \t]*+(\S.{0,300})", re.MULTILINE)
_ONLY_VARIABLE_PATTERN: Final = re.compile(
    r"os\.(?:getenv|environ\.get)\([ \t]*+['\"]([A-Z][A-Z0-9_]{2,60})['\"][ \t]*+\)[ \t]*+(?:#.*)?"
)
"""Matches an environment variable that has no default value."""
_ELSE_NAME_PATTERN: Final = re.compile(r"\belse[ \t]++['\"](\w++(?:\.\w++)++)['\"]")
_STAR_IMPORT_PATTERN: Final = re.compile(
    r"^[ \t]*+from[ \t]++(\.*+[\w.]*+)[ \t]++import[ \t]++\*", re.MULTILINE
)
_MAX_MODULES: Final = 8
_OF_VARIABLE_PATTERN: Final = re.compile(r"[ \t]*([A-Z][A-Z0-9_]{2,60})\)")


_REDIRECT_PATTERN: Final = re.compile(
    r"^[ \t]*+SECURE_SSL_REDIRECT[ \t]*+=[ \t]*+(?=[^\n]{0,200}True)(\S.{0,300})", re.MULTILINE
)
"""Matches a redirect to HTTPS that is on unless a variable says otherwise."""
_HOSTS_NAME_PATTERN: Final = re.compile(r"\w*HOSTS")
"""Matches variables with a list of hosts. Others, such as SITE_HOST, may also be a part of addresses."""

MIGRATE: Final = "python manage.py migrate --noinput"
SETTINGS: Final = re.compile(r"DJANGO_SETTINGS_MODULE['\"][ \t]*+,[ \t]*+['\"]([\w.]++)['\"]")
_SQLITE_PATTERN: Final = re.compile(r"django\.db\.backends\.sqlite3|sqlite:///")


def apply_django_settings(
    files: KnownFiles, recipe: Recipe, module: str, dependencies: Collection[str]
) -> str:
    """Applies the settings to the recipe. Returns the prefix of the start command.

    Each instance has its own SQLite file, which the release command cannot migrate, so the start command runs
    the migrations.
    """
    text = _settings_text(files, module)
    _static_files(recipe, text, dependencies)
    served = _settings_text(files, _served_settings(files, module))
    problems = _secret_problem(served), _hosts_problem(recipe, served, text), _redirect_problem(served)
    recipe.problems += filter(None, problems)
    return f"{MIGRATE} && " if _SQLITE_PATTERN.search(text) else ""


def _static_files(recipe: Recipe, settings: str, dependencies: Collection[str]) -> None:
    serves = "whitenoise" in dependencies or "whitenoise" in settings
    collects = "python manage.py collectstatic --noinput"
    if "STATIC_ROOT" in settings:
        recipe.choose("The settings name a STATIC_ROOT, where static files are collected.", build=collects)
    if "django.contrib.staticfiles" in settings and not serves:
        recipe.problems.append(
            "Add the package whitenoise and its middleware to serve static files, such as those of the admin "
            "pages: Django's own server for development does that, and no other server."
        )


def _served_settings(files: KnownFiles, module: str) -> str:
    """Returns the settings module that a server loads by default. `module`: the settings module in
    manage.py."""
    project = module.partition(".")[0]
    text = files.text(files.has(f"{project}/wsgi.py", f"{project}/asgi.py"))
    named = SETTINGS.search(text) or _ELSE_NAME_PATTERN.search(text)
    return named[1] if named and module_file(files, named[1]) else module


def _secret_problem(settings: str) -> str:
    """Returns the remedy if the secret key comes only from an environment variable; empty if it has another
    value."""
    variables = [
        _ONLY_VARIABLE_PATTERN.fullmatch(match[1].rstrip())
        for match in _SECRET_KEY_PATTERN.finditer(settings)
    ]
    if not variables or not (variable := variables[0]) or not all(variables):
        return ""
    return (
        f"Set the variable {variable[1]} to a long random text, such as with `windlass secrets set "
        f"{variable[1]}=…`: it is the SECRET_KEY of the settings, without which Django answers with errors."
    )


def _hosts_problem(recipe: Recipe, settings: str, chosen: str) -> str:
    """Names the variable with the allowed hosts in the recipe, and returns the remedy if Django rejects the
    application's public host name. It is empty if Django accepts every host, or if the settings do not show
    which hosts are allowed. `chosen`: settings that an environment variable may select instead."""
    values = _hosts_of(settings)
    if not values or any(re.search(r"['\"]\*['\"]", value) for value in values):
        return ""
    named = _variables_of(values) or _variables_of(_hosts_of(chosen))
    if named and _HOSTS_NAME_PATTERN.fullmatch(named[0]):
        recipe.choose("The settings take the hosts that Django allows from it.", host_variables=named[:1])
    todo = (
        f"Set the variable {named[0]} to the public host of the application, or to *"
        if named
        else "Add the public host of the application, or '*', to ALLOWED_HOSTS of the settings"
    )
    return (
        f"{todo}: Django answers 400 to other hosts. The gateway lets only those of the application through."
    )


def _redirect_problem(settings: str) -> str:
    """Returns the remedy if Django redirects all visitors to HTTPS unless a variable is set."""
    variables = _variables_of([match[1] for match in _REDIRECT_PATTERN.finditer(settings)])
    if not variables:
        return ""
    return (
        f"Set the variable {variables[0]} to False until visitors come by HTTPS: Django redirects all others "
        "to it, where nothing may answer."
    )


def _hosts_of(settings: str) -> list[str]:
    values = [match[1] for match in _ALLOWED_HOSTS_PATTERN.finditer(settings)]
    if (
        not values
        and "INSTALLED_APPS" in settings
        and "ALLOWED_HOSTS" not in settings
        and _is_whole(settings)
    ):
        return [""]  # Django's default list of hosts does not include a public host name
    return values


def _variables_of(values: Sequence[str]) -> list[str]:
    named = [match[1] for value in values for match in _VARIABLE_PATTERN.finditer(value)]
    return named + [match[1] for value in values if (match := _OF_VARIABLE_PATTERN.match(value))]


def _is_whole(settings: str) -> bool:
    """Returns whether the text contains all values. Packages may set further values through locals() or
    globals()."""
    return "locals()" not in settings and "globals()" not in settings


def _settings_text(files: KnownFiles, module: str) -> str:
    """Returns the text of the settings module, including modules that it imports with `import *`."""
    path = module.replace(".", "/")
    inner = [f"{path}/{name}" for name in ("base.py", "common.py", "production.py", "__init__.py")]
    paths = [f"{path}.py", f"{path.rpartition('/')[0]}/base.py", *inner]
    for name in paths:
        for match in _STAR_IMPORT_PATTERN.finditer(files.text(name)):
            imported = module_file(files, _absolute_module(name, match[1]))
            if imported and imported not in paths and len(paths) < _MAX_MODULES:
                paths.append(imported)
    return "\n".join(map(files.text, paths))


def _absolute_module(path: str, module: str) -> str:
    """Returns the absolute name of a module that a file imports, possibly by a relative import."""
    up = len(module) - len(module.lstrip("."))
    package = path.split("/")[:-1]
    parents = package[: len(package) - up + 1] if up else []
    return ".".join(filter(None, [*parents, module.lstrip(".")]))
