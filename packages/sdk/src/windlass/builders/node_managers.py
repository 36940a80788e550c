"""Package managers of Node: detects the manager and its version from the lock file or `packageManager`, and
returns its commands.

`node` runs the commands; `toolchains` downloads managers that are not installed on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.builders.small_files import read_small_text
from windlass.detect.node_locks import LOCK_FILES, MAX_LOCK_BYTES, version_by_lock

_PACKAGE_MANAGER_PATTERN: Final = re.compile(
    r"(npm|pnpm|yarn|bun)@(\d++(?:\.\d++){0,2}(?:-[\w.]{1,40}+)?)(?:\+[\w.]++)?"
)
SETTINGS: Final = (".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpm-workspace.yaml", "bunfig.toml")
FOLDERS: Final = (".yarn/releases", ".yarn/plugins", ".yarn/patches", "patches")
"""Folders that an installation needs in addition to the manifest, lock file and settings."""


class PackageManager(Struct, frozen=True, kw_only=True):
    name: str
    version: str = ""
    """The exact version from package.json; otherwise the major version that the lock file's format requires;
    otherwise empty."""
    lock: str = ""
    """Name of the lock file; empty if there is none."""
    ignores_engines: bool = False
    """Whether Yarn 1 installs packages that ask for another Node. Other managers only warn."""

    @property
    def is_berry(self) -> bool:
        """Whether the manager is Yarn 2 or later, which is a different program from Yarn 1."""
        return self.name == "yarn" and bool(self.version) and not self.version.startswith("1")

    @property
    def package(self) -> str:
        """Name of the npm package that contains the program."""
        return "@yarnpkg/cli-dist" if self.is_berry else self.name

    @property
    def wanted(self) -> str:
        return f"{self.name} {self.version}".strip()

    def accepts(self, version: str) -> bool:
        """Returns whether a program version is suitable for the lock file."""
        numbers = self.version.split(".")
        return not self.version or version.split(".")[: len(numbers)] == numbers

    def install(self, *, development: bool) -> tuple[str, ...]:
        """Returns the command that installs the dependencies according to the lock file, or to package.json
        if there is no lock file."""
        match self.name:
            case "pnpm":
                freeze = "--frozen-lockfile" if self.lock else "--no-frozen-lockfile"
                return ("pnpm", "install", freeze, *(() if development else ("--prod",)))
            case "bun":
                frozen = ("--frozen-lockfile",) if self.lock else ()
                return ("bun", "install", *frozen, *(() if development else ("--production",)))
            case "yarn" if self.is_berry:
                return ("yarn", "install", "--immutable" if self.lock else "--no-immutable")
            case "yarn":
                frozen = ("--frozen-lockfile",) if self.lock else ("--no-lockfile",)
                engines = ("--ignore-engines",) if self.ignores_engines else ()
                return ("yarn", "install", *frozen, *engines, f"--production={str(not development).lower()}")
        kind = "--include=dev" if development else "--omit=dev"
        return ("npm", "ci", kind) if self.lock else ("npm", "install", "--no-package-lock", kind)

    def run(self, script: str) -> tuple[str, ...]:
        return (self.name, "run", script)

    def settings(self, cache: Path, registry: str) -> dict[str, str]:
        """Returns environment variables that set the download cache and options. Installed files are copies
        of the cached files, so that a build that changes them does not affect other builds."""
        match self.name:
            case "pnpm":
                return {
                    "npm_config_store_dir": str(cache / "pnpm"),
                    "npm_config_cache_dir": str(cache / "pnpm-metadata"),
                    "npm_config_package_import_method": "clone-or-copy",
                    "npm_config_manage_package_manager_versions": "false",
                    "npm_config_update_notifier": "false",
                    "pnpm_config_store_dir": str(cache / "pnpm"),
                    "pnpm_config_package_import_method": "clone-or-copy",
                    "pnpm_config_pm_on_fail": "ignore",
                }
            case "bun":
                return {"BUN_INSTALL_CACHE_DIR": str(cache / "bun"), "DO_NOT_TRACK": "1"}
            case "yarn" if self.is_berry:
                named = {"YARN_NPM_REGISTRY_SERVER": registry} if registry else {}
                return named | {
                    "YARN_GLOBAL_FOLDER": str(cache / "yarn-berry"),
                    "YARN_ENABLE_GLOBAL_CACHE": "true",
                    "YARN_NODE_LINKER": "node-modules",
                    "YARN_NM_MODE": "classic",
                    "YARN_ENABLE_TELEMETRY": "0",
                    "YARN_ENABLE_PROGRESS_BARS": "false",
                }
            case "yarn":
                return {"YARN_CACHE_FOLDER": str(cache / "yarn")} | (
                    {"YARN_REGISTRY": registry} if registry else {}
                )
        return {}


def manager_of(folder: Path, named: str) -> PackageManager:
    """Returns the package manager that packageManager in package.json declares, otherwise that of the lock
    file, otherwise npm."""
    match = _PACKAGE_MANAGER_PATTERN.fullmatch(named.strip())
    for lock, name in LOCK_FILES:
        if (folder / lock).is_file() and (match is None or match[1] == name):
            version = match[2] if match else _version_by_lock(folder, lock)
            return PackageManager(name=name, version=version, lock=lock)
    if match:
        return PackageManager(name=match[1], version=match[2])
    return PackageManager(name="npm")


def _version_by_lock(folder: Path, lock: str) -> str:
    with (folder / lock).open("rb") as opened:
        return version_by_lock(lock, opened.read(MAX_LOCK_BYTES).decode(errors="replace"))


def registry_of(environment: Mapping[str, str]) -> str:
    """Returns the registry that npm's environment variables set, for managers that do not read these
    variables."""
    named = {name.lower(): value for name, value in environment.items()}
    return named.get("npm_config_registry", "")


def workspace_patterns(folder: Path, workspaces: object) -> list[str]:
    """Returns the folder patterns of a workspace, from package.json or pnpm-workspace.yaml."""
    listed = workspaces.get("packages") if isinstance(workspaces, dict) else workspaces
    patterns = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    if not patterns and (folder / "pnpm-workspace.yaml").is_file():
        patterns = [*_yaml_list(read_small_text(folder / "pnpm-workspace.yaml"), "packages")]
    return patterns[:100]


def _yaml_list(text: str, key: str) -> list[str]:
    """Returns the items of a top-level list in a YAML file. Only simple YAML is supported."""
    words: list[str] = []
    inside = False
    for line in text.splitlines():
        plain = line.partition(" #")[0].strip()
        if line[:1] not in ("", " ", "\t", "-", "#"):
            name, _, rest = plain.partition(":")
            inside = name.strip("\"'") == key
            if inside and rest.strip().startswith("["):
                return [word.strip().strip("\"'") for word in rest.strip().strip("[]").split(",")]
        elif inside and plain.startswith("- "):
            words.append(plain.removeprefix("- ").strip().strip("\"'"))
    return words


def is_matched(path: str, patterns: list[str]) -> bool:
    """Returns whether a folder belongs to a workspace. `path` is relative to the workspace's root."""
    parts = path.split("/")
    included = any(_matches(parts, pattern) for pattern in patterns if not pattern.startswith("!"))
    return included and not any(
        _matches(parts, pattern[1:]) for pattern in patterns if pattern.startswith("!")
    )


def _matches(parts: list[str], pattern: str) -> bool:
    wanted = pattern.strip().removeprefix("./").strip("/").split("/")
    if wanted[-1:] == ["**"]:
        return len(parts) >= len(wanted) and _same(parts[: len(wanted) - 1], wanted[:-1])
    return len(parts) == len(wanted) and _same(parts, wanted)


def _same(parts: list[str], version_parts: list[str]) -> bool:
    return all(_name_matches(part, pattern) for part, pattern in zip(parts, version_parts, strict=True))


def _name_matches(name: str, pattern: str) -> bool:
    """Matches a name with a pattern that may contain one `*`."""
    before, star, after = pattern.partition("*")
    if not star:
        return name == pattern
    return len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after)
