"""Reads pyproject.toml: the declared dependencies, and whether the project is a package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from windlass.base.toml import parse_toml
from windlass.builders.builder import BuildError
from windlass.builders.small_files import read_small

_BY_NAME: Final = ("poetry", "hatchling", "uv_build")
"""Build backends that look for a package with the name of the project, and fail if it does not exist."""


def read_pyproject(folder: Path) -> dict[str, Any]:
    file = folder / "pyproject.toml"
    try:
        return parse_toml(read_small(file).decode())
    except FileNotFoundError as error:
        if (folder / "setup.py").is_file():
            return {}
        raise BuildError("Add a pyproject.toml to install the project by: there is none.") from error
    except ValueError as error:
        raise BuildError(f"Fix pyproject.toml, which cannot be read: {error}.") from error


def dependencies_in(pyproject: Mapping[str, Any]) -> list[str] | None:
    """Returns the dependencies in pyproject.toml, or None if they are not listed there."""
    project = pyproject.get("project")
    if not isinstance(project, dict) or "dependencies" in _texts(project.get("dynamic")):
        return None
    return _texts(project.get("dependencies"))


def is_installable(pyproject: Mapping[str, Any], folder: Path) -> bool:
    """Returns whether the project can be installed as a package. A project without a build system, or without
    files for it, is only code to run."""
    if "build-system" not in pyproject or poetry_table(pyproject).get("package-mode") is False:
        return False
    return _holds_package(pyproject, folder)


def _holds_package(pyproject: Mapping[str, Any], folder: Path) -> bool:
    """Returns whether the build backend finds files to install. Many backends look for a folder with the
    project's name."""
    backend = table(pyproject, "build-system").get("build-backend")
    name = table(pyproject, "project").get("name", poetry_table(pyproject).get("name"))
    if not (isinstance(backend, str) and isinstance(name, str)) or not backend.startswith(_BY_NAME):
        return True
    plain = re.sub(r"[-_.]+", "_", name).lower()
    tools = table(pyproject, "tool")
    says = any(
        table(tools, *keys) for keys in (("hatch", "build"), ("uv", "build-backend"), ("pdm", "build"))
    )
    if says or "packages" in table(tools, "poetry"):
        return True
    places = (f"{top}{plain}" for top in ("", "src/"))
    return any((folder / place).is_dir() or (folder / f"{place}.py").is_file() for place in places)


def names_folders(pyproject: Mapping[str, Any]) -> bool:
    """Returns whether some dependencies are folders of the repository: workspace members or paths."""
    tools = table(pyproject, "tool")
    uv, poetry = table(tools, "uv"), table(tools, "poetry", "dependencies")
    named = [*table(uv, "sources").values(), *poetry.values()]
    return "workspace" in uv or any(isinstance(entry, dict) and "path" in entry for entry in named)


def poetry_table(pyproject: Mapping[str, Any]) -> dict[str, Any]:
    tools = pyproject.get("tool")
    poetry = tools.get("poetry") if isinstance(tools, dict) else None
    return poetry if isinstance(poetry, dict) else {}


def table(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _texts(listed: object) -> list[str]:
    return [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
