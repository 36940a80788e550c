"""Static site generators on PyPI: the file that identifies each one, and its output folder."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from windlass.detect.known_files import KnownFiles
from windlass.detect.python_frameworks import add_package
from windlass.detect.recipe import Recipe

_SETS_FOLDER_PATTERN: Final = re.compile(r"^site_dir:[ \t]*+['\"]?([\w./-]{1,200}+)", re.MULTILINE)
_MATERIAL_PATTERN: Final = re.compile(r"^(?:theme:[ \t]*+|[ \t]++name:[ \t]*+)['\"]?material\b", re.MULTILINE)
_MANIFEST_FILES: Final = frozenset(
    ["package.json", "pyproject.toml", "requirements.txt", "manage.py", "go.mod", "Cargo.toml", "Gemfile"]
)
_SITE_FOLDERS: Final = frozenset(
    ["docs", "themes", "node_modules", "overrides", "test", "tests", "examples", "scripts", "tools"]
)
"""Folders in which a manifest belongs to the site, or to tools for its authors."""


class _Generator(Struct, frozen=True, kw_only=True):
    name: str
    files: tuple[str, ...]
    general: tuple[str, ...] = ()
    """Files that other programs use, too: they count beside one of `folders`."""
    folders: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Files of usual sites, by which a folder is looked at that has only a general file."""
    package: str
    """The PyPI package that is installed if no file declares it."""
    build: str
    folder: str


_SITE_GENERATORS: Final = (
    _Generator(
        name="MkDocs",
        files=("mkdocs.yml", "mkdocs.yaml"),
        package="mkdocs",
        build="mkdocs build",
        folder="site",
    ),
    _Generator(
        name="Hugo",
        files=(
            "hugo.toml",
            "hugo.yaml",
            "hugo.yml",
            "hugo.json",
            "config/_default/hugo.toml",
            "config/_default/hugo.yaml",
            "config/_default/config.toml",
            "config/_default/config.yaml",
        ),
        general=("config.toml", "config.yaml", "config.yml", "config.json"),
        folders=("archetypes", "content", "layouts", "themes"),
        examples=("archetypes/default.md", "content/_index.md"),
        package="hugo",
        build="hugo --minify",
        folder="public",
    ),
    _Generator(
        name="Pelican",
        files=("pelicanconf.py",),
        package="pelican",
        build="pelican content -s pelicanconf.py -o output",
        folder="output",
    ),
)

SITE_FILES: Final = tuple(
    file for generator in _SITE_GENERATORS for file in (*generator.files, *generator.examples)
)


def choose_site(files: KnownFiles, recipe: Recipe, dependencies: dict[str, str]) -> None:
    """Chooses the folder's static site generator if the folder contains no application. In a repository with
    an application, the site is usually only its manual."""
    generator = next((maker for maker in _SITE_GENERATORS if _file_of(maker, files)), None)
    if generator is None or recipe.is_application or _holds_others(files):
        return
    file = _file_of(generator, files)
    because = f"{file} is there."
    text = files.text(file)
    package = generator.package
    if generator.name == "MkDocs" and _MATERIAL_PATTERN.search(text):
        package = "mkdocs-material"
    if not {generator.package, package} & dependencies.keys():
        add_package(recipe, package, f"{file} needs it, and no file names it.")
    if generator.name == "Hugo" and files.has("go.mod"):
        recipe.choose("go.mod is there: Hugo fetches modules with Go.", system_packages=["golang", "git"])
    named = _SETS_FOLDER_PATTERN.search(text) if generator.name == "MkDocs" else None
    folder = named[1].removeprefix("./").rstrip("/") if named else generator.folder
    if not folder.startswith(("/", "..")):
        recipe.choose(because, framework=generator.name, build=generator.build, static_folder=folder)


def _file_of(generator: _Generator, files: KnownFiles) -> str:
    """Returns the configuration of a generator; empty if the folder has none."""
    if own := files.has(*generator.files):
        return own
    named = {folder.partition("/")[0] for folder in files.tree.folders()}
    return files.has(*generator.general) if not named.isdisjoint(generator.folders) else ""


def _holds_others(files: KnownFiles) -> bool:
    """Returns whether this folder or a subfolder contains an application whose manual is the site."""
    if files.has("package.json"):
        return True
    return any(
        not _MANIFEST_FILES.isdisjoint(files.tree.names(folder)) and not _is_of_site(folder)
        for folder in files.tree.folders()
    )


def _is_of_site(folder: str) -> bool:
    return folder.startswith(".") or not _SITE_FOLDERS.isdisjoint(folder.split("/"))
