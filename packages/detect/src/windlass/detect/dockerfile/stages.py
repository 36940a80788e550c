"""The stages of a Dockerfile as data: build stages, and the last stage, which runs the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from windlass.detect.dockerfile.instructions import CacheMount
from windlass.detect.known_files import KnownFiles
from windlass.detect.recipe import Recipe

APP_FOLDER: Final = "/app"
"""The application's folder in every image."""


class RunStep(Struct, frozen=True):
    """A command that runs during an image build, and the folders that are cached for later builds."""

    command: str
    caches: tuple[CacheMount, ...] = ()


class BuildStage(Struct, kw_only=True):
    image: str
    name: str = "build"
    environment: dict[str, str] = field(default_factory=dict)
    borrowed: list[tuple[str, str]] = field(default_factory=list)
    """Files copied from other images, such as a package manager: the image and the path of each."""
    tools: list[RunStep] = field(default_factory=list)
    """Steps that run before any file of the application is copied."""
    manifests: list[str] = field(default_factory=list)
    """Files that `install` needs; empty if it needs all files."""
    install: list[RunStep] = field(default_factory=list)
    build: list[RunStep] = field(default_factory=list)
    """Steps that run after the whole folder is copied."""


class HealthCheck(Struct, frozen=True):
    """Commands that check the application's health. The port is appended to both commands, and the path to
    `page`."""

    page: tuple[str, ...]
    port: tuple[str, ...]


class Stages(Struct, kw_only=True):
    image: str
    """The image of the last stage."""
    builds: list[BuildStage] = field(default_factory=list)
    """The build stages. If empty, the repository's files are copied unchanged."""
    environment: dict[str, str] = field(default_factory=dict)
    """Environment variables of the last stage."""
    packages: list[str] = field(default_factory=list)
    """Debian packages of the last stage, in addition to the recipe's packages."""
    build_packages: list[str] = field(default_factory=list)
    """Debian packages of the first build stage, in addition to the recipe's packages."""
    replaced_packages: list[str] = field(default_factory=list)
    """Packages of the recipe that the image provides by other means, so they are not installed with apt."""
    tools: list[RunStep] = field(default_factory=list)
    """Steps of the last stage that run before any file is copied."""
    borrowed: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=lambda: [APP_FOLDER])
    """Folders that are copied from the last build stage to the last stage."""
    start: str = ""
    """The command of the web process, if it differs from the recipe's start command."""
    check: HealthCheck | None = None


class DockerfileOptions(Struct, frozen=True, kw_only=True):
    variables: tuple[str, ...] = ()
    """Names of the variables that are passed to the build."""
    caches: bool = True
    """Returns whether the engine supports cache mounts."""
    own: str = "app"
    """The prefix of cache ids that belong to this application only."""
    mounts: tuple[str, ...] = ()
    """Mount points of volumes. A new volume inherits the owner of the folder in the image."""
    below: str = ""
    """The application's folder, relative to its workspace. All files of the workspace are sent."""
    works_below: bool = False
    """Returns whether commands run in the application's folder instead of the workspace's folder."""

    @property
    def folder(self) -> str:
        """The application's folder, which is the same in every image."""
        return f"{APP_FOLDER}/{self.below}".rstrip("/")


Planner = Callable[[Recipe, KnownFiles, DockerfileOptions], Stages]
"""Returns the stages for a recipe."""


def names_any(recipe: Recipe, *programs: str) -> list[str]:
    """Returns the given programs that occur in the recipe's commands."""
    commands = " ".join([recipe.install, recipe.build, recipe.release, recipe.start]).split()
    return [program for program in programs if program in commands]
