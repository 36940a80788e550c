"""Django: the project that manage.py names, also in a folder below the file that declares the packages."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.django_settings import MIGRATE, SETTINGS, apply_django_settings
from windlass.detect.known_files import KnownFiles
from windlass.detect.python_code import module_file
from windlass.detect.python_frameworks import ENTRY, serve_asgi, serve_wsgi
from windlass.detect.recipe import ProcessType, Recipe

_DOTTED_PATTERN: Final = re.compile(r"['\"](\w++(?:\.\w++)++)['\"]")
_PLAIN_PATTERN: Final = re.compile(r"[\w][\w-]*+(?:/[\w][\w-]*+)?")
"""Matches a folder at most two levels deep that needs no quotes in a shell."""
_SKIPPED_FOLDERS: Final = frozenset(
    {"tests", "test", "docs", "examples", "example", "node_modules", "scripts"}
)
_OWN_PACKAGES: Final = ("requirements.txt", "pyproject.toml", "Pipfile", "setup.py")
_MAX_PROJECTS: Final = 10


def choose_django(files: KnownFiles, recipe: Recipe, dependencies: dict[str, str]) -> bool:
    """Chooses how the Django project of a folder is served. Returns False if there is none."""
    if settings := _settings_module(files):
        _choose_django(files, recipe, dependencies, settings)
        return True
    if "django" not in dependencies or files.has(*ENTRY, "manage.py", "wsgi.py", "asgi.py"):
        return False
    projects = [
        (folder, made)
        for folder in _project_folders(files)
        if (made := _made_in(folder, files, dependencies))
    ]
    if len(projects) == 1:
        _choose_below(recipe, *projects[0], dependencies["django"])
    elif projects:
        _choose_one_of(recipe, projects)
    return bool(projects)


def _choose_django(files: KnownFiles, recipe: Recipe, dependencies: dict[str, str], settings: str) -> None:
    project = settings.partition(".")[0]
    recipe.choose(f"manage.py names the settings {settings}.", framework="Django")
    recipe.choose("Django changes its tables by migrations.", release=MIGRATE)
    if not dependencies:
        recipe.choose("manage.py needs it, and no file names it.", added_packages=["django"])
    before = apply_django_settings(files, recipe, settings, dependencies)
    if files.has(f"{project}/asgi.py") and (
        not files.has(f"{project}/wsgi.py") or {"channels", "daphne"} & dependencies.keys()
    ):
        serve, name = serve_asgi, "asgi"
    else:
        serve, name = serve_wsgi, "wsgi"
    serve(recipe, dependencies, f"{project}.{name}:application", f"{project}/{name}.py is there", "", before)


def _settings_module(files: KnownFiles) -> str:
    """Returns the settings module in manage.py whose package has a wsgi.py or asgi.py; empty if there is
    none."""
    manage = files.text("manage.py")
    plain = [match[1] for match in SETTINGS.finditer(manage)]
    named = [match[1] for match in _DOTTED_PATTERN.finditer(manage) if module_file(files, match[1])]
    return next((module for module in (*plain, *named) if _is_served(files, module)), "")


def _is_served(files: KnownFiles, module: str) -> bool:
    project = module.partition(".")[0]
    return bool(files.has(f"{project}/wsgi.py", f"{project}/asgi.py"))


def _project_folders(files: KnownFiles) -> list[str]:
    """Returns the folders with a manage.py that declare no packages of their own."""
    found = [
        folder
        for folder in files.tree.folders()
        if _PLAIN_PATTERN.fullmatch(folder)
        and _SKIPPED_FOLDERS.isdisjoint(folder.split("/"))
        and files.has(f"{folder}/manage.py")
        and not files.has(*(f"{folder}/{name}" for name in _OWN_PACKAGES))
    ]
    return sorted(found)[:_MAX_PROJECTS]


def _made_in(folder: str, files: KnownFiles, dependencies: dict[str, str]) -> Recipe | None:
    """Returns the recipe of the project in a folder; None if no server can load it."""
    inner, made = KnownFiles(files.tree.below(folder)), Recipe()
    settings = _settings_module(inner)
    if not settings:
        return None
    _choose_django(inner, made, dependencies, settings)
    return made


def _choose_below(recipe: Recipe, folder: str, django_recipe: Recipe, declaring: str) -> None:
    recipe.choose(f"{folder}/{django_recipe.reasons['framework']}", framework=django_recipe.framework)
    for command in ("release", "build", "start"):
        if value := getattr(django_recipe, command):
            reason = (
                f"{django_recipe.reasons[command].rstrip('.')}, in {folder}, and {declaring} is above it."
            )
            recipe.choose(reason, **{command: f"cd {folder} && {value}"})
    recipe.choose(django_recipe.reasons.get("port", ""), port=django_recipe.port)
    recipe.choose(
        django_recipe.reasons.get("added_packages", ""), added_packages=django_recipe.added_packages
    )
    recipe.problems += django_recipe.problems


def _choose_one_of(recipe: Recipe, projects: list[tuple[str, Recipe]]) -> None:
    """Declares each of several projects as a process of its own: all of them need the packages above."""
    folders = ", ".join(folder for folder, _ in projects)
    processes = [
        ProcessType(
            folder.replace("/", "-"),
            f"cd {folder} && {MIGRATE} && {made.start.removeprefix(f'{MIGRATE} && ')}",
        )
        for folder, made in projects
    ]
    _, first = projects[0]
    recipe.choose(f"{folders} are Django projects.", framework="Django", processes=processes)
    recipe.choose(first.reasons.get("port", ""), port=first.port)
    recipe.choose(first.reasons.get("added_packages", ""), added_packages=first.added_packages)
