"""Python dependencies: what is needed, and a virtual environment with it."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from windlass.base import subprocesses as group
from windlass.builders.builder import BuildError, Say
from windlass.builders.native import tree
from windlass.builders.native.tools import Tools, step

DEEPEST: Final = 20
LONGEST: Final = 4 * 1024 * 1024
PIP: Final = (22, 3)  # --python

_INCLUDE = re.compile(r"(?:-r\s*|--requirement(?:s)?[=\s]\s*)(?P<path>\S+)\s*(?:#.*)?\Z")
_CONSTRAINT = re.compile(r"(?:-c\s*|--constraint(?:s)?[=\s]\s*)(?P<path>\S+)\s*(?:#.*)?\Z")
_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NAMED_PATH = re.compile(r"\S+\s*@\s*file://(?:localhost)?(?P<path>[^\s;#]+)")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


class Wish(Struct, frozen=True):
    """Where it is said what is asked for."""

    folder: Path
    requirements: bool
    """By requirements.txt; else by the project itself, which is then installed."""


class Requirement(NamedTuple):
    line: str
    limits: bool = False
    """It only limits the version, as a constraint."""


class PythonDependencies(Struct, frozen=True, kw_only=True):
    """What is installed: the dependencies, which builds may share, and what is of this commit alone."""

    requirements: str = ""
    constraints: str = ""
    local: tuple[Path, ...] = ()
    """What requirements name of the repository itself."""
    project: Path | None = None
    """Installed by itself, beside the dependencies."""
    cwd: Path
    whole: bool = False
    """Only the project's own build system knows its dependencies: it is installed together with them."""

    @property
    def nothing(self) -> bool:
        return not (self.requirements or self.project)


class Interpreter(Struct, frozen=True):
    path: str
    version: str
    """Such as 3.11.7."""


def wish_of(folder: Path) -> Wish | None:
    if (folder / "requirements.txt").is_file():
        return Wish(folder, requirements=True)
    told = described(folder) if (folder / "pyproject.toml").is_file() else {}
    # It may be there for nothing but the settings of tools.
    if {"project", "build-system"} & told.keys() or _poetry(told) or (folder / "setup.py").is_file():
        return Wish(folder, requirements=False)
    return None


def needs(wish: Wish, say: Say) -> PythonDependencies:
    """Reads what is asked for."""
    if not wish.requirements:
        return _of_project(wish.folder)
    found = list(_lines(wish.folder / "requirements.txt", wish.folder, say, 0))
    requirements = _text(each.line for each in found if not each.limits)
    return PythonDependencies(
        requirements=requirements,
        constraints=_text(each.line for each in found if each.limits),
        local=tuple(_local(requirements, wish.folder)),
        cwd=wish.folder,
    )


def _of_project(folder: Path) -> PythonDependencies:
    told = described(folder)
    declared = _declared(told)
    installable = _installable(told) or (folder / "setup.py").is_file()
    if declared is None and not installable:
        raise BuildError(
            "pyproject.toml names no dependencies that can be read: add [project] dependencies, or a "
            "requirements.txt."
        )
    requirements = _text(declared or ())
    return PythonDependencies(
        requirements=requirements,
        local=tuple(_local(requirements, folder)),
        project=folder if installable else None,
        cwd=folder,
        whole=declared is None,
    )


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines if line)


def digest(needed: PythonDependencies, interpreter: Interpreter, given: Mapping[str, str]) -> str:
    """Of everything that decides what is in the environment."""
    total = hashlib.sha256()
    for part in (
        interpreter.path,
        interpreter.version,
        needed.requirements,
        needed.constraints,
        *(f"{name}={value}" for name, value in sorted(given.items())),
        *(tree.digest(needed.cwd, [path]) for path in needed.local),
        tree.digest(needed.project) if needed.whole and needed.project else "",
    ):
        total.update(part.encode(errors="surrogateescape") + b"\0")
    return "python-" + total.hexdigest()[:32]


def asked_for(needed: PythonDependencies, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that requirements speak of; pip fills them in."""
    named = _VARIABLE.findall(needed.requirements)
    return {name: variables[name] for name in named if name in variables}


async def interpreter(tools: Tools, wanted: str, say: Say) -> Interpreter:
    """The Python that is asked for, if this machine has it; else its own."""
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
    """The Python that Windlass runs on; outside of the environment that it may be installed in."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for each in (Path(sys.base_prefix) / "bin" / name, Path(sys.base_prefix) / "bin" / "python3"):
        if each.exists():
            return str(each)
    return sys.executable


async def environment(
    tools: Tools, python: Interpreter, needed: PythonDependencies, made: Path, given: Mapping[str, str]
) -> None:
    """A virtual environment at `made`/venv, where it stays, with the dependencies in it."""
    venv = made / "venv"
    with step(tools.say, f"Making a virtual environment of Python {python.version}"):
        await tools.run([python.path, "-m", "venv", "--without-pip", venv], cwd=made, what="python -m venv")
    cwd = await _scratch(tools, needed) if needed.local or needed.whole else needed.cwd
    words: list[str | Path] = []
    if needed.requirements:
        await group.aside(_write, tools.home / "requirements.txt", needed.requirements)
        words += ["-r", tools.home / "requirements.txt"]
    if needed.constraints:
        await group.aside(_write, tools.home / "constraints.txt", needed.constraints)
        words += ["-c", tools.home / "constraints.txt"]
    if needed.whole and needed.project:
        words.append(cwd / needed.project.relative_to(needed.cwd))
    if words:
        with step(tools.say, "Installing the Python dependencies"):
            await _pip(tools, python, venv, words, cwd, given)
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
    given: Mapping[str, str],
) -> None:
    """The project itself, in a folder of its own: its dependencies stay as they are for the next commit."""
    assert needed.project
    cwd = await _scratch(tools, needed)
    source = cwd / needed.project.relative_to(needed.cwd)
    with step(tools.say, "Installing the project itself"):
        await _pip(tools, python, venv, ["--no-deps", "--target", site, source], cwd, given)


async def _scratch(tools: Tools, needed: PythonDependencies) -> Path:
    """A copy to build in: build systems leave things where they work."""
    scratch = tools.home / "source"
    if not scratch.exists():
        await group.aside(tree.copy, needed.cwd, scratch)
    return scratch


async def _pip(
    tools: Tools,
    python: Interpreter,
    venv: Path,
    words: Sequence[str | Path],
    cwd: Path,
    given: Mapping[str, str],
) -> None:
    into = venv / "bin" / "python"
    if pip := await _found_pip(tools, python):
        argv = [*pip, "--python", into, "install", *words]
        await tools.run(argv, cwd=cwd, more=given, what="pip install")
    elif uv := _uv(tools):
        argv = [uv, "pip", "install", "--python", into, *words]
        await tools.run(argv, cwd=cwd, more=given, what="uv pip install")
    else:
        raise BuildError(
            f"There is no pip {PIP[0]}.{PIP[1]} or newer and no uv on the machine that runs Windlass: "
            "install python3-pip, or uv."
        )


async def _found_pip(tools: Tools, python: Interpreter) -> list[str] | None:
    for each in dict.fromkeys((python.path, _own(), sys.executable)):
        if each in tools.with_pip:
            return [each, "-m", "pip"]
        answer = await tools.ask([each, "-m", "pip", "--version"], cwd=tools.home)
        version = re.match(r"pip (\d+)\.(\d+)", answer or "")
        if version and (int(version[1]), int(version[2])) >= PIP:
            tools.with_pip.add(each)
            return [each, "-m", "pip"]
    return None


def _uv(tools: Tools) -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return tools.find("uv") or (str(beside) if beside.exists() else None)


async def _pip_in(tools: Tools, python: Interpreter, venv: Path) -> None:
    """`pip` in a command means the environment, although there is none in it."""
    wrapper = venv / "bin" / "pip"
    if not wrapper.exists() and (pip := await _found_pip(tools, python)):
        text = f'#!/bin/sh\nexec "{pip[0]}" -m pip --python "{venv}/bin/python" "$@"\n'
        # As the build writes, which has been at this folder, and not as we might.
        script = 'printf %s "$1" > "$0" && chmod 755 "$0"'
        await tools.run(["/bin/sh", "-c", script, wrapper, text], cwd=venv, what="sh")


def _lines(file: Path, top: Path, say: Say, deep: int) -> Iterator[Requirement]:
    """Reads a requirements file and those it includes."""
    if deep > DEEPEST:
        raise BuildError(f"{file.name} includes other files too deep, or itself.")
    whole = tree.inside(top, file)
    if whole is None or not whole.is_file():
        raise BuildError(f"There is no {file.relative_to(top) if file.is_relative_to(top) else file.name}.")
    if whole.stat().st_size > LONGEST:
        raise BuildError(f"{file.name} is longer than {LONGEST // 1024**2} MiB.")
    text = whole.read_text(encoding="utf-8-sig", errors="replace")
    for line in text.replace("\0", "").splitlines():
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        if included := _INCLUDE.match(plain):
            yield from _included(included["path"], file, top, say, deep, line)
        elif limiting := _CONSTRAINT.match(plain):
            for each in _included(limiting["path"], file, top, say, deep, line):
                yield each._replace(limits=True)
        else:
            yield Requirement(_as_installed(line, say))


def _included(path: str, file: Path, top: Path, say: Say, deep: int, line: str) -> Iterator[Requirement]:
    if _URL.match(path):
        yield Requirement(line)
        return
    yield from _lines(tree.within(top, file.parent, path, file.name), top, say, deep + 1)


def _as_installed(line: str, say: Say) -> str:
    """An editable install would point to where it was built; it is installed like any other."""
    if not (found := _EDITABLE.match(line.lstrip())):
        return line
    rest = line.lstrip()[found.end() :].strip()
    if _URL.match(rest) or re.match(r"(git|hg|svn|bzr)\+", rest):
        return rest if " @ " in rest or "#egg=" not in rest else _by_name(rest)
    say(f"{rest} is installed as it is now, and not as editable.")
    return rest


def _by_name(url: str) -> str:
    place, _, egg = url.partition("#egg=")
    name = egg.partition("&")[0]
    return f"{name} @ {place}"


def _local(requirements: str, folder: Path) -> Iterator[Path]:
    for line in requirements.splitlines():
        word = line.strip().partition(";")[0].partition(" --hash")[0].strip()
        named = _NAMED_PATH.match(word)
        path = named["path"] if named else word.removeprefix("file://").partition("[")[0].strip()
        if not path or path.startswith("-") or _URL.match(path):
            continue
        looks = named or word.startswith(("file:", ".", "/", "~")) or ("/" in path and "@" not in path)
        if looks or (path.endswith((".whl", ".tar.gz", ".zip")) and (folder / path).exists()):
            found = tree.within(folder, folder, path, "requirements.txt")
            if not found.exists():
                raise BuildError(f"requirements.txt names {path}, which is not there.")
            yield found


def described(folder: Path) -> dict[str, Any]:
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if (folder / "setup.py").is_file():
            return {}
        raise BuildError("There is no pyproject.toml to install the project by.") from error
    except ValueError as error:
        raise BuildError(f"pyproject.toml cannot be read: {error}.") from error


def _declared(described: Mapping[str, Any]) -> list[str] | None:
    """Its dependencies, if they stand there."""
    told = described.get("project")
    if not isinstance(told, dict) or "dependencies" in _texts(told.get("dynamic")):
        return None
    return _texts(told.get("dependencies"))


def _installable(described: Mapping[str, Any]) -> bool:
    """One without a build system is code to run, not a package to install."""
    return "build-system" in described and _poetry(described).get("package-mode") is not False


def _poetry(described: Mapping[str, Any]) -> dict[str, Any]:
    tools = described.get("tool")
    poetry = tools.get("poetry") if isinstance(tools, dict) else None
    return poetry if isinstance(poetry, dict) else {}


def _texts(listed: object) -> list[str]:
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
