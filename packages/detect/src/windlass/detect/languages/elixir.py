"""Elixir: mix.exs; Phoenix."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import Language
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version, choose_version_by_file

_VERSION_PATTERN: Final = re.compile(r"\belixir:[ \t]*+\"([^\"\n]{1,40}+)\"")


def fill(files: KnownFiles, recipe: Recipe) -> None:
    text = files.text("mix.exs")
    choose_version_by_file(files, recipe, "elixir", ".elixir-version")
    if version := _VERSION_PATTERN.search(text):
        choose_version(recipe, version[1], "mix.exs")
    recipe.choose("mix.exs is there.", package_manager="mix", install="mix deps.get --only prod")
    is_phoenix = ":phoenix," in text
    if is_phoenix:
        recipe.choose("mix.exs names phoenix.", framework="Phoenix", port=4000)
    assets = "MIX_ENV=prod mix assets.deploy && " if "assets.deploy" in text else ""
    recipe.choose("mix.exs is there.", build=f"{assets}MIX_ENV=prod mix compile")
    if ":ecto_sql" in text:
        recipe.choose("mix.exs names ecto_sql.", release="env MIX_ENV=prod mix ecto.migrate")
    start = (
        "env MIX_ENV=prod PHX_SERVER=true mix phx.server"
        if is_phoenix
        else "env MIX_ENV=prod mix run --no-halt"
    )
    recipe.choose("mix.exs is there.", start=start)


elixir = Language(
    name="Elixir",
    manifests=("mix.exs",),
    rank=10,
    fill=fill,
    manifests_with_paths=("mix.exs",),
    toolchain=Toolchain(
        title="Elixir",
        program="mix",
        package="elixir",
        others={"elixir": "elixir"},
        passed=("HEX_MIRROR", "HEX_API_KEY", "HEX_REPOS_KEY"),
        caches={"HEX_HOME": "hex"},
        variables={"MIX_HOME": "{app}/.mix", "MIX_ENV": "prod"},
        running={"MIX_HOME": ".mix", "MIX_ENV": "prod"},
        kept=("deps", "_build", ".mix"),
        results=("deps/", "_build/", ".mix/"),
    ),
)
