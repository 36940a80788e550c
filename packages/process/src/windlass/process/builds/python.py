"""Determines a project's Python dependencies and installs them in a virtual environment.

`requirements` and `pipfile` read the files of these names. `python_managers` runs uv, Poetry and PDM.
`python_versions` finds the interpreter.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from windlass.base import subprocesses
from windlass.base.file_names import file_names, read_beginning
from windlass.builders.builder import BuildError, Say
from windlass.detect import Tree
from windlass.detect.known_files import KnownFiles
from windlass.detect.python_pins import (
    MAX_LOCK_BYTES,
    REQUIREMENTS,
    SETUPTOOLS,
    companions_in,
    missing_requirements,
    old_package_in,
)
from windlass.detect.python_projects import has_to_be_installed
from windlass.process.builds import pipfile, tree
from windlass.process.builds.pip import find_pip, pip_install
from windlass.process.builds.pyproject import (
    dependencies_in,
    is_installable,
    names_folders,
    poetry_table,
    read_pyproject,
    table,
)
from windlass.process.builds.python_managers import MANAGERS, POETRY, LockManager, manager_named
from windlass.process.builds.python_versions import Interpreter
from windlass.process.builds.requirements import local_paths, requirements_in
from windlass.process.builds.tools import Tools, step

_VARIABLE_PATTERN = re.compile(r"\$\{([A-Z0-9_]+)\}")


class DependencyDeclaration(Struct, frozen=True):
    """The place where the dependencies are declared."""

    folder: Path
    kind: Literal["requirements", "pipfile", "locked", "project"]
    file: str = ""
    """The requirements file, or the name of the package manager whose lock file exists."""


class PythonDependencies(Struct, frozen=True, kw_only=True):
    """The packages to install. Builds can share dependencies; some packages belong to one commit."""

    requirements: str = ""
    added: str = ""
    """Packages that the start command needs although no file of the repository lists them."""
    constraints: str = ""
    is_lock: bool = False
    """Whether `requirements` include all indirect dependencies."""
    local: tuple[Path, ...] = ()
    """Paths in the repository that requirements refer to."""
    project: Path | None = None
    """The folder of the project if it is to be installed as a package."""
    cwd: Path
    whole: bool = False
    """Whether only the project's build system knows the dependencies. The project and its dependencies are
    then installed together."""
    command: str = ""
    """The install command from the application's settings, if it is set. The result belongs to one commit."""
    manager: LockManager | None = None
    """The package manager that installs from its lock file. `requirements` are then additional packages."""
    locked: tuple[Path, ...] = ()
    """Files and folders that decide what the package manager installs."""

    @property
    def is_empty(self) -> bool:
        return not (self.requirements or self.added or self.project or self.manager or self.command)

    @property
    def needs_copy(self) -> bool:
        return bool(self.local or self.whole or self.manager)


def declaration_of(folder: Path) -> DependencyDeclaration | None:
    """Returns the place of the dependencies. In order of priority: a lock file of a package manager,
    requirements.txt, Pipfile, pyproject.toml, other requirements files."""
    pyproject = read_pyproject(folder) if (folder / "pyproject.toml").is_file() else {}
    for manager in MANAGERS:
        if pyproject and (folder / manager.lock).is_file():
            return DependencyDeclaration(folder, "locked", manager.name)
    for name in REQUIREMENTS[:1]:
        if (folder / name).is_file():
            return DependencyDeclaration(folder, "requirements", name)
    if (folder / pipfile.LOCK_FILE).is_file() or (folder / pipfile.PIPFILE).is_file():
        return DependencyDeclaration(folder, "pipfile")
    if poetry_table(pyproject) and not is_installable(pyproject, folder) and not table(pyproject, "project"):
        return DependencyDeclaration(folder, "locked", POETRY.name)
    # A pyproject.toml without these tables may only contain settings of tools.
    if (
        {"project", "build-system"} & pyproject.keys()
        or poetry_table(pyproject)
        or (folder / "setup.py").is_file()
    ):
        return DependencyDeclaration(folder, "project")
    return next(
        (
            DependencyDeclaration(folder, "requirements", name)
            for name in REQUIREMENTS
            if (folder / name).is_file()
        ),
        None,
    )


def dependencies_of(
    declaration: DependencyDeclaration, write_line: Say, added_packages: Sequence[str] = ()
) -> PythonDependencies:
    """Reads the declared dependencies and adds the packages in `added_packages`."""
    match declaration.kind:
        case "requirements":
            declared = _of_requirements(declaration, write_line)
        case "pipfile":
            declared = _of_pipfile(declaration)
        case "locked":
            declared = _of_lock(declaration)
        case _:
            declared = _of_project(declaration.folder)
    old = old_package_in(declared.requirements or _lock_text(declared))
    if old and SETUPTOOLS not in added_packages:  # a recipe may have added it already
        write_line(f"{SETUPTOOLS} is installed as well: {old} needs its module pkg_resources.")
        added_packages = [*added_packages, SETUPTOOLS]
    for companion, pin in companions_in(declared.requirements).items():
        if companion not in added_packages:
            write_line(f"{companion} is installed as well: {pin} does not work with newer versions.")
            added_packages = [*added_packages, companion]
    return replace(declared, added=_text(added_packages))


def _lock_text(dependencies: PythonDependencies) -> str:
    """Returns the beginning of the lock file, or an empty string if there is none or it cannot be read."""
    try:
        lock = (
            read_beginning(dependencies.cwd, dependencies.manager.lock, MAX_LOCK_BYTES)
            if dependencies.manager
            else b""
        )
    except OSError:
        return ""
    return lock.decode(errors="replace")


def _of_pipfile(declaration: DependencyDeclaration) -> PythonDependencies:
    requirements = _text(pipfile.pipfile_lines(declaration.folder))
    local = tuple(local_paths(requirements, declaration.folder))
    is_lock = (declaration.folder / pipfile.LOCK_FILE).is_file()
    return PythonDependencies(requirements=requirements, is_lock=is_lock, local=local, cwd=declaration.folder)


def _of_lock(declaration: DependencyDeclaration) -> PythonDependencies:
    """Returns the dependencies of a lock file.

    The manifest and the lock file decide what is installed. If the manifest refers to folders of the
    repository, all files of the project do.
    """
    folder, manager = declaration.folder, manager_named(declaration.file)
    assert manager
    pyproject = read_pyproject(folder)
    manifests = (folder / "pyproject.toml", folder / manager.lock)
    return PythonDependencies(
        manager=manager,
        locked=(folder,) if names_folders(pyproject) else tuple(filter(Path.is_file, manifests)),
        project=folder if is_installable(pyproject, folder) else None,
        cwd=folder,
    )


def _of_requirements(declaration: DependencyDeclaration, write_line: Say) -> PythonDependencies:
    lines = list(requirements_in(declaration.folder / declaration.file, declaration.folder, write_line))
    requirements = _text(line.line for line in lines if not line.limits)
    if missing := missing_requirements(requirements, _declared_in(declaration.folder)):
        more = ", ".join(missing)
        write_line(
            f"Installed as well, because only pyproject.toml names it, and not {declaration.file}: {more}."
        )
        requirements += _text(missing)
    return PythonDependencies(
        requirements=requirements,
        constraints=_text(line.line for line in lines if line.limits),
        local=tuple(local_paths(requirements, declaration.folder)),
        project=declaration.folder if _is_installed_too(declaration, requirements, write_line) else None,
        cwd=declaration.folder,
    )


def _is_installed_too(declaration: DependencyDeclaration, requirements: str, write_line: Say) -> bool:
    """Returns whether the project itself is installed besides its requirements, because its packages are
    below `src`."""
    folder = declaration.folder
    files = KnownFiles(Tree(file_names(folder), partial(read_beginning, folder)))
    if declaration.file != REQUIREMENTS[0] or not has_to_be_installed(files, requirements):
        return False
    write_line("The project is installed as well: its packages are below src.")
    return True


def _declared_in(folder: Path) -> list[str]:
    has_project = (folder / "pyproject.toml").is_file()
    return (dependencies_in(read_pyproject(folder)) or []) if has_project else []


def _of_project(folder: Path) -> PythonDependencies:
    pyproject = read_pyproject(folder)
    declared = dependencies_in(pyproject)
    installable = is_installable(pyproject, folder) or (folder / "setup.py").is_file()
    if declared is None and not installable:
        raise BuildError(
            "Add `dependencies` to [project] in pyproject.toml, or a requirements.txt: pyproject.toml names "
            "no dependencies that can be read."
        )
    requirements = _text(declared or ())
    return PythonDependencies(
        requirements=requirements,
        local=tuple(local_paths(requirements, folder)),
        project=folder if installable else None,
        cwd=folder,
        whole=declared is None,
    )


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines if line)


def digest(dependencies: PythonDependencies, interpreter: Interpreter, variables: Mapping[str, str]) -> str:
    """Returns a digest of everything that decides the content of the virtual environment."""
    total = hashlib.sha256()
    for part in (
        interpreter.path,
        interpreter.version,
        dependencies.requirements,
        dependencies.added,
        dependencies.constraints,
        dependencies.manager.name if dependencies.manager else "",
        *(["--no-deps"] if dependencies.is_lock else []),
        *(f"{name}={value}" for name, value in sorted(variables.items())),
        *(tree.digest(dependencies.cwd, [path]) for path in dependencies.local),
        tree.digest(dependencies.cwd, dependencies.locked),
        tree.digest(dependencies.project) if dependencies.whole and dependencies.project else "",
    ):
        total.update(part.encode(errors="surrogateescape") + b"\0")
    return "python-" + total.hexdigest()[:32]


def named_variables(dependencies: PythonDependencies, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that requirements refer to. pip replaces these references."""
    named = _VARIABLE_PATTERN.findall(dependencies.requirements)
    return {name: variables[name] for name in named if name in variables}


def make_standalone(python: Interpreter, folder: Path) -> None:
    """Links the programs `python` and `python3` into `folder`, with only the standard library.

    If the packages of this machine were visible, an application without declared dependencies would run, and
    then fail on another machine or as soon as it declares its first dependency.
    """
    folder.mkdir()
    home = Path(python.path).resolve().parent
    (folder.parent / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        (folder / name).symlink_to(python.path)


async def environment(tools: Tools, python: Interpreter, folder: Path) -> Path:
    """Creates a virtual environment at `folder`/venv. An environment cannot be moved afterwards."""
    venv = folder / "venv"
    with step(tools.say, f"Making a virtual environment of Python {python.version}"):
        await tools.run(
            [python.path, "-m", "venv", "--without-pip", venv], cwd=folder, title="python -m venv"
        )
    return venv


async def install(
    tools: Tools,
    python: Interpreter,
    dependencies: PythonDependencies,
    venv: Path,
    variables: Mapping[str, str],
) -> None:
    """Installs the packages from the repository's files, and then the added packages."""
    cwd = await scratch(tools, dependencies) if dependencies.needs_copy else dependencies.cwd
    words: list[str | Path] = []
    if dependencies.requirements:
        await subprocesses.in_thread(_write, tools.home / "requirements.txt", dependencies.requirements)
        words += ["-r", tools.home / "requirements.txt"]
    if dependencies.constraints:
        await subprocesses.in_thread(_write, tools.home / "constraints.txt", dependencies.constraints)
        words += ["-c", tools.home / "constraints.txt"]
    if dependencies.whole and dependencies.project:
        words.append(cwd / dependencies.project.relative_to(dependencies.cwd))
    added = dependencies.added.split()
    if words and dependencies.is_lock:
        words.append("--no-deps")
    elif words and "--hash=" not in dependencies.requirements:
        words, added = [*words, *added], []
    if words:
        with step(tools.say, "Installing the Python dependencies"):
            await pip_install(tools, python.path, venv, words, cwd, variables)
    if added:
        with step(tools.say, f"Installing {', '.join(added)}"):
            await pip_install(tools, python.path, venv, added, cwd, variables)
    await _pip_in(tools, python, venv)


async def install_by(
    command: str, tools: Tools, python: Interpreter, venv: Path, cwd: Path, variables: Mapping[str, str]
) -> None:
    """Runs an install command beside the code, with the virtual environment active."""
    await _pip_in(tools, python, venv)
    more = {**variables, "VIRTUAL_ENV": str(venv), "PATH": os.pathsep.join((f"{venv}/bin", *tools.path))}
    with step(tools.say, f"Installing the Python dependencies ({command})"):
        await tools.run(["/bin/sh", "-c", command], cwd=cwd, extra_variables=more, title=command)


def _write(file: Path, text: str) -> None:
    with tree.fresh(file).open("x") as written:
        written.write(text)


async def project(
    tools: Tools,
    python: Interpreter,
    dependencies: PythonDependencies,
    venv: Path,
    site: Path,
    variables: Mapping[str, str],
) -> None:
    """Installs the project into its own folder, so that its dependencies can be shared with the next
    commit."""
    assert dependencies.project
    cwd = await scratch(tools, dependencies)
    source = cwd / dependencies.project.relative_to(dependencies.cwd)
    with step(tools.say, "Installing the project itself"):
        await pip_install(tools, python.path, venv, ["--no-deps", "--target", site, source], cwd, variables)


async def scratch(tools: Tools, dependencies: PythonDependencies) -> Path:
    """Copies the project into a temporary folder, because build systems write into the project's folder."""
    scratch = tools.home / "source"
    if not scratch.exists():
        await subprocesses.in_thread(tree.copy, dependencies.cwd, scratch)
    return scratch


async def _pip_in(tools: Tools, python: Interpreter, venv: Path) -> None:
    """Creates a `pip` script for install commands. It installs into the virtual environment, which contains
    no pip."""
    wrapper = venv / "bin" / "pip"
    if not wrapper.exists() and (pip := await find_pip(tools, python.path)):
        text = f'#!/bin/sh\nexec "{pip[0]}" -m pip --python "{venv}/bin/python" "$@"\n'
        # Written by a process with the user of the build, because that user can already change this folder.
        script = 'printf %s "$1" > "$0" && chmod 755 "$0"'
        await tools.run(["/bin/sh", "-c", script, wrapper, text], cwd=venv, title="sh")
