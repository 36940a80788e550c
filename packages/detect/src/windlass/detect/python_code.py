"""Analyzes an application's Python files: the object that a server loads, and files that frameworks run."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

from windlass.detect.known_files import KnownFiles

MAX_FILES: Final = 60
MAX_CODE_LENGTH: Final = 4 << 20
"""Maximum characters of all files together. Hand-written applications are far smaller."""
_ENTRY_FILES: Final = (
    "main.py", "app.py", "application.py", "wsgi.py", "asgi.py", "server.py", "api.py", "web.py", "run.py",
    "__init__.py", "streamlit_app.py", "Home.py", "demo.py", "index.py", "hello.py",
)  # fmt: skip
_SKIPPED_FOLDERS: Final = frozenset(
    {"tests", "test", "docs", "migrations", "scripts", "examples", "node_modules"}
)

_OBJECT_PATTERN: Final = re.compile(
    r"^(\w{1,80}+)[ \t]*+(?::[ \t]*+[\w.]++[ \t]*+)?=[ \t]*+(?:\w++\.){0,3}+(\w++)\(", re.MULTILINE
)
_FACTORY_PATTERN: Final = re.compile(r"^def (create_app|make_app|create_application)\(", re.MULTILINE)
_FUNCTION_PATTERN: Final = re.compile(r"^def[ \t]++(\w{1,80}+)\(([^)\n]{0,300}+)", re.MULTILINE)
_NEXT_STATEMENT_PATTERN: Final = re.compile(r"^[^\s)#]", re.MULTILINE)
"""Matches the line after a function: the next line that is not indented."""
_SERVED_OBJECT_PATTERN: Final = re.compile(
    r"^(?:from[ \t]++[\w.]++[ \t]++import[ \t]++(?:[\w, \t]{0,200}[, \t])?)?(app|application)\b", re.MULTILINE
)
_IMPORT_PATTERN: Final = re.compile(r"^[ \t]*+(?:from|import)[ \t]++(\w++)", re.MULTILINE)
_PLAIN_PATTERN: Final = re.compile(r"[\w.-]++(?:/[\w.-]++)*+")
_MAIN_GUARD_PATTERN: Final = re.compile(r"^if[ \t]++__name__[ \t]*+==[ \t]*+['\"]__main__['\"]", re.MULTILINE)
_RUN_CALL_PATTERN: Final = re.compile(r"\.run\(|\bserve\(|\bserve_forever\(|\brun_app\(|\.listen\(")
_RUN_AT_TOP_PATTERN: Final = re.compile(r"^\w{1,80}+\.run\(", re.MULTILINE)
_PORT_PATTERN: Final = re.compile(
    r"\bport\s*+=\s*+(?:int\()?(?:os\.[\w.]{1,40}+\(['\"]\w{1,40}+['\"]\s*+,\s*+(?:default\s*+=\s*+)?)?['\"]?"
    r"(\d{2,5}+)\b|['\"]PORT['\"]\s*+,\s*+(?:default\s*+=\s*+)?['\"]?(\d{2,5}+)\b",
    re.IGNORECASE,
)
_DEFAULT_PORT: Final = 8000
_OWN_PORTS: Final = {"flask": 5000, "quart": 5000, "bottle": 8080, "dash": 8050}
"""Ports on which the own server of a framework listens if the program names none, by its module."""
_DELIBERATE_PORT_PATTERN: Final = re.compile(r"0\.0\.0\.0|\bport\b\s*+=\s*+\w|PORT")
_PUBLIC_ADDRESS_PATTERN: Final = re.compile(r"0\.0\.0\.0|['\"]::['\"]|\bhost\s*+=\s*+[^\s'\"]")
_ONLY_RUNS_PATTERN: Final = re.compile(
    r"(?:[ \t]*+(?:#|(?:import|from|print|log\w*+\.\w++)\b|\w*port[ \t]*+=|$)[^\n]*+\n)*"
    r"[ \t]*+(?:app|application|server|api|uvicorn)\.run\((?:[^()]|\((?:[^()]|\([^()]*+\))*\))*\)\s*+",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a block that only runs a development server."""


class Maker(Struct, frozen=True):
    """A function that creates an object, such as the application."""

    name: str
    parameters: str

    @property
    def needs_no_arguments(self) -> bool:
        parts = filter(None, (part.strip() for part in self.parameters.split(",")))
        return all("=" in part or part.startswith("*") for part in parts)


class PythonFile(Struct, frozen=True):
    path: str
    text: str
    base: str = ""
    """The folder from which modules are imported; empty for the application's folder."""

    @property
    def module(self) -> str:
        """The name by which the file is imported, relative to `base`."""
        plain = self.path.removeprefix(f"{self.base}/").removesuffix(".py").removesuffix("/__init__")
        return plain.replace("/", ".")

    def imports(self, module: str) -> bool:
        return any(match[1] == module for match in _IMPORT_PATTERN.finditer(self.text))

    @property
    def foreign_modules(self) -> list[str]:
        """The modules that the file imports and the standard library does not contain, sorted."""
        return sorted({match[1] for match in _IMPORT_PATTERN.finditer(self.text)} - sys.stdlib_module_names)

    def made_by(self, *classes: str) -> str:
        """Returns the name of the first module-level object that is an instance of one of these classes."""
        return next((match[1] for match in _OBJECT_PATTERN.finditer(self.text) if match[2] in classes), "")

    def makers(self, name: str) -> Iterator[Maker]:
        """Yields the module-level functions that create an instance of the class."""
        makes = re.compile(rf"\b{name}(?:\(|\s*+:$)", re.MULTILINE)
        if not makes.search(self.text):
            return
        for match in _FUNCTION_PATTERN.finditer(self.text):
            after = _NEXT_STATEMENT_PATTERN.search(self.text, match.end())
            if makes.search(self.text, match.end(), after.start() if after else len(self.text)):
                yield Maker(match[1], match[2])

    def factory(self, name: str) -> str:
        """Returns the name of a function that creates an application of this class: a function with a usual
        name, or a function without required arguments that calls the class."""
        if match := _FACTORY_PATTERN.search(self.text):
            return match[1]
        return next((maker.name for maker in self.makers(name) if maker.needs_no_arguments), "")

    @property
    def served_object(self) -> str:
        """The name of the application object, if the file defines or imports it under a usual name."""
        match = _SERVED_OBJECT_PATTERN.search(self.text)
        return match[1] if match else ""

    @property
    def starts_a_server(self) -> bool:
        """Returns whether running the file starts a server that the author configured for public access, or
        does more than start a server.

        Frameworks listen on localhost by default. In that case, a separate server loads the application
        instead.
        """
        block = self._main_part
        if not (_RUN_CALL_PATTERN.search(block) and _DELIBERATE_PORT_PATTERN.search(block)):
            return False
        return bool(_PUBLIC_ADDRESS_PATTERN.search(block)) or not _ONLY_RUNS_PATTERN.fullmatch(block)

    @property
    def _main_part(self) -> str:
        """The code that runs only if the file is executed, without the `if __name__` line."""
        if main := _MAIN_GUARD_PATTERN.search(self.text):
            return self.text[main.end() :].removeprefix(":").lstrip("\n")
        runs = _RUN_AT_TOP_PATTERN.search(self.text)
        return self.text[runs.start() :] if runs else ""

    @property
    def served_port(self) -> int:
        """The first port in the text, or the default port of its framework. If the program listens on another
        port, that port is detected when it runs."""
        numbers = (int(match[1] or match[2]) for match in _PORT_PATTERN.finditer(self.text))
        usual = next((port for module, port in _OWN_PORTS.items() if self.imports(module)), _DEFAULT_PORT)
        return next((number for number in numbers if 0 < number < 2**16), usual)


def python_files(
    files: KnownFiles, dependencies: Collection[str], *, of_any_name: bool = False
) -> list[PythonFile]:
    """Returns the files that may contain the application: the top folder before packages, usual names first.
    `dependencies`: the application's dependencies. `of_any_name`: also unusual names in packages of the top
    folder."""
    modules: list[PythonFile] = []
    size = 0
    for path in _python_paths(files, of_any_name=of_any_name):
        if files.text(path):
            modules.append(python_file(files, path, dependencies))
            size += len(modules[-1].text)
        if len(modules) == MAX_FILES or size > MAX_CODE_LENGTH:
            break
    return modules


def python_file(files: KnownFiles, path: str, dependencies: Collection[str]) -> PythonFile:
    text = files.text(path)
    folder, _, name = path.rpartition("/")
    names = {match[1] for match in _IMPORT_PATTERN.finditer(text)} - sys.stdlib_module_names
    own = {module for module in names if module not in dependencies and f"{module}.py" != name}
    return PythonFile(path, text, _base_of(files, folder, own if name != "__init__.py" else ()))


def module_file(files: KnownFiles, module: str) -> str:
    """Returns the path of a module or of a package's `__init__.py`; empty if the file does not exist."""
    path = module.replace(".", "/")
    return files.has(f"{path}.py", f"{path}/__init__.py")


def _base_of(files: KnownFiles, folder: str, modules: Collection[str]) -> str:
    """Returns the folder from which a file imports the repository's modules.

    The file's own folder is returned if the modules are only there, because the file is run there. Files
    below `src` import from `src`.
    """
    is_run_there = _PLAIN_PATTERN.fullmatch(folder) and _contains_module(files, folder, modules)
    if is_run_there and not any(_contains_module(files, top, modules) for top in ("", "src")):
        return folder
    return "src" if f"{folder}/".startswith("src/") else ""


def _contains_module(files: KnownFiles, folder: str, modules: Collection[str]) -> bool:
    """Returns whether a folder contains one of these modules or packages."""
    inner = f"{folder}/" if folder else ""
    return any(files.has(f"{inner}{name}.py", f"{inner}{name}/__init__.py") for name in modules)


def _python_paths(files: KnownFiles, *, of_any_name: bool) -> Iterator[str]:
    folders = ["", *_package_folders(files)]
    for folder in folders:
        names = files.tree.names(folder)
        usual = [name for name in _ENTRY_FILES if name in names]
        yield from _program_paths_in(
            folder, (*usual, *(_other_python_names(names) if folder in ("", "src") else ()))
        )
    for folder in folders if of_any_name else ():
        if folder and folder != "src" and "/" not in folder:
            yield from _program_paths_in(folder, _other_python_names(files.tree.names(folder)))


def _other_python_names(names: Collection[str]) -> list[str]:
    return sorted(name for name in names if name.endswith(".py") and name not in _ENTRY_FILES)


def _program_paths_in(folder: str, names: Collection[str]) -> Iterator[str]:
    for name in names:
        if not name.startswith(("test_", "setup.py", "conftest.py", "manage.py")):
            yield f"{folder}/{name}".strip("/")


def _package_folders(files: KnownFiles) -> list[str]:
    """Returns package folders up to two levels deep, or three levels below `src`."""
    folders = [
        folder
        for folder in files.tree.folders()
        if folder.removeprefix("src/").count("/") <= 1
        and not _SKIPPED_FOLDERS & set(folder.split("/"))
        and not folder.startswith(".")
    ]
    return sorted(folders, key=lambda folder: (folder.count("/"), folder not in ("app", "src"), folder))[:200]
