""".NET: a project of C#, F# or Visual Basic."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import Language, matching_files
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version

PROJECTS: Final = ("*.csproj", "*.fsproj", "*.vbproj")
"""Project files of C#, F# and Visual Basic."""
_TARGET_PATTERN: Final = re.compile(r"<TargetFrameworks?>[ \t]*+net(?:coreapp)?([\d.]++)")
_NAME_PATTERN: Final = re.compile(r"<AssemblyName>([\w.-]{1,200}+)<")


def fill(files: KnownFiles, recipe: Recipe) -> None:
    project = min(matching_files(files.tree, PROJECTS), default="")
    text = files.text(project)
    if version := _TARGET_PATTERN.search(text):
        choose_version(recipe, version[1], project)
    named = _NAME_PATTERN.search(text)
    name = named[1] if named else project.rpartition(".")[0]
    recipe.choose(f"{project} is there.", package_manager="nuget", install=f'dotnet restore "{project}"')
    recipe.choose(f"{project} is there.", build=f'dotnet publish "{project}" -c Release -o out')
    if "Microsoft.NET.Sdk.Web" in text:
        recipe.choose(f"{project} uses the SDK for the web.", framework="ASP.NET Core", port=8080)
        start = f'env ASPNETCORE_URLS=http://0.0.0.0:${{PORT:-8080}} dotnet "out/{name}.dll"'
    else:
        start = f'dotnet "out/{name}.dll"'
    recipe.choose("The build makes it.", start=start)


dotnet = Language(
    name=".NET",
    manifests=PROJECTS,
    rank=20,
    fill=fill,
    manifests_with_paths=PROJECTS,
    toolchain=Toolchain(
        title=".NET",
        program="dotnet",
        package="dotnet-sdk-8.0",
        version=("dotnet", "--version"),
        version_files=("global.json",),
        newer="apt-get install dotnet-sdk-{version}",
        passed=("NUGET_", "NuGet"),
        caches={"NUGET_PACKAGES": "nuget"},
        variables={
            "DOTNET_CLI_HOME": "{home}",
            "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
            "DOTNET_NOLOGO": "1",
            "MSBUILDDISABLENODEREUSE": "1",
        },
        running={"DOTNET_NOLOGO": "1"},
        kept=("obj", "bin"),
    ),
)
