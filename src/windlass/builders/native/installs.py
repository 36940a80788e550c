"""What a RUN of a Dockerfile installs for the application, read off, so that it can be done natively."""

from __future__ import annotations

import re
import shlex
from typing import Final

from msgspec import Struct

_PIP = re.compile(r"(?:\S*/)?pip[\d.]*")
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
# Options of `pip install` that take a value of their own.
_OPTIONS: Final = (
    "-i --index-url --extra-index-url -f --find-links -t --target --prefix --root --trusted-host "
    "--cache-dir --python --python-version --platform --implementation --abi --only-binary --no-binary "
    "--upgrade-strategy --progress-bar --timeout --default-timeout --retries --proxy --cert --client-cert "
    "--src --log --report --root-user-action --config-settings -C --global-option"
)
_WITH_VALUE: Final = frozenset(_OPTIONS.split())
_REGISTRIES: Final = (
    "-i --index-url --extra-index-url -f --find-links --trusted-host --only-binary --no-binary"
)
_HANDED_ON: Final = frozenset(_REGISTRIES.split())
_TOOLS: Final = frozenset(
    {"pip", "setuptools", "wheel", "uv", "poetry", "pipenv", "hatch", "build", "virtualenv"}
)
_NODE: Final = frozenset({"npm", "yarn", "pnpm", "bun"})
_WITHOUT_DEV = re.compile(r"--(omit[= ]dev|production(?!=false)|only[= ]prod\w*|prod)\b|-P\b")
_HARMLESS: Final = frozenset({"cd", "true", "set", "echo", "export", "mkdir", "chmod", "chown"})


class PythonInstall(Struct, frozen=True, kw_only=True):
    files: tuple[str, ...] = ()
    """Of requirements."""
    constraints: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """About registries, as lines of a requirements file."""
    project: bool = False
    """The project itself, by its pyproject.toml."""


class NodeInstall(Struct, frozen=True, kw_only=True):
    dev: bool = False
    """Also what is only needed for development."""


class Reading(Struct, frozen=True, kw_only=True):
    installs: tuple[PythonInstall | NodeInstall, ...] = ()
    more: bool = False
    """It does other things as well, which are not done."""


def read(text: str) -> Reading:
    installs: list[PythonInstall | NodeInstall] = []
    more = False
    for words in _commands(text):
        found = _install(words)
        if found is not None:
            installs.append(found)
        elif not (_upgrades_tools(words) or words[0] in _HARMLESS):
            more = True
    return Reading(installs=tuple(installs), more=more)


def only_makes_executable(text: str) -> bool:
    """`chmod +x` is not needed: what is started is made executable."""
    commands = _commands(text)
    return bool(commands) and all(words[0] == "chmod" for words in commands)


def _commands(text: str) -> list[list[str]]:
    found = []
    for part in re.split(r"&&|\|\||[;\n|]", text):
        words = _split(part)
        while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
            words = words[1:]
        if words:
            found.append(words)
    return found


def _split(part: str) -> list[str]:
    try:
        return shlex.split(part, comments=True)
    except ValueError:
        return part.split()


def _install(words: list[str]) -> PythonInstall | NodeInstall | None:
    match _plain(words):
        case ["pip", "install", *rest] | ["uv", "pip", "install", *rest]:
            return _pip(rest)
        case ["pip", "wheel", *rest]:
            return _pip(rest)
        case ["uv", "sync", *_] | ["poetry", "install" | "sync", *_] | ["pipenv", "install" | "sync", *_]:
            return PythonInstall(project=True)
        case ["npm", "ci" | "clean-install", *rest]:
            return NodeInstall(dev=not _WITHOUT_DEV.search(" ".join(rest)))
        case ["npm" | "yarn" | "pnpm" | "bun", "install" | "i", *rest] if _only_flags(rest):
            return NodeInstall(dev=not _WITHOUT_DEV.search(" ".join(rest)))
        case ["yarn", *rest] if _only_flags(rest):
            return NodeInstall(dev=not _WITHOUT_DEV.search(" ".join(rest)))
    return None


def _plain(words: list[str]) -> list[str]:
    if words[0] == "sudo":
        words = words[1:] or [""]
    if _PYTHON.fullmatch(words[0]) and words[1:2] == ["-m"] and len(words) > 2:
        words = words[2:]
    name = "pip" if _PIP.fullmatch(words[0]) else words[0].rpartition("/")[2]
    rest = words[1:]
    # `pip --no-cache-dir install …`
    while (
        name in ("pip", *_NODE) and rest and rest[0].startswith("-") and "=" not in rest[0] and len(rest) > 1
    ):
        rest = rest[1:]
    return [name, *rest]


def _only_flags(words: list[str]) -> bool:
    return all(word.startswith("-") and word not in ("-g", "--global") for word in words)


def _pip(words: list[str]) -> PythonInstall | None:
    files: list[str] = []
    constraints: list[str] = []
    packages: list[str] = []
    options: list[str] = []
    project = False
    ahead = iter(words)
    for word in ahead:
        name, equals, value = word.partition("=")
        if word.startswith("-r") and not word.startswith("--") and len(word) > 2:
            files.append(word[2:])
        elif name in ("-r", "--requirement", "--requirements"):
            files.append(value if equals else next(ahead, ""))
        elif name in ("-c", "--constraint"):
            constraints.append(value if equals else next(ahead, ""))
        elif name in ("-e", "--editable"):
            target = value if equals else next(ahead, "")
            project = project or _is_project(target)
            packages += [] if _is_project(target) else [target]
        elif name in _WITH_VALUE:
            given = value if equals else next(ahead, "")
            if name in _HANDED_ON:
                options.append(f"{name} {given}")
        elif word.startswith("-"):
            continue
        elif _is_project(word):
            project = True
        elif word.partition("=")[0].partition(">")[0].partition("[")[0] not in _TOOLS:
            packages.append(word)
    if any("$" in word for word in (*files, *packages)):
        return None
    if not (files or packages or project):
        return None
    return PythonInstall(
        files=tuple(filter(None, files)),
        constraints=tuple(filter(None, constraints)),
        packages=tuple(filter(None, packages)),
        options=tuple(options),
        project=project,
    )


def _is_project(word: str) -> bool:
    return bool(re.fullmatch(r"\.(/)?(\[[\w, -]*\])?", word))


def _upgrades_tools(words: list[str]) -> bool:
    match _plain(words):
        case ["pip", "install", *rest] | ["uv", "pip", "install", *rest]:
            named = [word.partition("=")[0] for word in rest if not word.startswith("-")]
            return all(name.partition(">")[0] in _TOOLS for name in named)
    return False
