"""Build stages of Python: packages are installed into a virtual environment, which is copied to the last
stage."""

from __future__ import annotations

import re
import shlex
from typing import Final

from windlass.detect.dockerfile.base_images import BASE_IMAGES
from windlass.detect.dockerfile.instructions import CacheMount, is_plain_path
from windlass.detect.dockerfile.stages import (
    APP_FOLDER,
    BuildStage,
    DockerfileOptions,
    HealthCheck,
    RunStep,
    Stages,
    names_any,
)
from windlass.detect.known_files import KnownFiles, table
from windlass.detect.recipe import Recipe

VENV: Final = "/venv"
_SYSTEM_PYTHON: Final = "/usr/local/bin/python"
_PIP_CACHE: Final = CacheMount("pip", "/root/.cache/pip")
_MANAGER_CACHES: Final = {
    name: CacheMount(name, f"/root/.cache/{folder}")
    for name, folder in (("uv", "uv"), ("poetry", "pypoetry"), ("pdm", "pdm"), ("pipenv", "pipenv"))
}
_NO_PROJECT_OPTIONS: Final = {
    "uv sync": "--no-install-project",
    "poetry install": "--no-root",
    "pdm install": "--no-self",
    "pipenv install": "",
}
"""Commands that can install dependencies before the code is copied, each with the option to do so."""
_LOCK_FILES: Final = ("pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock")
_REQUIREMENTS_PATTERN: Final = re.compile(r"pip install (?:--?[\w-]+ )*-r (\S+)")
_INCLUDE_PATTERN: Final = re.compile(r"(?:-r|--requirement|-c|--constraint)[ \t=]*+(\S++)")
_INCLUDE_OPTIONS: Final = ("-r", "-c", "--requirement", "--constraint")
_LOCAL_PATTERN: Final = re.compile(r"(?:-e|--editable|\.|/|file:)|[^#]*@ *file:")
_VENV_VARIABLES: Final = {"VIRTUAL_ENV": VENV, "PATH": f"{VENV}/bin:$PATH"}
_PAGE_CHECK_PROGRAM: Final = (
    "import os, sys, urllib.request as r; "
    'r.urlopen("http://127.0.0.1:" + os.environ.get("PORT", sys.argv[1]) + sys.argv[2], timeout=4)'
)
_PORT_CHECK_PROGRAM: Final = (
    "import os, socket, sys; "
    'socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", sys.argv[1]))), 4)'
)
CHECK: Final = HealthCheck(
    page=("python", "-c", _PAGE_CHECK_PROGRAM), port=("python", "-c", _PORT_CHECK_PROGRAM)
)


def plan(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Python"]
    build, run = images.tags(images.version_for(recipe.language_version.removeprefix("python-")))
    stages = Stages(image=run, environment={"PYTHONUNBUFFERED": "1"}, check=CHECK)
    if not (recipe.install or recipe.build or recipe.added_packages):
        return stages
    stage = BuildStage(image=build, environment={**_VENV_VARIABLES, **_of_uv(recipe)})
    managers = names_any(recipe, *_MANAGER_CACHES)
    stage.tools = [
        RunStep(f"python -m venv {VENV}"),
        *(RunStep(f"{_SYSTEM_PYTHON} -m pip install {manager}", (_PIP_CACHE,)) for manager in managers),
    ]
    _install(stage, recipe, files, tuple(_MANAGER_CACHES[manager] for manager in managers) or (_PIP_CACHE,))
    if recipe.build:
        stage.build.append(RunStep(recipe.build))
    stages.builds = [stage]
    stages.environment = {**_VENV_VARIABLES, "PYTHONUNBUFFERED": "1"}
    stages.results = [VENV, APP_FOLDER]
    return stages


def _of_uv(recipe: Recipe) -> dict[str, str]:
    if not names_any(recipe, "uv"):
        return {}
    return {
        "UV_PROJECT_ENVIRONMENT": VENV,
        "UV_PYTHON": _SYSTEM_PYTHON,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_LINK_MODE": "copy",
    }


def _install(stage: BuildStage, recipe: Recipe, files: KnownFiles, caches: tuple[CacheMount, ...]) -> None:
    added = shlex.join(recipe.added_packages)
    adding = (
        [RunStep(f"{_SYSTEM_PYTHON} -m pip --python {VENV}/bin/python install {added}", (_PIP_CACHE,))]
        if added
        else []
    )
    install = RunStep(recipe.install, caches)
    if manifests := _requirements(recipe, files):
        stage.manifests, stage.install = manifests, [install, *adding]
        return
    option = next(
        (more for command, more in _NO_PROJECT_OPTIONS.items() if recipe.install.startswith(command)), None
    )
    if option is None or not recipe.install or _has_members(files):
        stage.build = [*([install] if recipe.install else []), *adding]
        return
    stage.manifests = [name for name in _LOCK_FILES if files.has(name)]
    stage.install = [RunStep(f"{recipe.install} {option}".strip(), caches)]
    needs_code = option and not (option == "--no-root" and not _is_package(files))
    stage.build = [*([install] if needs_code else []), *adding]


def _requirements(recipe: Recipe, files: KnownFiles) -> list[str]:
    """Returns the requirements file and all files that it includes. Empty if a requirement needs the
    application's code."""
    named = _REQUIREMENTS_PATTERN.fullmatch(recipe.install)
    ahead = [named[1].removeprefix("./")] if named else []
    for path in ahead:
        if not is_plain_path(path) or not files.has(path) or len(ahead) > 20:
            return []
        folder = path.rpartition("/")[0]
        for line in files.text(path).splitlines():
            text = line.strip()
            included = _INCLUDE_PATTERN.fullmatch(text)
            if _LOCAL_PATTERN.match(text) or (text.startswith(_INCLUDE_OPTIONS) and not included):
                return []
            if included:
                inner = f"{folder}/{included[1].removeprefix('./')}".strip("/")
                ahead += [inner] if inner not in ahead else []
    return ahead


def _has_members(files: KnownFiles) -> bool:
    return bool(table(files.toml("pyproject.toml"), "tool", "uv", "workspace"))


def _is_package(files: KnownFiles) -> bool:
    """Returns whether the project itself has to be installed, because it has scripts or its code is below
    src."""
    content = files.toml("pyproject.toml")
    scripts = table(content, "project", "scripts") or table(content, "tool", "poetry", "scripts")
    return bool(scripts) or any(folder.startswith("src/") for folder in files.tree.folders())
