"""Detects the recipe of a folder on this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from windlass.base.entry_points import entry_points
from windlass.base.file_names import file_names, read_beginning
from windlass.builders.plan import DockerfileChoice, plan_of
from windlass.detect import Recipe, Tree, detect

READERS_GROUP: Final = "windlass.readers"
_SAMPLE_FILES: Final = {
    "requirements.txt": b"flask\n",
    "app.py": b"from flask import Flask\napp = Flask(__name__)\n",
    "pyproject.toml": b'[project]\nname = "sample"\n',
    "Procfile": b"web: gunicorn app:app\n",
    "package.json": b'{"dependencies": {"express": "4"}, "scripts": {"start": "node index.js"}}',
    "index.js": b'require("express")().listen(process.env.PORT)\n',
    "Dockerfile": b"FROM scratch\nEXPOSE 80\n",
}


def tree_of(folder: Path) -> Tree:
    return Tree(file_names(folder), partial(read_beginning, folder))


def load_readers() -> None:
    """Imports all modules that read files of commits, before this process forks. Installed packages register
    such modules as entry points of the group `windlass.readers`."""
    for reader in entry_points(READERS_GROUP):
        reader.load()
    for names in (
        ("Procfile", "requirements.txt", "app.py", "pyproject.toml"),
        ("package.json", "index.js"),
        _SAMPLE_FILES,
    ):
        detect(Tree(names, lambda path, most: _SAMPLE_FILES[path][:most]))  # compiles regular expressions


def recipe_of(folder: Path) -> Recipe:
    """Returns the recipe of a folder without its Dockerfile."""
    return detect(tree_of(folder))


def planned_recipe(folder: Path, executes: bool = True) -> Recipe:
    """Returns what is built and started from a folder, for display. `executes`: whether the builder executes
    Dockerfiles."""
    return plan_of(tree_of(folder), choice=DockerfileChoice(executes=executes)).recipe
