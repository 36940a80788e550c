"""The build of pages that a Node server serves from a folder with a package.json of its own, such as a React
application in `client` if Express serves `client/build`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from windlass.detect.known_files import KnownFiles, text_in
from windlass.detect.node_locks import LOCK_FILES
from windlass.detect.node_scripts import reached_commands
from windlass.detect.recipe import MAX_LENGTH

_PLATFORM_SCRIPTS: Final = ("heroku-postbuild", "render-postbuild", "railway-postbuild", "gcp-build")
"""Scripts that other platforms run after an installation."""
_FOLDER_PATTERN: Final = re.compile(r"[A-Za-z][\w-]{0,60}+")
_PROGRAM_SUFFIXES: Final = (".js", ".mjs", ".cjs", ".ts")
_MAX_FOLDERS: Final = 20
_MAX_PROGRAMS: Final = 4
_INSTALLATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "npm": ("npm ci --prefix {0} --include=dev", "npm run build --prefix {0}"),
    "yarn": ("yarn --cwd {0} install --frozen-lockfile --production=false", "yarn --cwd {0} run build"),
    "pnpm": ("pnpm --dir {0} install --frozen-lockfile --prod=false", "pnpm --dir {0} run build"),
    "bun": ("bun install --cwd {0} --frozen-lockfile", "bun run --cwd {0} build"),
}
"""The commands that install and build a package in another folder."""


def client_build(files: KnownFiles, scripts: Mapping[str, str], manager: str, start: str) -> tuple[str, str]:
    """Returns the command that builds what the program of a start command serves, and the reason. Both are
    empty if it serves nothing that has to be built."""
    for name in _PLATFORM_SCRIPTS:
        if name in scripts:
            reason = f"It is the script {name} of package.json, which other platforms run: `{scripts[name]}`."
            return f"{manager} run {name}", reason
    for path in _programs(files, scripts, start):
        text = files.text(path)
        for folder in _folders_with_build(files):
            if re.search(rf"(?<![\w-]){folder}['\"]?[ \t]*[,/][ \t]*['\"]?(?:build|dist)\b", text):
                return _build_of(files, folder), f"{path} serves files that the build of {folder} makes."
    return "", ""


def _programs(files: KnownFiles, scripts: Mapping[str, str], start: str) -> Iterator[str]:
    """Yields the files that a start command runs."""
    named = (
        word.removeprefix("./")
        for command in reached_commands(scripts, start)
        for word in command[:MAX_LENGTH].split()
        if word.endswith(_PROGRAM_SUFFIXES)
    )
    yield from [path for path in dict.fromkeys(named) if files.has(path)][:_MAX_PROGRAMS]


def _folders_with_build(files: KnownFiles) -> Iterator[str]:
    named = [
        folder
        for folder in sorted(files.tree.folders())
        if _FOLDER_PATTERN.fullmatch(folder) and files.has(f"{folder}/package.json")
    ]
    for folder in named[:_MAX_FOLDERS]:
        if text_in(files.json(f"{folder}/package.json"), "scripts", "build"):
            yield folder


def _build_of(files: KnownFiles, folder: str) -> str:
    """Returns the command that installs the packages of a folder, builds it, and removes the packages."""
    manager = next((name for lock, name in LOCK_FILES if files.has(f"{folder}/{lock}")), "")
    install, build = _INSTALLATIONS[manager or "npm"]
    if not manager:
        install = "npm install --prefix {0} --include=dev --no-package-lock"
    return " && ".join((install.format(folder), build.format(folder), f"rm -rf {folder}/node_modules"))
