"""The stages of a Dockerfile as values: one or more that build, and the last one, which runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from windlass.detect.dockerfile.instructions import CacheMount
from windlass.detect.known_files import KnownFiles
from windlass.detect.recipe import Recipe

APP: Final = "/app"
"""The folder of the application in each image."""


class RunStep(Struct, frozen=True):
    """A command that an image runs while it is built, and the folders that it keeps for later builds."""

    command: str
    caches: tuple[CacheMount, ...] = ()


class BuildStage(Struct, kw_only=True):
    image: str
    name: str = "build"
    environment: dict[str, str] = field(default_factory=dict)
    borrowed: list[tuple[str, str]] = field(default_factory=list)
    """Files of other images, such as a package manager: the image and the path."""
    tools: list[RunStep] = field(default_factory=list)
    """Steps before any file of the application is copied."""
    manifests: list[str] = field(default_factory=list)
    """Files that `install` needs. None: it needs all of them."""
    install: list[RunStep] = field(default_factory=list)
    build: list[RunStep] = field(default_factory=list)
    """Steps that need the whole folder."""


class HealthCheck(Struct, frozen=True):
    """Programs that ask the application how it is. They take the port, and one of them a path."""

    page: tuple[str, ...]
    port: tuple[str, ...]


class Stages(Struct, kw_only=True):
    image: str
    """Of the last stage."""
    builds: list[BuildStage] = field(default_factory=list)
    """None: the files of the repository are copied as they are."""
    environment: dict[str, str] = field(default_factory=dict)
    """Of the last stage."""
    packages: list[str] = field(default_factory=list)
    """Debian packages of the last stage, beside those of the recipe."""
    build_packages: list[str] = field(default_factory=list)
    """Debian packages of the first stage, beside those of the recipe."""
    replaced_packages: list[str] = field(default_factory=list)
    """Packages of the recipe that the image has in another way."""
    tools: list[RunStep] = field(default_factory=list)
    """Steps of the last stage before any file."""
    borrowed: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=lambda: [APP])
    """Folders that the last stage copies from the last build stage."""
    start: str = ""
    """Command of the web process, where it is another one in an image."""
    check: HealthCheck | None = None


class DockerfileOptions(Struct, frozen=True, kw_only=True):
    variables: tuple[str, ...] = ()
    """Names of the variables that the build is given."""
    caches: bool = True
    """False for an engine that knows no cache mounts."""
    own: str = "app"
    """Begins the ids of caches that belong to this application alone."""
    mounts: tuple[str, ...] = ()
    """Folders of storage, which begins with the owner that the image gives to them."""
    below: str = ""
    """The folder of the application below that of its workspace, whose files all are sent."""
    works_below: bool = False
    """True if the commands run in the folder of the application, and not in that of its workspace."""

    @property
    def folder(self) -> str:
        """Returns the folder of the application, which is the same in each image."""
        return f"{APP}/{self.below}".rstrip("/")


Planner = Callable[[Recipe, KnownFiles, DockerfileOptions], Stages]
"""Returns the stages of a recipe."""


def names_any(recipe: Recipe, *programs: str) -> list[str]:
    """Returns those of these programs that a command of the recipe begins with or runs."""
    commands = " ".join([recipe.install, recipe.build, recipe.release, recipe.start]).split()
    return [program for program in programs if program in commands]
