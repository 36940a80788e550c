"""Python package managers with a lock file of their own: uv, Poetry and PDM.

Each one installs into a virtual environment that Windlass has created. Windlass fetches a package manager
that this machine lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.builders.builder import BuildError
from windlass.process.builds.pip import find_uv, install_in_folder, own_python, pip_install
from windlass.process.builds.toolchains import MissingToolchain, Toolchains
from windlass.process.builds.tools import Tools, step


class LockManager(Struct, frozen=True, kw_only=True):
    """A package manager that installs from its own lock file."""

    name: str
    lock: str
    packages: tuple[str, ...]
    """Packages in the Python registry that contain the package manager."""
    words: tuple[str, ...]
    """Arguments that install only the dependencies, without the project and the development dependencies."""
    settings: Mapping[str, str]
    cache: str
    """The variable with the path of the download cache."""


UV: Final = LockManager(
    name="uv",
    lock="uv.lock",
    packages=("uv",),
    words=("sync", "--frozen", "--no-dev", "--no-install-project", "--no-editable"),
    settings={"UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"},
    cache="UV_CACHE_DIR",
)
POETRY: Final = LockManager(
    name="poetry",
    lock="poetry.lock",
    packages=("poetry>=2,<3",),
    words=("install", "--only", "main", "--no-root", "--no-interaction", "--no-ansi"),
    settings={
        "POETRY_VIRTUALENVS_CREATE": "false",
        "POETRY_VIRTUALENVS_IN_PROJECT": "false",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    },
    cache="POETRY_CACHE_DIR",
)
PDM: Final = LockManager(
    name="pdm",
    lock="pdm.lock",
    # The extra `locked` installs the tested versions of PDM's dependencies. PDM fails with other versions.
    packages=("pdm[locked]>=2,<3",),
    words=("sync", "--prod", "--no-self", "--no-editable"),
    settings={"PDM_IGNORE_SAVED_PYTHON": "1", "PDM_CHECK_UPDATE": "false"},
    cache="PDM_CACHE_DIR",
)
MANAGERS: Final = (UV, POETRY, PDM)


def manager_named(name: str) -> LockManager | None:
    return next((manager for manager in MANAGERS if manager.name == name), None)


async def find_program(manager: LockManager, tools: Tools, toolchains: Toolchains, stack: ExitStack) -> Path:
    """Returns the program of a package manager that is installed on this machine, or else fetches it."""
    if path := find_uv(tools) if manager.name == "uv" else tools.find(manager.name):
        return Path(path)
    try:
        make = partial(_make_uv if manager.name == "uv" else _make_environment, manager)
        folder = await toolchains.fetch(manager.name, make, tools, stack)
    except MissingToolchain as missing:
        raise BuildError(
            f"Install {manager.name} on the machine that runs Windlass: `pip install {manager.name}`. "
            f"{manager.lock} asks for it, and it could not be fetched: {missing}"
        ) from missing
    return folder / "bin" / manager.name


async def _make_uv(manager: LockManager, tools: Tools, folder: Path) -> None:
    await install_in_folder(tools, manager.packages, folder)


async def _make_environment(manager: LockManager, tools: Tools, folder: Path) -> None:
    """Installs a package manager in a virtual environment of its own, because its packages must not mix with
    the packages of an application."""
    venv: list[str | Path] = [own_python(), "-m", "venv", "--without-pip", folder]
    await tools.run(venv, cwd=folder, title="python -m venv")
    await pip_install(tools, own_python(), folder, manager.packages, folder, {})


async def install_locked(
    manager: LockManager, program: Path, tools: Tools, venv: Path, cwd: Path, variables: Mapping[str, str]
) -> None:
    """Installs the packages in the lock file into the virtual environment. `cwd` is a copy of the project."""
    more = {
        **manager.settings,
        manager.cache: str(tools.cache / manager.name),
        "VIRTUAL_ENV": str(venv),
        "UV_PROJECT_ENVIRONMENT": str(venv),
        "UV_PYTHON": str(venv / "bin" / "python"),
        "PATH": f"{venv}/bin:{':'.join(tools.path)}",
        **variables,
    }
    shown = f"{manager.name} {manager.words[0]}"
    with step(tools.say, f"Installing the Python dependencies ({shown})"):
        await tools.run([program, *manager.words], cwd=cwd, extra_variables=more, title=shown)
