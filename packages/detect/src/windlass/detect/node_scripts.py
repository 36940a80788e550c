"""Scripts of package.json: which scripts a command runs, whether they build, and whether they use development
packages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from windlass.detect.recipe import MAX_LENGTH

_COMMAND_SEPARATOR_PATTERN: Final = re.compile(r"&&|\|\||[;&|\n]")
_END_PATTERN: Final = re.compile(r"[\s=&|;()'\"]+")
_PACKAGE_PATTERN: Final = re.compile(r"(?:@[\w.-]++/)?[\w.-]++")
_PACKAGE_MANAGERS: Final = frozenset(["npm", "pnpm", "yarn", "bun"])
_RUN_WORDS: Final = frozenset(["run", "run-script"])
_MULTI_SCRIPT_RUNNERS: Final = frozenset(["run-s", "run-p", "npm-run-all", "npm-run-all2", "concurrently"])
_TASK_RUNNERS: Final = frozenset(["turbo", "nx", "lerna", "wireit"])
"""Programs that run scripts of the packages of a workspace."""
_WRAPPER_PROGRAMS: Final = frozenset(
    ["npx", "exec", "env", "cross-env", "sh", "bash", "-c", "-lc", "dotenv", "--"]
)
"""Words before a command."""
_LIFECYCLE_SCRIPTS: Final = ("start", "restart", "test", "stop")
"""Scripts that npm runs without the word `run`."""
OWN_SCRIPTS: Final = (
    "preinstall",
    "install",
    "postinstall",
    "prepublish",
    "preprepare",
    "prepare",
    "postprepare",
)
"""Scripts that a package manager runs during an installation, in this order. They may read any file."""
_HOOKS_PATTERN: Final = re.compile(
    r"(npx )?(husky|lefthook|simple-git-hooks|only-allow|is-ci|node \.husky|corepack)\b.*", re.DOTALL
)
"""Scripts that are only useful for developers: they install Git hooks, or check which package manager is
used."""
_BUILDS_PATTERN: Final = re.compile(r"(?:build|compile|bundle)(?:[:.-]\S*+)?")
_MAX_SCRIPTS: Final = 100
_PROGRAM_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "astro": ("astro",),
    "babel": ("@babel/cli", "babel-cli"),
    "babel-node": ("@babel/node", "babel-cli"),
    "dotenv": ("dotenv-cli",),
    "eleventy": ("@11ty/eleventy",),
    "gulp": ("gulp", "gulp-cli"),
    "mikro-orm": ("@mikro-orm/cli",),
    "nest": ("@nestjs/cli",),
    "ng": ("@angular/cli",),
    "nuxi": ("nuxt", "nuxi"),
    "react-router": ("@react-router/dev",),
    "react-router-serve": ("@react-router/serve",),
    "remix": ("@remix-run/dev",),
    "remix-serve": ("@remix-run/serve",),
    "rw": ("@redwoodjs/core",),
    "sequelize": ("sequelize-cli",),
    "strapi": ("@strapi/strapi",),
    "svelte-kit": ("@sveltejs/kit",),
    "swc": ("@swc/cli",),
    "swc-node": ("@swc-node/register",),
    "tailwindcss": ("@tailwindcss/cli", "tailwindcss"),
    "tsc": ("typescript",),
    "typeorm-ts-node-commonjs": ("typeorm",),
    "typeorm-ts-node-esm": ("typeorm",),
    "vue-cli-service": ("@vue/cli-service",),
    "vue-tsc": ("vue-tsc",),
    "webpack": ("webpack", "webpack-cli"),
    **dict.fromkeys(("run-s", "run-p"), ("npm-run-all", "npm-run-all2")),
}
"""Programs whose package has another name, with the packages that contain them."""


def package_of_program(program: str) -> str:
    """Returns the package that contains a program: its own name unless another one is known."""
    return next(iter(_PROGRAM_PACKAGES.get(program, ())), program)


def scripts_of(package: Mapping[str, object]) -> dict[str, str]:
    """Returns the scripts in the document of a package.json."""
    scripts = package.get("scripts")
    pairs = scripts.items() if isinstance(scripts, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}


def scripts_of_installation(scripts: Mapping[str, str]) -> list[str]:
    """Returns the names of the scripts to run after an installation, in order."""
    return [name for name in OWN_SCRIPTS if name in scripts and not _HOOKS_PATTERN.fullmatch(scripts[name])]


def reached_commands(scripts: Mapping[str, str], *commands: str) -> list[str]:
    """Returns the commands and, behind them, the commands of all scripts that they run: those that a package
    manager is asked for, with `pre` and `post`."""
    return _reachable_commands(scripts, commands)[0]


def runs_build(scripts: Mapping[str, str], *commands: str) -> bool:
    """Returns whether a command runs a build: a script such as `build`, or a task of this name of a program
    for workspaces."""
    texts, names = _reachable_commands(scripts, commands)
    return any(map(_BUILDS_PATTERN.fullmatch, names)) or any(
        any(map(_BUILDS_PATTERN.fullmatch, words[1:]))
        for text in texts
        for words in _command_words(text)
        if words and words[0] in _TASK_RUNNERS
    )


def managers_called(scripts: Mapping[str, str], *commands: str) -> list[str]:
    """Returns the package managers other than npm that commands, or the scripts behind them, call."""
    texts = reached_commands(scripts, *commands)
    called = {words[0] for text in texts for words in _command_words(text) if words}
    return sorted(called & (_PACKAGE_MANAGERS - {"npm"}))


def needs_development(
    commands: Iterable[str], development: Collection[str], scripts: Mapping[str, str] | None = None
) -> bool:
    """Returns whether a command, or a script that it runs, uses a development package or builds."""
    if not development:
        return False
    scripts = scripts or {}
    commands = [command for command in commands if command]
    if runs_build(scripts, *commands):
        return True
    words = (
        word
        for command in reached_commands(scripts, *commands)
        for word in _END_PATTERN.split(command[:MAX_LENGTH])
    )
    names = (match[0] for word in words if (match := _PACKAGE_PATTERN.match(word)))
    return any(
        package in development for name in names for package in (name, *_PROGRAM_PACKAGES.get(name, ()))
    )


def _reachable_commands(scripts: Mapping[str, str], commands: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the commands with those of the scripts that they run, and the names of these scripts."""
    texts, names = list(commands), list[str]()
    for text in texts:  # the list grows while it is read
        for name in _scripts_run(text, scripts):
            for part in (f"pre{name}", name, f"post{name}"):
                if (part == name or part in scripts) and part not in names and len(names) < _MAX_SCRIPTS:
                    names.append(part)
                    texts.append(scripts.get(part, ""))
    return texts, names


def _scripts_run(text: str, scripts: Mapping[str, str]) -> Iterator[str]:
    """Yields the names of the scripts that a command runs."""
    for words in _command_words(text):
        match words:
            case [manager, *rest] if manager in _PACKAGE_MANAGERS and not _RUN_WORDS.isdisjoint(rest):
                yield from rest[1 + min(rest.index(word) for word in _RUN_WORDS & {*rest}) :][:1]
            case ["yarn", "workspace", _, name, *_]:
                yield name
            case [manager, name, *_] if manager == "npm" and name in _LIFECYCLE_SCRIPTS:
                yield name
            case [manager, name, *_] if manager in _PACKAGE_MANAGERS - {"npm"} and name in scripts:
                yield name
            case [program, *rest] if program in _MULTI_SCRIPT_RUNNERS:
                yield from _scripts_of_runner(rest, scripts)
            case ["node", "--run", name, *_]:
                yield name


def _scripts_of_runner(words: Iterable[str], scripts: Mapping[str, str]) -> Iterator[str]:
    """Yields the scripts that programs such as npm-run-all run, also by patterns such as `build:*`."""
    for word in words:
        name = word.removeprefix("npm:")
        if name.endswith("*"):
            first = islice(scripts, _MAX_SCRIPTS)
            yield from (other for other in first if other.startswith(name.rstrip("*")))
        else:
            yield name


def _command_words(text: str) -> Iterator[list[str]]:
    """Yields the words of each command in a command line, without options, assignments and `npx`."""
    for part in _COMMAND_SEPARATOR_PATTERN.split(text[:MAX_LENGTH]):
        words = part.replace('"', " ").replace("'", " ").split()
        while words and (words[0] in _WRAPPER_PROGRAMS or "=" in words[0]):
            words.pop(0)
        program, rest = words[:1], words[1:]
        is_node = program == ["node"]
        yield [*program, *(word for word in rest if is_node or not word.startswith("-"))]
