"""Detects from the files alone how an application is installed, built and started: `detect(tree)`.

Detection runs nothing. The command line shows the recipe, and builders run its commands.
"""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.databases import choose_databases
from windlass.detect.hints import apply_hints
from windlass.detect.known_files import KnownFiles
from windlass.detect.language import Language, matching_files
from windlass.detect.languages import languages
from windlass.detect.letter_case import case_problems
from windlass.detect.recipe import WEB_PROCESS, Candidate, ProcessType, Recipe
from windlass.detect.tree import Tree

MAX_DEPTH: Final = 3
MAX_CANDIDATES: Final = 30
MAX_FOLDERS: Final = 2000
MAX_PROBLEMS: Final = 20
MAX_READ_BYTES: Final = 16 << 20
"""Maximum bytes to read before the search for further applications ends. Parsing a megabyte takes a
second."""
_SKIPPED_FOLDERS: Final = frozenset(
    [
        "test",
        "tests",
        "test_files",
        "spec",
        "docs",
        "doc",
        "examples",
        "example",
        "fixtures",
        "vendor",
        "dist",
        "build",
        "scripts",
        "static",
        "assets",
        "node_modules",
    ]
)
_COMPOSE_FILES: Final = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_OWN_CODE_PATTERN: Final = re.compile(
    r"(?<!\.config)(?<!^setup)(?<!\.d)"
    r"\.(?:[cm]?[jt]sx?|c|cc|cpp|cs|clj|dart|ex|go|hs|java|jl|kt|php|pl|py|r|rb|rs|scala|swift)$"
)
"""Matches the names of files with code, other than settings of tools and declarations of types (`*.d.ts`)."""
_TEMPLATE_FOLDERS: Final = frozenset(["templates", "layouts", "_layouts"])
"""Folders with page templates."""


def detect(tree: Tree) -> Recipe:
    """Returns the recipe of the application in a folder, and lists the applications in its subfolders."""
    recipe = _recipe_of(tree)
    if recipe.processes or recipe.start:
        choose_databases(KnownFiles(tree), recipe)
    if recipe.language == "Node" and recipe.is_application:
        recipe.problems += case_problems(KnownFiles(tree))
    recipe.candidates = _candidates(tree, is_one=recipe.is_application)
    if len(recipe.candidates) == 1 and not (recipe.is_application or recipe.problems):
        recipe.only_folder = _only_folder(tree, recipe)
    if not recipe.is_runnable and (recipe.processes or recipe.candidates or not recipe.problems):
        recipe.problems.append(advice_for(recipe))
    if not recipe.is_application and (file := KnownFiles(tree).has(*_COMPOSE_FILES)):
        recipe.problems.append(
            f"Deploy each service of {file} by itself: one with `build` as an application, and one with "
            "`image` as a container or a database."
        )
    return recipe


def advice_for(recipe: Recipe) -> str:
    """Returns the remedy for a recipe without a start command or static files."""
    if recipe.processes:
        names = ", ".join(process.name for process in recipe.processes)
        return (
            f"Set process to one of {names}: the repository names these, and no process type {WEB_PROCESS}."
        )
    if recipe.candidates:
        folders = ", ".join(candidate.root_path for candidate in recipe.candidates[:5])
        return f"Set root_path to the folder of one application, such as {folders}."
    if recipe.language:
        return (
            "Set start_command, or add a Procfile with a line such as `web: command`: this is "
            f"{recipe.language}, and no file shows how it is started."
        )
    return (
        "Set start_command, or add a Procfile with a line such as `web: command`, or a Dockerfile: no "
        "language was recognized."
    )


def language_named(name: str) -> Language | None:
    return next((language for language in languages() if language.name == name), None)


def _recipe_of(tree: Tree) -> Recipe:
    """Returns the first recipe that is an application. If there is none, returns the recipe of the first
    recognized language."""
    marked = [language for language in languages() if language.marker(tree)]
    marked = marked or [language for language in languages() if _lone_file(language, tree)]
    recipes = [_fill_recipe(language, tree) for language in marked]
    for recipe in recipes:
        if recipe.is_application:
            return recipe
    if recipes:
        return recipes[0]
    return _fill_recipe(None, tree)


def _lone_file(language: Language, tree: Tree) -> str:
    return next(matching_files(tree, language.lone_code), "")


def _fill_recipe(language: Language | None, tree: Tree) -> Recipe:
    files = KnownFiles(tree)
    recipe = Recipe()
    apply_hints(files, recipe)
    has_to_choose = bool(recipe.processes) and not recipe.start
    if language is not None:
        file = language.marker(tree) or _lone_file(language, tree)
        recipe.choose(f"{file} is there.", language=language.name)
        language.fill(files, recipe)
    if has_to_choose:
        # A command that the language suggests is not one of the processes that the author declared.
        recipe.forget("start", "added_packages", "static_folder", "static_fallback")
    if any(process.name == WEB_PROCESS for process in recipe.processes) and _may_listen(language, files):
        recipe.choose(
            "A process web listens on the port in PORT, which is this one if none is named.", port=8080
        )
    if recipe.start and not recipe.processes:
        recipe.choose(recipe.reasons["start"], processes=[ProcessType(WEB_PROCESS, recipe.start)])
    if recipe.build == recipe.install:
        recipe.forget("build")
    recipe.problems = [*files.problems[:MAX_PROBLEMS], *recipe.problems[:MAX_PROBLEMS]]
    return recipe


def _may_listen(language: Language | None, files: KnownFiles) -> bool:
    return language is None or language.may_listen(files)


def _candidates(tree: Tree, *, is_one: bool) -> list[Candidate]:
    """Returns the applications in subfolders. Inside another application, only a manifest marks an
    application."""
    candidates: list[Candidate] = []
    outer = ""
    for folder in sorted(filter(_may_hold_one, tree.folders()))[:MAX_FOLDERS]:
        is_filled_in = not _TEMPLATE_FOLDERS.isdisjoint(folder.split("/"))
        is_inside = is_one or bool(outer and folder.startswith(outer)) or is_filled_in
        if not any(language.marker(tree, folder, manifests_only=is_inside) for language in languages()):
            continue
        recipe = _recipe_of(tree.below(folder))
        if recipe.is_application:
            candidates.append(Candidate(f"/{folder}", recipe.language, recipe.framework))
            outer = outer if outer and folder.startswith(outer) else f"{folder}/"
        if len(candidates) == MAX_CANDIDATES or tree.bytes_read > MAX_READ_BYTES:
            break
    return candidates


def _only_folder(tree: Tree, recipe: Recipe) -> str:
    """Returns the path of the only candidate of a recipe. Empty if it is not certain that it is what should
    be deployed: a folder of files to serve may belong to a program in an unknown language, code in the outer
    folder may be another program, and the packages that the outer folder names would not be installed."""
    path = recipe.candidates[0].root_path
    inner = _recipe_of(tree.below(path))
    is_program = bool(inner.processes or inner.build)
    has_manifest = any(language.marker(tree, path[1:], manifests_only=True) for language in languages())
    is_beside_code = any(_OWN_CODE_PATTERN.search(name) for name in tree.names())
    return path if is_program and not is_beside_code and (has_manifest or not recipe.install) else ""


def _may_hold_one(folder: str) -> bool:
    parts = folder.split("/")
    return len(parts) <= MAX_DEPTH and not any(
        part.startswith(".") or part.lower() in _SKIPPED_FOLDERS for part in parts
    )
