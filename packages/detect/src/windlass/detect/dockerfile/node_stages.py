"""Build stages of Node: install the packages from manifest and lock file, run the build, and copy the files
with node_modules."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.dockerfile.base_images import BASE_IMAGES
from windlass.detect.dockerfile.instructions import CacheMount
from windlass.detect.dockerfile.stages import (
    APP_FOLDER,
    BuildStage,
    DockerfileOptions,
    HealthCheck,
    RunStep,
    Stages,
    names_any,
)
from windlass.detect.known_files import KnownFiles, table, text_in
from windlass.detect.node_frameworks import build_cache_of
from windlass.detect.node_locks import MAX_LOCK_BYTES, NEWEST_PNPM, version_by_lock
from windlass.detect.node_scripts import OWN_SCRIPTS, needs_development, scripts_of, scripts_of_installation
from windlass.detect.recipe import Recipe

_MANAGER_CACHES: Final = {
    "npm": CacheMount("npm", "/root/.npm"),
    "pnpm": CacheMount("pnpm", "/root/.pnpm-store"),
    "yarn": CacheMount("yarn", "/root/.yarn"),
    "bun": CacheMount("bun", "/root/.bun/install/cache"),
}
_MANAGER_VARIABLES: Final = {
    "pnpm": {"npm_config_store_dir": "/root/.pnpm-store"},
    # Yarn 2 and later would leave packages in Yarn's cache, which images do not contain.
    "yarn": {"YARN_CACHE_FOLDER": "/root/.yarn", "YARN_NODE_LINKER": "node-modules"},
}
_MANAGER_PACKAGES: Final = {"pnpm": "pnpm", "bun": "bun", "yarn": "@yarnpkg/cli-dist"}
_LAST_NODE_WITH_YARN: Final = 24
"""The last version of Node whose images contain Yarn 1."""
_PRODUCTION_OPTIONS: Final = {
    "npm ci": "--omit=dev",
    "npm install": "--omit=dev",
    "pnpm install --frozen-lockfile": "--prod",
    "yarn install --frozen-lockfile": "--production",
    "bun install --frozen-lockfile": "--production",
}
_MANIFEST_FILES: Final = (
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
)
_MANAGER_PATTERN: Final = re.compile(r"(npm|yarn|pnpm|bun)@(\d++(?:\.\d++){0,2})")
_LOCAL_PATTERN: Final = re.compile(r"(?:file|link|portal|workspace|patch):")
_LOCK_FILES: Final = {"pnpm": "pnpm-lock.yaml", "yarn": "yarn.lock"}
_SCRIPT_COMMAND_PATTERN: Final = re.compile(r"(?:npm|yarn|pnpm|bun)(?: run)? ([\w:.-]+)")
_PAGE_CHECK_PROGRAM: Final = (
    'fetch("http://127.0.0.1:" + (process.env.PORT || process.argv[1]) + process.argv[2])'
    ".then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"
)
_PORT_CHECK_PROGRAM: Final = (
    'require("net").connect(process.env.PORT || process.argv[1], "127.0.0.1")'
    '.on("connect", () => process.exit(0)).on("error", () => process.exit(1))'
)
CHECK: Final = HealthCheck(page=("node", "-e", _PAGE_CHECK_PROGRAM), port=("node", "-e", _PORT_CHECK_PROGRAM))


def plan(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Node"]
    build, run = images.tags(images.version_for(recipe.language_version))
    package = files.json(f"{options.below}/package.json".lstrip("/"))
    stages = Stages(
        image=run,
        environment={
            "NODE_ENV": "production",
            "HOSTNAME": "0.0.0.0",  # noqa: S104 (some servers listen where it says)
            "PATH": _path_variable(options),
        },
        start=_start(recipe, package),
        check=CHECK,
    )
    managers = names_any(recipe, *_MANAGER_CACHES)
    started = [manager for manager in managers if manager in stages.start.split()]
    stages.tools = _package_manager_steps(started, files, package, has_yarn=_has_yarn(run))
    if recipe.install or recipe.build:
        stages.builds = [_build_stage(recipe, files, build, options, managers)]
    return stages


def _path_variable(options: DockerfileOptions) -> str:
    folders = dict.fromkeys([options.folder, APP_FOLDER])
    return ":".join([*(f"{folder}/node_modules/.bin" for folder in folders), "$PATH"])


def _build_stage(
    recipe: Recipe, files: KnownFiles, image: str, options: DockerfileOptions, managers: list[str]
) -> BuildStage:
    package = files.json("package.json")
    stage = BuildStage(image=image, environment={"PATH": _path_variable(options)})
    for manager in managers:
        stage.environment |= _MANAGER_VARIABLES.get(manager, {})
    stage.tools = _package_manager_steps(managers, files, package, has_yarn=_has_yarn(image))
    if recipe.install:
        only_used = "" if _needs_tools(recipe, package) else _PRODUCTION_OPTIONS.get(recipe.install, "")
        caches = tuple(_MANAGER_CACHES[manager] for manager in managers) or (_MANAGER_CACHES["npm"],)
        installing = [RunStep(f"{recipe.install} {only_used}".strip(), caches)]
        if _needs_code(recipe, files, package):
            stage.build = installing
        else:
            stage.manifests = [name for name in _MANIFEST_FILES if files.has(name)]
            stage.install = installing
    if recipe.build:
        folder = build_cache_of(recipe.framework)
        name = f"{options.own}-{folder.strip('.').replace('/', '-')}"
        kept = CacheMount(name, f"{options.folder}/{folder}", is_locked=True)
        stage.build.append(RunStep(recipe.build.removeprefix("npx "), (kept,)))
    return stage


def _needs_tools(recipe: Recipe, package: dict[str, object]) -> bool:
    scripts = scripts_of(package)
    own = (scripts.get(name, "") for name in ("prestart", *scripts_of_installation(scripts)))
    commands = (_start(recipe, package), *own, recipe.release)
    return bool(recipe.build) or needs_development(commands, table(package, "devDependencies"), scripts)


def _has_yarn(image: str) -> bool:
    """Returns whether an image of Node contains Yarn 1."""
    major = re.match(r"node:(\d+)-", image)
    return major is not None and int(major[1]) <= _LAST_NODE_WITH_YARN


def _package_manager_steps(
    managers: list[str], files: KnownFiles, package: dict[str, object], *, has_yarn: bool
) -> list[RunStep]:
    """Returns the steps that install the package managers that the image lacks, in the lock file's
    version."""
    named = _MANAGER_PATTERN.match(text_in(package, "packageManager"))
    steps: list[RunStep] = []
    for manager in managers:
        version = named[2] if named and named[1] == manager else _manager_version(manager, files)
        program = _MANAGER_PACKAGES.get(manager, manager)
        # Yarn 1 starts the Yarn release in the repository.
        if manager == "yarn" and (version.startswith("1") or "yarnPath" in files.text(".yarnrc.yml")):
            program, version = "yarn", version if version.startswith("1") else "1"
        if manager == "npm" or (program == "yarn" and has_yarn):
            continue
        steps.append(RunStep(f"npm install --global --force {program}@{version}", (_MANAGER_CACHES["npm"],)))
    return steps


def _manager_version(manager: str, files: KnownFiles) -> str:
    lock = _LOCK_FILES.get(manager, "")
    if lock and files.has(lock) and (version := version_by_lock(lock, files.beginning(lock, MAX_LOCK_BYTES))):
        return version
    match manager:
        case "pnpm":
            return NEWEST_PNPM
        case "yarn":
            return "4" if files.has(".yarnrc.yml") else "1"
    return "1"


def _needs_code(recipe: Recipe, files: KnownFiles, package: dict[str, object]) -> bool:
    """Returns whether the installation reads files other than manifests and lock files."""
    if not any(
        recipe.install.startswith(command)
        for command in (*_PRODUCTION_OPTIONS, "yarn install", "pnpm install")
    ):
        return True
    named = [*table(package, "dependencies").values(), *table(package, "devDependencies").values()]
    return bool(
        package.get("workspaces")
        or files.has("pnpm-workspace.yaml")
        or "yarnPath" in files.text(".yarnrc.yml")
        or not set(OWN_SCRIPTS).isdisjoint(table(package, "scripts"))
        or "@prisma/client" in table(package, "dependencies")
        or any(isinstance(version, str) and _LOCAL_PATTERN.match(version) for version in named)
    )


def _start(recipe: Recipe, package: dict[str, object]) -> str:
    """Returns the script's own command instead of `npm run`, which would be a process between engine and
    application."""
    command = recipe.start.removeprefix("npx ")
    named = _SCRIPT_COMMAND_PATTERN.fullmatch(command)
    scripts = table(package, "scripts")
    script = text_in(scripts, named[1]) if named else ""
    if not named or not script or "npm_" in script or {f"pre{named[1]}", f"post{named[1]}"} & scripts.keys():
        return command
    return " ".join(script.split())
