"""Managers of Python dependencies that follow their own lock: uv, Poetry and PDM.

Each installs into an environment that Windlass has made. A manager that this machine does not have is
fetched.
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
    """A program that installs by its own lock."""

    name: str
    lock: str
    packages: tuple[str, ...]
    """Packages of the Python registry that carry the program."""
    words: tuple[str, ...]
    """The command's words that install the dependencies, but neither the project nor development packages."""
    settings: Mapping[str, str]
    cache: str
    """The variable that names its folder for downloads."""


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
    # With the versions of its own dependencies that its authors have tried: it works with no others.
    packages=("pdm[locked]>=2,<3",),
    words=("sync", "--prod", "--no-self", "--no-editable"),
    settings={"PDM_IGNORE_SAVED_PYTHON": "1", "PDM_CHECK_UPDATE": "false"},
    cache="PDM_CACHE_DIR",
)
MANAGERS: Final = (UV, POETRY, PDM)


def manager_named(name: str) -> LockManager | None:
    return next((manager for manager in MANAGERS if manager.name == name), None)


async def find_program(manager: LockManager, tools: Tools, toolchains: Toolchains, held: ExitStack) -> Path:
    """Returns the program of a manager: that of this machine, or a fetched one."""
    if path := find_uv(tools) if manager.name == "uv" else tools.find(manager.name):
        return Path(path)
    try:
        make = partial(_make_uv if manager.name == "uv" else _make_environment, manager)
        folder = await toolchains.fetch(manager.name, make, tools, held)
    except MissingToolchain as missing:
        raise BuildError(
            f"Install {manager.name} on the machine that runs Windlass: `pip install {manager.name}`. "
            f"{manager.lock} asks for it, and it could not be fetched: {missing}"
        ) from missing
    return folder / "bin" / manager.name


async def _make_uv(manager: LockManager, tools: Tools, folder: Path) -> None:
    await install_in_folder(tools, manager.packages, folder)


async def _make_environment(manager: LockManager, tools: Tools, folder: Path) -> None:
    """Creates a virtual environment for the package manager, so that its packages do not mix with those of
    an application."""
    venv: list[str | Path] = [own_python(), "-m", "venv", "--without-pip", folder]
    await tools.run(venv, cwd=folder, what="python -m venv")
    await pip_install(tools, own_python(), folder, manager.packages, folder, {})


async def install_locked(
    manager: LockManager, program: Path, tools: Tools, venv: Path, cwd: Path, variables: Mapping[str, str]
) -> None:
    """Installs the packages of the lock file into the environment. `cwd`: a copy of the project."""
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
        await tools.run([program, *manager.words], cwd=cwd, more=more, what=shown)
