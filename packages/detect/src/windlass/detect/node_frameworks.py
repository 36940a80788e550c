"""Node frameworks: the package that identifies each one, and the result of its build, a server or static
files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from windlass.base.lazy import lazy_pattern
from windlass.detect.known_files import KnownFiles, table, text_in

Finder = Callable[[KnownFiles, dict[str, Any]], str]
"""Returns a folder or a command; empty if the framework has none."""

_DEFAULT_CACHE: Final = "node_modules/.cache"
_CONFIG_SUFFIXES: Final = (".js", ".mjs", ".ts", ".cjs", ".mts")
_EXPORTS_PATTERN: Final = lazy_pattern(r"\boutput\b['\"]?[ \t]*+:[ \t]*+['\"]export['\"]")
_PRESET_PATTERN: Final = lazy_pattern(r"\bpreset\b['\"]?[ \t]*+:[ \t]*+['\"]([\w-]{1,60}+)['\"]")
_SERVER_OUTPUT_PATTERN: Final = lazy_pattern(r"\boutput\b['\"]?[ \t]*+:[ \t]*+['\"](?:server|hybrid)['\"]")
_GENERATES_PATTERN: Final = lazy_pattern(r"\bnu(?:xt|xi)\s+(?:generate|build\s+--prerender)\b")
_STATIC_PRESETS: Final = frozenset(["static", "github-pages", "gitlab-pages"])
"""Presets of Nitro whose output is only files."""
_OUT_DIR_PATTERN: Final = lazy_pattern(r"\boutDir\b['\"]?[ \t]*+:[ \t]*+['\"]([\w./-]{1,200}+)['\"]")


def _find_nothing(files: KnownFiles, package: dict[str, Any]) -> str:
    return ""


def _find_always(text: str) -> Finder:
    return lambda files, package: text


class NodeFramework(Struct, frozen=True, kw_only=True):
    package: str
    name: str
    build: str = ""
    """The build command if package.json has no build script."""
    static_folder: Finder = _find_nothing
    start: Finder = _find_nothing
    port: int = 3000
    own_server: str = "\n"
    """A command in start scripts that runs the framework's own server, which cannot serve static files. The
    default matches no script."""
    build_cache: str = _DEFAULT_CACHE
    """The folder that is cached between builds."""
    build_variables: Finder = _find_nothing
    """Returns environment variables of the build, in the form of arguments of `env`."""
    missing: str = ""
    """The remedy, if the build produces neither a server nor static files."""
    is_single_page: bool = False
    """Returns whether the static files are a single-page application, which may route in the browser."""
    ignores_start: bool = False
    """Returns whether the usual start script runs a development server."""


def _config_text(files: KnownFiles, name: str) -> str:
    return files.text(files.has(*(f"{name}{end}" for end in _CONFIG_SUFFIXES)) or f"{name}.js")


def _depends_on_any(package: dict[str, Any], *names: str) -> bool:
    needed = table(package, "dependencies") | table(package, "devDependencies")
    return any(name in needed for name in names)


def _next_export(files: KnownFiles, package: dict[str, Any]) -> str:
    return "out" if _EXPORTS_PATTERN.search(_config_text(files, "next.config")) else ""


def _nitro_preset(files: KnownFiles) -> str:
    """Returns the platform for which nuxt.config makes Nitro build; empty if it names none."""
    config = _config_text(files, "nuxt.config")
    named = _PRESET_PATTERN.search(config) if "nitro" in config else None
    return named[1] if named else ""


def _nuxt_folder(files: KnownFiles, package: dict[str, Any]) -> str:
    if not (
        _GENERATES_PATTERN.search(text_in(package, "scripts", "build"))
        or _nitro_preset(files) in _STATIC_PRESETS
    ):
        return ""
    version = (table(package, "dependencies") | table(package, "devDependencies")).get("nuxt")
    is_second = isinstance(version, str) and version.lstrip("^~=v ").startswith("2")
    return "dist" if is_second else ".output/public"


def _nuxt_variables(files: KnownFiles, package: dict[str, Any]) -> str:
    """Returns the variable that makes Nitro build a server for Node instead of one for another platform."""
    preset = _nitro_preset(files)
    is_own = not preset or preset in _STATIC_PRESETS or preset.startswith("node")
    return "" if is_own else "NITRO_PRESET=node-server"


def _astro_serves_elsewhere(files: KnownFiles, package: dict[str, Any]) -> bool:
    """Returns whether the build makes a server for a platform other than Node."""
    return bool(
        _depends_on_any(
            package, "@astrojs/vercel", "@astrojs/netlify", "@astrojs/cloudflare", "@astrojs/deno"
        )
        and _SERVER_OUTPUT_PATTERN.search(_config_text(files, "astro.config"))
    )


def _astro_folder(files: KnownFiles, package: dict[str, Any]) -> str:
    if _depends_on_any(package, "@astrojs/node") or _astro_serves_elsewhere(files, package):
        return ""
    return "dist"


def _astro_start(files: KnownFiles, package: dict[str, Any]) -> str:
    is_own = _depends_on_any(package, "@astrojs/node") or not _astro_serves_elsewhere(files, package)
    return "env HOST=0.0.0.0 node ./dist/server/entry.mjs" if is_own else ""


def _svelte_folder(files: KnownFiles, package: dict[str, Any]) -> str:
    return "build" if _depends_on_any(package, "@sveltejs/adapter-static") else ""


def _svelte_start(files: KnownFiles, package: dict[str, Any]) -> str:
    return (
        "node build" if _depends_on_any(package, "@sveltejs/adapter-node", "@sveltejs/adapter-auto") else ""
    )


def _svelte_variables(files: KnownFiles, package: dict[str, Any]) -> str:
    """Returns the variable that makes adapter-auto choose the Node adapter."""
    own = _depends_on_any(package, "@sveltejs/adapter-node", "@sveltejs/adapter-static")
    return "GCP_BUILDPACKS=1" if _depends_on_any(package, "@sveltejs/adapter-auto") and not own else ""


def _vite_folder(files: KnownFiles, package: dict[str, Any]) -> str:
    if _depends_on_any(package, "express", "fastify", "koa") and text_in(package, "scripts", "start"):
        return ""
    named = _OUT_DIR_PATTERN.search(_config_text(files, "vite.config"))
    folder = named[1].removeprefix("./").rstrip("/") if named else "dist"
    return "" if folder.startswith(("/", "..")) else folder


def _angular_folder(files: KnownFiles, package: dict[str, Any]) -> str:
    if _depends_on_any(package, "@angular/ssr", "@nguniversal/express-engine"):
        return ""
    for name, project in table(files.json("angular.json"), "projects").items():
        options = table(project, "architect", "build", "options")
        builder = text_in(project, "architect", "build", "builder")
        folder = text_in(options, "outputPath") or text_in(options, "outputPath", "base") or f"dist/{name}"
        return f"{folder}/browser" if builder.endswith((":application", ":browser-esbuild")) else folder
    return "dist"


def _angular_start(files: KnownFiles, package: dict[str, Any]) -> str:
    name = next(iter(table(files.json("angular.json"), "projects")), "")
    return f"node dist/{name}/server/server.mjs" if name else ""


def _nest_start(files: KnownFiles, package: dict[str, Any]) -> str:
    script = text_in(package, "scripts", "start:prod")
    return script if script.startswith("node ") else "node dist/main"


FRAMEWORKS: Final = (
    NodeFramework(
        package="next",
        name="Next.js",
        build="npx next build",
        build_cache=".next/cache",
        static_folder=_next_export,
        own_server="next start",
        start=_find_always("npx next start --port ${PORT:-3000}"),
    ),
    NodeFramework(
        package="nuxt",
        name="Nuxt",
        build="npx nuxt build",
        static_folder=_nuxt_folder,
        own_server="nuxt start",
        build_variables=_nuxt_variables,
        start=_find_always("node .output/server/index.mjs"),
    ),
    NodeFramework(
        package="@remix-run/serve",
        name="Remix",
        build="npx remix build",
        start=_find_always("npx remix-serve ./build/server/index.js"),
    ),
    NodeFramework(
        package="@react-router/serve",
        name="React Router",
        build="npx react-router build",
        start=_find_always("npx react-router-serve ./build/server/index.js"),
    ),
    NodeFramework(
        package="@sveltejs/kit",
        name="SvelteKit",
        build="npx vite build",
        static_folder=_svelte_folder,
        start=_svelte_start,
        build_variables=_svelte_variables,
        missing="Add the package @sveltejs/adapter-node to the project and name it in svelte.config.js: the "
        "adapter of this project makes nothing that can be served here.",
    ),
    NodeFramework(
        package="astro",
        name="Astro",
        build="npx astro build",
        static_folder=_astro_folder,
        start=_astro_start,
        port=4321,
        missing="Add the package @astrojs/node to the project and name it as the adapter in astro.config: "
        "the adapter of this project makes a server for another platform.",
    ),
    NodeFramework(
        package="@nestjs/core", name="Nest", build="npx nest build", start=_nest_start, ignores_start=True
    ),
    NodeFramework(
        package="@angular/core",
        name="Angular",
        is_single_page=True,
        build="npx ng build",
        build_cache=".angular/cache",
        static_folder=_angular_folder,
        start=_angular_start,
        port=4000,
    ),
    NodeFramework(
        package="gatsby",
        name="Gatsby",
        build="npx gatsby build",
        build_cache=".cache",
        static_folder=_find_always("public"),
    ),
    NodeFramework(
        package="@docusaurus/core",
        name="Docusaurus",
        build="npx docusaurus build",
        static_folder=_find_always("build"),
    ),
    NodeFramework(
        package="@11ty/eleventy", name="Eleventy", build="npx eleventy", static_folder=_find_always("_site")
    ),
    NodeFramework(
        package="react-scripts",
        name="Create React App",
        is_single_page=True,
        build="npx react-scripts build",
        static_folder=_find_always("build"),
    ),
    NodeFramework(
        package="@vue/cli-service",
        name="Vue",
        is_single_page=True,
        build="npx vue-cli-service build",
        static_folder=_find_always("dist"),
    ),
    NodeFramework(
        package="vite", name="Vite", is_single_page=True, build="npx vite build", static_folder=_vite_folder
    ),
)
"""Supported frameworks. Specific packages come before vite, because many frameworks use vite."""


def is_built(framework: str) -> bool:
    """Returns whether the framework needs a build before it can run."""
    return framework in {entry.name for entry in FRAMEWORKS}


def build_cache_of(framework: str) -> str:
    """Returns the folder that is cached between builds. Applications without a framework have a default
    folder."""
    caches = (entry.build_cache for entry in FRAMEWORKS if entry.name == framework)
    return next(caches, _DEFAULT_CACHE)


BROWSER_ROUTERS: Final = (
    "@angular/router",
    "@reach/router",
    "@solidjs/router",
    "@tanstack/react-router",
    "@tanstack/vue-router",
    "preact-iso",
    "preact-router",
    "react-router",
    "react-router-dom",
    "svelte-routing",
    "vue-router",
    "wouter",
)
"""Packages that route in the browser, so that one page serves many paths."""


SERVERS: Final = {
    "express": "Express",
    "fastify": "Fastify",
    "koa": "Koa",
    "hono": "Hono",
    "@hapi/hapi": "Hapi",
    "restify": "Restify",
    "socket.io": "Socket.IO",
}
