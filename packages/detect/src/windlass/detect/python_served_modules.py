"""Checks that the module which a start command of Python serves is in the repository."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.python_code import module_file
from windlass.detect.python_modules import known_package_of

_SERVED_PATTERN: Final = re.compile(
    r"(?:^|[\s/])(?:gunicorn|uvicorn|hypercorn|daphne|granian|waitress-serve)\s"
    r"(?:[^;&|]{0,300}?\s)?['\"]?([A-Za-z_]\w{0,60}+)((?:\.\w{1,60}+){0,6}+):[A-Za-z_]"
)
_ELSEWHERE_PATTERN: Final = re.compile(
    r"--chdir|--app-dir|--pythonpath|--working-directory|PYTHONPATH|\bcd\s"
)
"""Matches a command that serves a module of another folder."""
_MODULE_FOLDERS: Final = ("", "src", "lib")


def problem_of_served_module(files: KnownFiles, command: str) -> str:
    """Returns what to correct if the start command serves a module that is not there; empty if it is there or
    may be part of a package."""
    served = _SERVED_PATTERN.search(command)
    if not served or _ELSEWHERE_PATTERN.search(command) or not _has_code(files):
        return ""
    top, module = served[1], served[1] + served[2]
    if known_package_of(top) or any(_has(files, f"{folder}.{top}".strip(".")) for folder in _MODULE_FOLDERS):
        return ""
    path = f"{module.replace('.', '/')}.py"
    inner = next((folder for folder in sorted(files.tree.folders()) if files.has(f"{folder}/{path}")), "")
    where = f": it is in {inner}/. Set root_path to /{inner}" if inner else ""
    return f"Correct the start command `{command[:120]}`: it serves {module}, and {path} is not here{where}."


def _has_code(files: KnownFiles) -> bool:
    return any(
        name.endswith(".py") for folder in ("", *files.tree.folders()) for name in files.tree.names(folder)
    )


def _has(files: KnownFiles, module: str) -> bool:
    """Returns whether there is such a module, or a folder with modules, which needs no `__init__.py`."""
    return bool(module_file(files, module)) or module.replace(".", "/") in files.tree.folders()
