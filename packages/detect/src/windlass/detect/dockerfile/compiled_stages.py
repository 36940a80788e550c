"""Build stages of compiled languages: Go, Rust, Java and .NET. The last stage contains no compiler."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.dockerfile.base_images import BASE_IMAGES
from windlass.detect.dockerfile.instructions import CacheMount, is_plain_path
from windlass.detect.dockerfile.stages import APP_FOLDER, BuildStage, DockerfileOptions, RunStep, Stages
from windlass.detect.known_files import KnownFiles
from windlass.detect.language import matching_files
from windlass.detect.languages.dotnet import PROJECTS
from windlass.detect.recipe import Recipe

CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_GO_CACHES: Final = (CacheMount("go-mod", "/go/pkg/mod"), CacheMount("go-build", "/root/.cache/go-build"))
_CARGO_CACHES: Final = (
    CacheMount("cargo-registry", "/usr/local/cargo/registry"),
    CacheMount("cargo-git", "/usr/local/cargo/git"),
)
_MAVEN_CACHES: Final = (CacheMount("maven", "/root/.m2", is_locked=True),)
_GRADLE_CACHES: Final = (CacheMount("gradle", "/root/.gradle", is_locked=True),)
_NUGET_CACHES: Final = (CacheMount("nuget", "/root/.nuget/packages", is_locked=True),)
_PROGRAM_PATTERN: Final = re.compile(r"(?:exec +)?\./target/((?:release|debug)/[\w.-]+)(?= |\Z)", re.ASCII)
_OUTSIDE_REPLACEMENT_PATTERN: Final = re.compile(r"=>[ \t]*+\.{1,2}/")


def go(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Go"]
    build, run = images.tags(images.version_for(recipe.language_version))
    stage = BuildStage(image=build)
    if recipe.install == "go mod download" and not _OUTSIDE_REPLACEMENT_PATTERN.search(files.text("go.mod")):
        stage.manifests = [name for name in ("go.mod", "go.sum") if files.has(name)]
        stage.install = [RunStep(recipe.install, _GO_CACHES)]
    elif recipe.install:
        stage.build = [RunStep(recipe.install, _GO_CACHES)]
    stage.build += [RunStep(recipe.build, _GO_CACHES)] if recipe.build else []
    # A Procfile may contain only the program's name, which the process engine finds through PATH, too.
    environment = {"PATH": f"{options.folder}/bin:$PATH"}
    return Stages(image=run, builds=[stage], environment=environment, results=[CERTIFICATES, APP_FOLDER])


def rust(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    """Caches the folder of compiled crates for later builds, and copies only the program into the image."""
    images = BASE_IMAGES["Rust"]
    build, run = images.tags(images.version_for(""))
    stage = BuildStage(image=build)
    stage.build = [RunStep(recipe.install, _CARGO_CACHES)] if recipe.install else []
    program = _PROGRAM_PATTERN.match(recipe.start)
    if recipe.build and program:
        target = CacheMount(f"{options.own}-cargo-target", "/target", is_locked=True)
        taken = f"install -D /target/{program[1]} target/{program[1]}"
        building = f"CARGO_TARGET_DIR=/target {recipe.build} && {taken}"
        stage.build.append(
            RunStep(building if _is_cargo(recipe.build) else recipe.build, (*_CARGO_CACHES, target))
        )
    elif recipe.build:
        stage.build.append(RunStep(recipe.build, _CARGO_CACHES))
    packages = ["ca-certificates", "libssl3"]
    return Stages(image=run, builds=[stage], packages=packages, results=[APP_FOLDER])


def _is_cargo(command: str) -> bool:
    return command.startswith("cargo ") and not set(command) & set(";&|<>()`$")


def java(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Java"]
    named = re.search(r"\d[\d.]*", recipe.language_version)
    version = images.version_for(named[0].removeprefix("1.") if named else "")
    jdk, jre = images.tags(version)
    is_gradle = recipe.package_manager == "gradle"
    tool = (
        f"gradle:{'8' if int(version) <= 21 else '9'}-jdk{version}"
        if is_gradle
        else f"maven:3.9-{_maven_tag(jdk)}"
    )
    stage = BuildStage(image=tool, environment={"GRADLE_USER_HOME": "/root/.gradle"} if is_gradle else {})
    caches = _GRADLE_CACHES if is_gradle else _MAVEN_CACHES
    wrapper = files.has("gradlew" if is_gradle else "mvnw")
    stage.build = [RunStep(f"chmod +x {wrapper}")] if wrapper else []
    stage.build += [RunStep(command, caches) for command in (recipe.install, recipe.build) if command]
    return Stages(image=jre, builds=[stage])


def _maven_tag(jdk: str) -> str:
    """Returns the tag of the Maven image that corresponds to a JDK image."""
    return jdk.replace(":", "-").removesuffix("-jdk")


def dotnet(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES[".NET"]
    build, run = images.tags(images.version_for(recipe.language_version))
    stage = BuildStage(image=build, environment={"DOTNET_CLI_TELEMETRY_OPTOUT": "1"})
    projects = [*matching_files(files.tree, PROJECTS)]
    if recipe.install.startswith("dotnet restore") and len(projects) == 1 and is_plain_path(projects[0]):
        stage.manifests = [
            *projects,
            *(name for name in ("nuget.config", "Directory.Build.props", "global.json") if files.has(name)),
        ]
        stage.install = [RunStep(recipe.install, _NUGET_CACHES)]
    elif recipe.install:
        stage.build = [RunStep(recipe.install, _NUGET_CACHES)]
    stage.build += [RunStep(recipe.build, _NUGET_CACHES)] if recipe.build else []
    return Stages(image=run, builds=[stage])
