"""Deno: deno.json or deno.jsonc, with its tasks."""

from __future__ import annotations

from typing import Final

from windlass.detect.known_files import KnownFiles, table, text_in
from windlass.detect.language import Language
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version_by_file

_CONFIG_FILES: Final = ("deno.json", "deno.jsonc")
_ENTRY_FILES: Final = ("main.ts", "main.js", "mod.ts", "server.ts", "src/main.ts", "index.ts")


def fill(files: KnownFiles, recipe: Recipe) -> None:
    config = files.has(*_CONFIG_FILES)
    content = files.json(config) if config else {}
    choose_version_by_file(files, recipe, "deno", ".dvmrc")
    imported = " ".join(str(value) for value in table(content, "imports").values())
    if "fresh" in imported:
        recipe.choose(f"{config} imports fresh.", framework="Fresh")
    elif "hono" in imported:
        recipe.choose(f"{config} imports hono.", framework="Hono")
    if files.has("deno.lock"):
        recipe.choose("deno.lock is there.", install="deno install --frozen")
    elif table(content, "imports"):
        recipe.choose(f"{config} has imports.", install="deno install")
    if text_in(content, "tasks", "build"):
        recipe.choose(f"It is a task of {config}.", build="deno task build")
    if text_in(content, "tasks", "start"):
        recipe.choose(f"It is a task of {config}.", start="deno task start")
    entry = files.has(*_ENTRY_FILES)
    if entry and (recipe.framework or "Deno.serve(" in files.text(entry)):
        recipe.choose(
            f"{entry} serves HTTP; Deno listens there unless the code names another port.", port=8000
        )
    if entry:
        recipe.choose(f"{entry} is there.", start=f"deno run --allow-net --allow-env --allow-read {entry}")


deno = Language(
    name="Deno",
    manifests=(*_CONFIG_FILES, "deno.lock"),
    rank=30,
    fill=fill,
    toolchain=Toolchain(
        title="Deno",
        program="deno",
        package="",
        wheel="deno",
        is_needed_to_run=True,
        newer="pip install deno",
        passed=("DENO_AUTH_TOKENS", "DENO_CERT", "DENO_TLS_CA_STORE", "NPM_CONFIG_REGISTRY", "JSR_URL"),
        variables={"DENO_DIR": "{app}/.deno", "DENO_NO_UPDATE_CHECK": "1"},
        running={"DENO_DIR": ".deno", "DENO_NO_UPDATE_CHECK": "1"},
        kept=(".deno",),
        results=(".deno/",),
    ),
)
