"""The start command of a server whose package.json has no script to start it: the program that its script for
development watches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from windlass.detect.known_files import KnownFiles, text_in

_DEVELOPMENT_SCRIPTS: Final = ("dev", "start:dev", "develop", "development", "watch", "server", "start:watch")
_RUNNER_PROGRAMS: Final = ("node", "nodemon", "tsx", "ts-node", "ts-node-dev", "tsnd", "babel-node")
_SCRIPT_SUFFIXES: Final = (".js", ".mjs", ".cjs")
_TYPESCRIPT_SUFFIXES: Final = (".ts", ".mts", ".cts")
_ENTRY_FILES: Final = tuple(
    f"{folder}{name}.ts" for folder in ("src/", "") for name in ("main", "server", "index", "app")
)
_RUNNER_COMMANDS: Final[Mapping[str, str]] = {
    "tsx": "npx tsx",
    "ts-node": "npx ts-node",
    "ts-node-dev": "npx ts-node-dev --transpile-only",
}
_PATHS_PACKAGE: Final = "tsconfig-paths"


def watched_program(
    files: KnownFiles, scripts: Mapping[str, Any], dependencies: Collection[str]
) -> tuple[str, str]:
    """Returns the command that runs the program which a script for development watches, and the reason. Both
    are empty if no script shows such a program."""
    for name in _DEVELOPMENT_SCRIPTS:
        text = text_in(scripts, name)
        for path in _files_that_command_runs(text):
            if files.has(path) and (command := _command_for(path, dependencies)):
                return command, f"The script {name} of package.json runs {path}: `{text}`."
    for path in (
        _files_that_command_runs(text_in(files.json("nodemon.json"), "exec"))
        if files.has("nodemon.json")
        else ()
    ):
        if files.has(path) and (command := _command_for(path, dependencies)):
            return command, f"nodemon.json runs {path}."
    path = files.has(*_ENTRY_FILES)
    command = _command_for(path, dependencies) if path else ""
    return (command, f"{path} is there.") if command else ("", "")


def _files_that_command_runs(text: str) -> Iterator[str]:
    """Yields the files that a command runs by Node or by a program that compiles TypeScript on the way."""
    words = text.replace('"', " ").replace("'", " ").split()
    if not any(word in _RUNNER_PROGRAMS for word in words):
        return
    for word in words:
        if word.endswith((*_SCRIPT_SUFFIXES, *_TYPESCRIPT_SUFFIXES)) and not word.startswith(
            ("-", "/", "..")
        ):
            yield word.removeprefix("./")


def _command_for(path: str, dependencies: Collection[str]) -> str:
    """Returns the command that runs a file; empty if no package of the application can run it."""
    if path.endswith(_SCRIPT_SUFFIXES):
        return f"node {path}"
    runner = next((program for program in _RUNNER_COMMANDS if program in dependencies), "")
    if not runner:
        return ""
    paths = f" -r {_PATHS_PACKAGE}/register" if runner != "tsx" and _PATHS_PACKAGE in dependencies else ""
    return f"{_RUNNER_COMMANDS[runner]}{paths} {path}"
