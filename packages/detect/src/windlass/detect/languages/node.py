"""Node: package.json, the package manager of its lock file, servers, and static sites that a build
generates."""

from __future__ import annotations

from typing import Any, Final

from windlass.base.lazy import lazy_pattern
from windlass.detect.known_files import KnownFiles, table, text_in
from windlass.detect.language import Language
from windlass.detect.node_client import client_build
from windlass.detect.node_development import watched_program
from windlass.detect.node_frameworks import BROWSER_ROUTERS, FRAMEWORKS, SERVERS, NodeFramework
from windlass.detect.node_hashes import OLD_HASHES, OLD_HASHES_IF_NEEDED, package_with_old_hashes
from windlass.detect.node_locks import LOCK_FILES
from windlass.detect.node_scripts import runs_build, scripts_of, scripts_of_installation
from windlass.detect.recipe import WEB_PROCESS, ProcessType, Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.tree import Tree
from windlass.detect.versions import choose_version, choose_version_by_file

_INSTALL_COMMANDS: Final = {
    "pnpm": "pnpm install --frozen-lockfile",
    "yarn": "yarn install --frozen-lockfile",
    "bun": "bun install --frozen-lockfile",
    "npm": "npm ci",
}
"""The command by which each package manager installs the packages of its lock file."""
_MANAGER_PATTERN: Final = lazy_pattern(r"(npm|yarn|pnpm|bun)@(\d++)")
_FOR_DEVELOPMENT_PATTERN: Final = lazy_pattern(
    r"\b(react-scripts start|vite(?! build| preview)|astro (dev|preview)|ng serve|vue-cli-service serve"
    r"|gatsby develop|docusaurus start|parcel|webpack(-dev-server| serve)|eleventy --serve|next dev|nuxt dev"
    r"|nest start|nodemon|tsx watch|ts-node-dev|svelte-kit dev|remix dev|nx serve|react-router dev)\b"
)
_ENTRY_FILES: Final = (
    "server.js",
    "index.js",
    "app.js",
    "main.js",
    "src/server.js",
    "src/index.js",
    "src/app.js",
    "index.mjs",
)


def fill(files: KnownFiles, recipe: Recipe) -> None:
    package = files.json("package.json")
    _choose_version(files, recipe)
    manager = _choose_manager(files, recipe, package)
    needed = table(package, "dependencies") | table(package, "devDependencies")
    framework = next((candidate for candidate in FRAMEWORKS if candidate.package in needed), None)
    if framework is not None:
        _choose_by_framework(files, recipe, framework, package, manager)
    if framework is not None and framework.missing and not recipe.is_runnable:
        recipe.problems.append(framework.missing)
    elif not recipe.is_runnable:
        _choose_start(files, recipe, package, manager)
    _choose_build(files, recipe, package, manager, framework)
    _choose_server(recipe, needed)


def node_version(tree: Tree) -> tuple[str, str]:
    """Returns the Node version that the folder's files declare, and the name of the declaring file."""
    recipe = Recipe()
    _choose_version(KnownFiles(tree), recipe)
    return recipe.language_version, recipe.reasons.get("language_version", "").removesuffix(" names it.")


def _choose_version(files: KnownFiles, recipe: Recipe) -> None:
    package = files.json("package.json") if files.has("package.json") else {}
    choose_version_by_file(files, recipe, "node", ".nvmrc", ".node-version")
    choose_version_by_file(files, recipe, "nodejs")
    choose_version(recipe, text_in(package, "volta", "node"), "package.json (volta)")
    choose_version(recipe, text_in(package, "engines", "node"), "package.json (engines)")


def _choose_manager(files: KnownFiles, recipe: Recipe, package: dict[str, Any]) -> str:
    named = _MANAGER_PATTERN.match(text_in(package, "packageManager"))
    for file, manager in LOCK_FILES:
        if files.has(file) and (named is None or named[1] == manager):
            install = _INSTALL_COMMANDS[manager]
            if manager == "yarn" and ((named and int(named[2][:4]) > 1) or files.has(".yarnrc.yml")):
                install = "yarn install --immutable"
            recipe.choose(f"{file} is there.", package_manager=manager, install=install)
            return recipe.package_manager
    if named:
        recipe.choose(
            "package.json names it as packageManager.",
            package_manager=named[1],
            install=f"{named[1]} install",
        )
    elif table(package, "dependencies") or table(package, "devDependencies"):
        recipe.choose(
            "package.json names packages, and there is no lock.", package_manager="npm", install="npm install"
        )
    else:
        recipe.choose("package.json is there.", package_manager="npm")
    return recipe.package_manager


def _choose_by_framework(
    files: KnownFiles, recipe: Recipe, framework: NodeFramework, package: dict[str, Any], manager: str
) -> None:
    because = f"package.json names {framework.package}"
    recipe.choose(f"{because}.", framework=framework.name)
    script = text_in(package, "scripts", "start")
    folder = framework.static_folder(files, package)
    is_for_production = not _FOR_DEVELOPMENT_PATTERN.search(script) and not framework.ignores_start
    # If the build generates static files, the framework's own server has nothing to serve.
    if script and is_for_production and not (folder and framework.own_server in script):
        recipe.choose(f"It is the start script of package.json: `{script}`.", start=f"{manager} run start")
    elif folder:
        recipe.choose(f"{because}, and its build makes static files there.", static_folder=folder)
        _choose_fallback(recipe, framework, package)
    elif start := framework.start(files, package):
        recipe.choose(f"{because}, which starts its server by this command.", start=start)
    recipe.choose(
        f"{framework.name} listens there unless PORT names another.",
        port=framework.port if recipe.start else 0,
    )


def _choose_fallback(recipe: Recipe, framework: NodeFramework, package: dict[str, Any]) -> None:
    needed = table(package, "dependencies") | table(package, "devDependencies")
    router = next((name for name in BROWSER_ROUTERS if name in needed), "")
    if framework.is_single_page and router:
        recipe.choose(
            f"package.json names {router}, which routes in the browser.", static_fallback="index.html"
        )


def _choose_build(
    files: KnownFiles, recipe: Recipe, package: dict[str, Any], manager: str, framework: NodeFramework | None
) -> None:
    if _builds_elsewhere(recipe, package):
        return
    variables = framework.build_variables(files, package) if framework else ""
    script = text_in(package, "scripts", "build")
    old = package_with_old_hashes(package) if OLD_HASHES not in script else ""
    if old:
        variables = f"{variables} {OLD_HASHES_IF_NEEDED}".strip()
    before = f"env {variables} " if variables else ""
    why = f" {old} uses hashes that Node 17 and newer only have with this option." if old else ""
    if script:
        because = f"It is the build script of package.json: `{script}`.{why}"
        recipe.choose(because, build=f"{before}{manager} run build")
    elif framework and framework.build:
        recipe.choose(
            f"{framework.name} is built by this command, and package.json has no build script.{why}",
            build=f"{before}{framework.build}",
        )
    elif recipe.start and not package.get("workspaces"):
        build, reason = client_build(files, scripts_of(package), manager, recipe.start)
        recipe.choose(reason, build=build)


def _builds_elsewhere(recipe: Recipe, package: dict[str, Any]) -> bool:
    """Returns whether the start command, or a script of the installation, already runs the build."""
    scripts = scripts_of(package)
    own = [scripts[name] for name in scripts_of_installation(scripts)]
    started = [recipe.start, recipe.release, *(process.command for process in recipe.processes)]
    if runs_build(scripts, *own):
        return True
    if recipe.start and runs_build(scripts, *started):
        reason = recipe.reasons.get("start", "").rstrip(".")
        recipe.reasons["start"] = f"{reason}. It builds at each start, so the build does not."
        return True
    return False


def _choose_start(files: KnownFiles, recipe: Recipe, package: dict[str, Any], manager: str) -> None:
    scripts = table(package, "scripts")
    for name in ("start:prod", "start", "serve", "production"):
        script = text_in(scripts, name)
        if script and (name == "start" or not _FOR_DEVELOPMENT_PATTERN.search(script)):
            recipe.choose(f"It is a script of package.json: `{script}`.", start=f"{manager} run {name}")
    main = text_in(package, "main").removeprefix("./")
    for path in (main, f"{main}.js" if main else "", *_ENTRY_FILES):
        if path and files.has(path) and path.endswith((".js", ".mjs", ".cjs")):
            why = "package.json names it as main" if path.startswith(main) and main else f"{path} is there"
            recipe.choose(f"{why}.", start=f"node {path}")
    needed = table(package, "dependencies") | table(package, "devDependencies")
    if not recipe.start and not SERVERS.keys().isdisjoint(needed):
        start, reason = watched_program(files, scripts, needed)
        recipe.choose(reason, start=start)


def _choose_server(recipe: Recipe, dependencies: dict[str, Any]) -> None:
    """Sets the framework to a server library if no framework was found, and the start command as web
    process."""
    for name, title in SERVERS.items():
        if name in dependencies and recipe.start:
            recipe.choose(f"package.json names {name}.", framework=title)
    if recipe.start and not recipe.processes:
        recipe.choose(recipe.reasons["start"], processes=[ProcessType(WEB_PROCESS, recipe.start)])


node = Language(
    name="Node",
    manifests=("package.json",),
    rank=50,
    fill=fill,
    toolchain=Toolchain(
        title="Node.js", program="node", package="nodejs npm", others={"npm": "npm", "npx": "npm"}
    ),
)
