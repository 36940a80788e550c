"""A static site: HTML files that are served unchanged."""

from __future__ import annotations

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import LAST_PRECEDENCE, Language
from windlass.detect.recipe import Recipe

_SITE_FOLDERS = ("public", "dist", "site", "www", "html")


def fill(files: KnownFiles, recipe: Recipe) -> None:
    if files.has("index.html"):
        recipe.choose("index.html is there.", static_folder=".")
    for folder in _SITE_FOLDERS:
        if files.has(f"{folder}/index.html"):
            recipe.choose(f"{folder}/index.html is there.", static_folder=folder)


static = Language(
    name="HTML",
    manifests=(),
    code=("index.html", *(f"{folder}/index.html" for folder in _SITE_FOLDERS)),
    rank=LAST_PRECEDENCE - 20,
    fill=fill,
)
