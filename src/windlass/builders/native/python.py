"""Python dependencies: finds out what a project needs, and installs it in a virtual environment.

`requirements` reads requirements files.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.base import subprocesses as group
from windlass.base.toml import parse_toml
from windlass.builders.builder import BuildError, Say
from windlass.builders.native import tree
from windlass.builders.native.requirements import local_paths, requirements_in
from windlass.builders.native.tools import Tools, step
from windlass.builders.small_files import read_small

PIP: Final = (22, 3)  # --python


_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


class Wish(Struct, frozen=True):
    """The place where the dependencies are declared."""

    folder: Path
    requirements: bool
    """True for requirements.txt. Otherwise the project itself declares them, and is installed."""


class PythonDependencies(Struct, frozen=True, kw_only=True):
    """The packages to install: dependencies, which builds may share, and packages of this commit alone."""

    requirements: str = ""
    constraints: str = ""
    local: tuple[Path, ...] = ()
    """Paths of the repository that requirements name."""
    project: Path | None = None
    """The project, if it is installed by itself, beside the dependencies."""
    cwd: Path
    whole: bool = False
    """True if only the project's build system knows its dependencies: it is installed together with them."""

    @property
    def nothing(self) -> bool:
        return not (self.requirements or self.project)


class Interpreter(Struct, frozen=True):
    path: str
    version: str
    """A version such as 3.11.7."""


def wish_of(folder: Path) -> Wish | None:
    if (folder / "requirements.txt").is_file():
        return Wish(folder, requirements=True)
    pyproject = read_pyproject(folder) if (folder / "pyproject.toml").is_file() else {}
    # It may only contain settings of tools.
    if (
        {"project", "build-system"} & pyproject.keys()
        or _poetry(pyproject)
        or (folder / "setup.py").is_file()
    ):
        return Wish(folder, requirements=False)
    return None


def needs(wish: Wish, say: Say, added: Sequence[str] = ()) -> PythonDependencies:
    """Reads the declared dependencies, and adds packages that none of them names."""
    declared = _of_requirements(wish, say) if wish.requirements else _of_project(wish.folder)
    return replace(declared, requirements=declared.requirements + _text(added))


def _of_requirements(wish: Wish, say: Say) -> PythonDependencies:
    lines = list(requirements_in(wish.folder / "requirements.txt", wish.folder, say))
    requirements = _text(line.line for line in lines if not line.limits)
    return PythonDependencies(
        requirements=requirements,
        constraints=_text(line.line for line in lines if line.limits),
        local=tuple(local_paths(requirements, wish.folder)),
        cwd=wish.folder,
    )


def _of_project(folder: Path) -> PythonDependencies:
    pyproject = read_pyproject(folder)
    declared = _dependencies_in(pyproject)
    installable = _installable(pyproject) or (folder / "setup.py").is_file()
    if declared is None and not installable:
        raise BuildError(
            "pyproject.toml names no dependencies that can be read: add [project] dependencies, or a "
            "requirements.txt."
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


def digest(needed: PythonDependencies, interpreter: Interpreter, variables: Mapping[str, str]) -> str:
    """Returns a digest of everything that decides the content of the environment."""
    total = hashlib.sha256()
    for part in (
        interpreter.path,
        interpreter.version,
        needed.requirements,
        needed.constraints,
        *(f"{name}={value}" for name, value in sorted(variables.items())),
        *(tree.digest(needed.cwd, [path]) for path in needed.local),
        tree.digest(needed.project) if needed.whole and needed.project else "",
    ):
        total.update(part.encode(errors="surrogateescape") + b"\0")
    return "python-" + total.hexdigest()[:32]


def named_variables(needed: PythonDependencies, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that requirements name. pip replaces them."""
    named = _VARIABLE.findall(needed.requirements)
    return {name: variables[name] for name in named if name in variables}


async def interpreter(tools: Tools, wanted: str, say: Say) -> Interpreter:
    """Returns the requested Python if this machine has it, and else the one that Windlass runs on."""
    own = Interpreter(_own(), ".".join(map(str, sys.version_info[:3])))
    if not wanted or own.version.startswith(f"{wanted}."):
        return own
    if wanted.count(".") == 1 and (path := tools.find(f"python{wanted}")):
        answer = await tools.ask(
            [path, "-c", "import platform; print(platform.python_version())"], cwd=tools.home
        )
        if answer and answer.strip().startswith(f"{wanted}."):
            return Interpreter(path, answer.strip())
    say(f"Python {wanted} is not on this machine: Python {own.version} is used.")
    return own


def _own() -> str:
    """Returns the Python that Windlass runs on, outside of the environment that it may be installed in."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for program in (Path(sys.base_prefix) / "bin" / name, Path(sys.base_prefix) / "bin" / "python3"):
        if program.exists():
            return str(program)
    return sys.executable


def alone(python: Interpreter, folder: Path) -> None:
    """Makes the programs `python` and `python3` in `folder`, with the standard library only.

    With the packages of this machine, an application would run that declares no dependencies, and break when
    it declares its first, or on another machine.
    """
    folder.mkdir()
    home = Path(python.path).resolve().parent
    (folder.parent / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        (folder / name).symlink_to(python.path)


async def environment(
    tools: Tools, python: Interpreter, needed: PythonDependencies, folder: Path, variables: Mapping[str, str]
) -> None:
    """Makes a virtual environment at `folder`/venv, where it stays, and installs the dependencies in it."""
    venv = folder / "venv"
    with step(tools.say, f"Making a virtual environment of Python {python.version}"):
        await tools.run([python.path, "-m", "venv", "--without-pip", venv], cwd=folder, what="python -m venv")
    cwd = await _scratch(tools, needed) if needed.local or needed.whole else needed.cwd
    words: list[str | Path] = []
    if needed.requirements:
        await group.in_thread(_write, tools.home / "requirements.txt", needed.requirements)
        words += ["-r", tools.home / "requirements.txt"]
    if needed.constraints:
        await group.in_thread(_write, tools.home / "constraints.txt", needed.constraints)
        words += ["-c", tools.home / "constraints.txt"]
    if needed.whole and needed.project:
        words.append(cwd / needed.project.relative_to(needed.cwd))
    if words:
        with step(tools.say, "Installing the Python dependencies"):
            await _pip(tools, python, venv, words, cwd, variables)
    await _pip_in(tools, python, venv)


def _write(file: Path, text: str) -> None:
    with tree.fresh(file).open("x") as written:
        written.write(text)


async def project(
    tools: Tools,
    python: Interpreter,
    needed: PythonDependencies,
    venv: Path,
    site: Path,
    variables: Mapping[str, str],
) -> None:
    """Installs the project itself into a folder of its own: the next commit can share the dependencies."""
    assert needed.project
    cwd = await _scratch(tools, needed)
    source = cwd / needed.project.relative_to(needed.cwd)
    with step(tools.say, "Installing the project itself"):
        await _pip(tools, python, venv, ["--no-deps", "--target", site, source], cwd, variables)


async def _scratch(tools: Tools, needed: PythonDependencies) -> Path:
    """Makes a copy to build in, because build systems write into their folder."""
    scratch = tools.home / "source"
    if not scratch.exists():
        await group.in_thread(tree.copy, needed.cwd, scratch)
    return scratch


async def _pip(
    tools: Tools,
    python: Interpreter,
    venv: Path,
    words: Sequence[str | Path],
    cwd: Path,
    variables: Mapping[str, str],
) -> None:
    into = venv / "bin" / "python"
    if pip := await _find_pip(tools, python):
        argv = [*pip, "--python", into, "install", *words]
        await tools.run(argv, cwd=cwd, more=variables, what="pip install")
    elif uv := _uv(tools):
        argv = [uv, "pip", "install", "--python", into, *words]
        await tools.run(argv, cwd=cwd, more=variables, what="uv pip install")
    else:
        raise BuildError(
            f"There is no pip {PIP[0]}.{PIP[1]} or newer and no uv on the machine that runs Windlass: "
            "install python3-pip, or uv."
        )


async def _find_pip(tools: Tools, python: Interpreter) -> list[str] | None:
    for program in dict.fromkeys((python.path, _own(), sys.executable)):
        if program in tools.with_pip:
            return [program, "-m", "pip"]
        answer = await tools.ask([program, "-m", "pip", "--version"], cwd=tools.home)
        version = re.match(r"pip (\d+)\.(\d+)", answer or "")
        if version and (int(version[1]), int(version[2])) >= PIP:
            tools.with_pip.add(program)
            return [program, "-m", "pip"]
    return None


def _uv(tools: Tools) -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return tools.find("uv") or (str(beside) if beside.exists() else None)


async def _pip_in(tools: Tools, python: Interpreter, venv: Path) -> None:
    """Makes a `pip` for commands that installs into the environment, which has none of its own."""
    wrapper = venv / "bin" / "pip"
    if not wrapper.exists() and (pip := await _find_pip(tools, python)):
        text = f'#!/bin/sh\nexec "{pip[0]}" -m pip --python "{venv}/bin/python" "$@"\n'
        # Written as the user of the build, which could already change this folder.
        script = 'printf %s "$1" > "$0" && chmod 755 "$0"'
        await tools.run(["/bin/sh", "-c", script, wrapper, text], cwd=venv, what="sh")


def read_pyproject(folder: Path) -> dict[str, Any]:
    file = folder / "pyproject.toml"
    try:
        return parse_toml(read_small(file).decode())
    except FileNotFoundError as error:
        if (folder / "setup.py").is_file():
            return {}
        raise BuildError("Add a pyproject.toml to install the project by: there is none.") from error
    except ValueError as error:
        raise BuildError(f"Mend pyproject.toml, which cannot be read: {error}.") from error


def _dependencies_in(read_pyproject: Mapping[str, Any]) -> list[str] | None:
    """Returns the dependencies in pyproject.toml, or None if they are not listed there."""
    project = read_pyproject.get("project")
    if not isinstance(project, dict) or "dependencies" in _texts(project.get("dynamic")):
        return None
    return _texts(project.get("dependencies"))


def _installable(read_pyproject: Mapping[str, Any]) -> bool:
    """True for a package. A project without a build system is code to run."""
    return "build-system" in read_pyproject and _poetry(read_pyproject).get("package-mode") is not False


def _poetry(read_pyproject: Mapping[str, Any]) -> dict[str, Any]:
    tools = read_pyproject.get("tool")
    poetry = tools.get("poetry") if isinstance(tools, dict) else None
    return poetry if isinstance(poetry, dict) else {}


def _texts(listed: object) -> list[str]:
    return [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
