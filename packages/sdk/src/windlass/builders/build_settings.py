"""Settings of an application that its build follows."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from windlass.detect import RecipeSettings

BuilderChoice = Literal["AUTO", "DOCKERFILE", "RECIPE"]
FILES: Final = "FILES"
"""No choice of clients: the files are taken as they are, and nothing is built."""


class BuildSettings(RecipeSettings, frozen=True, kw_only=True):
    """Settings of an application that its build follows.

    `start_command` and `release_command` are empty here: like the choice of a process, and the headers of a
    static site, they are applied to what runs, so that a change of them needs no build.
    """

    builder: BuilderChoice | Literal["FILES"] = "AUTO"
    base: str = ""
    """The image that gets the files, with the builder FILES of an engine that runs images."""
    dockerfile_raw: str = ""
    """A Dockerfile, instead of one of the repository."""
    mounts: tuple[str, ...] = ()
    """Folders of storage: an image that is built from a recipe lets its user write there."""
    has_command: bool = False
    """True if a setting says what runs: a repository that does not say it is built all the same. What is
    built must not depend on it."""

    @property
    def is_dockerfile_left_out(self) -> bool:
        """True if a Dockerfile is not looked for."""
        if self.dockerfile_raw:
            return False
        return self.builder == "RECIPE" or (self.builder == "AUTO" and self.asks_for_recipe)

    @property
    def inputs(self) -> dict[str, object]:
        """The settings that the artifact depends on, without those that are not set."""
        usual = msgspec.structs.asdict(BuildSettings(has_command=self.has_command))
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value != usual[name]}
