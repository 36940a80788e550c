"""Applies an application's settings, which override the recipe and the repository's files."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.detect.detect import advice_for
from windlass.detect.recipe import WEB_PROCESS, ProcessType, Recipe

_SETTING_REASON: Final = "It is set in the application."


class RecipeSettings(Struct, frozen=True, kw_only=True):
    """Settings that override a recipe. Empty settings change nothing."""

    install_command: str = ""
    build_command: str = ""
    start_command: str = ""
    release_command: str = ""
    static_folder: str = ""
    language_version: str = ""
    system_packages: tuple[str, ...] = ()
    """Packages to install in addition to the recipe's packages."""

    @property
    def asks_for_recipe(self) -> bool:
        """Returns whether a setting needs a recipe. Such a setting cannot apply to a Dockerfile, which
        installs and builds by itself."""
        return any(
            (
                self.install_command,
                self.build_command,
                self.static_folder,
                self.language_version,
                self.system_packages,
            )
        )


def apply_settings(recipe: Recipe, settings: RecipeSettings) -> Recipe:
    """Returns a copy of the recipe with the settings applied."""
    changed = replace(recipe, reasons={**recipe.reasons}, problems=[*recipe.problems])
    for field, value in (
        ("install", settings.install_command),
        ("build", settings.build_command),
        ("release", settings.release_command),
        ("language_version", settings.language_version),
    ):
        _set(changed, field, value)
    if packages := [name for name in settings.system_packages if name not in recipe.system_packages]:
        _set(changed, "system_packages", [*recipe.system_packages, *packages])
    if settings.static_folder:
        _serve(changed, settings.static_folder)
    elif settings.start_command:
        _start(changed, settings.start_command)
    if changed.is_runnable:
        changed.problems = [problem for problem in changed.problems if problem != advice_for(recipe)]
    return changed


def _serve(recipe: Recipe, folder: str) -> None:
    """Turns the recipe into a static site. Processes other than the web process are kept."""
    others = [process for process in recipe.processes if process.name != WEB_PROCESS]
    recipe.forget("start", "processes", "port", "health_path")
    _set(recipe, "static_folder", folder.removeprefix("./").rstrip("/") or ".")
    _set(recipe, "processes", others)


def _start(recipe: Recipe, command: str) -> None:
    others = [process for process in recipe.processes if process.name != WEB_PROCESS]
    recipe.forget("static_folder", "static_fallback")
    _set(recipe, "start", command)
    _set(recipe, "processes", [ProcessType(WEB_PROCESS, command), *others])


def _set(recipe: Recipe, field: str, value: str | list[str] | list[ProcessType]) -> None:
    if value:
        setattr(recipe, field, value)
        recipe.reasons[field] = _SETTING_REASON
