"""Runs the install and build commands of a recipe with the toolchain of its language. A recipe is the
detected way to install, build and start an application.

This code is the same for all languages. `detect` declares their toolchains.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from windlass.base import subprocesses
from windlass.process.builds import tree
from windlass.process.builds.build_state import BuildState
from windlass.process.builds.detected import RecipeSteps
from windlass.process.builds.kept_folders import KeptFolders, keep_times
from windlass.process.builds.language_tools import (
    FoundToolchain,
    ToolchainSearch,
    check_programs,
    programs_of,
)
from windlass.process.builds.tools import ToolFailed, step

CACHE_DAMAGED_WARNING: Final = (
    "A build cache is damaged: it is deleted, and the build starts again without it."
)


async def install_language(state: BuildState, steps: RecipeSteps) -> None:
    """Installs and builds the application. Records the folders of the language's programs for the
    instances."""
    used = await _RecipeRun(state, steps).run()
    state.environment.update(used.toolchain.running)
    state.places.append((state.layout.folder / "bin", Path("bin")))  # commands in Procfiles refer to it
    if used.fetched and used.toolchain.is_needed_to_run:
        own = await state.keep(used.fetched, "toolchain") / used.toolchain.wheel_programs
        state.places.append((own, own))
    elif used.folder and not used.fetched:
        state.places.append((used.folder, used.folder))


class _RecipeRun:
    """The install and build commands of one build."""

    def __init__(self, state: BuildState, steps: RecipeSteps) -> None:
        self._state, self._steps = state, steps
        self._toolchain = steps.toolchain
        self._tools, self._caches = state.tools, state.caches
        self._app = state.layout.folder

    async def run(self) -> FoundToolchain:
        """Runs the commands, each in a cell (sandbox). Returns the toolchain that they used."""
        steps, state = self._steps, self._state
        await subprocesses.in_thread(_write_home_files, self._tools.home, self._toolchain.home_files)
        search = ToolchainSearch(self._tools, state.toolchains, state.held, self._app)
        self._found = await search.find(self._toolchain, steps.version, steps.why)
        if self._found.folder:
            self._tools.put_first(self._found.folder)
        check_programs((command for _, command in steps.commands), self._tools.path, steps.why)
        await subprocesses.in_thread(_make_executable, self._app, [command for _, command in steps.commands])
        if self._toolchain.kept:
            await subprocesses.in_thread(keep_times, self._caches.source, self._caches.times)
        try:
            await self._run_all()
        except ToolFailed as failed:
            if not any(re.search(self._toolchain.damage, line) for line in failed.lines):
                raise
            self._tools.say(CACHE_DAMAGED_WARNING)
            await subprocesses.in_thread(self._caches.throw_away, self._toolchain.caches.values())
            await self._run_all()
        return self._found

    async def _run_all(self) -> None:
        kept = KeptFolders(self._caches.kept, self._app, self._toolchain.kept, self._toolchain.results)
        await subprocesses.in_thread(kept.put_in)
        try:
            for name, command in self._steps.commands:
                with step(self._tools.say, f"{name} ({command})"):
                    await self._tools.run(
                        ["/bin/sh", "-c", command],
                        cwd=self._app,
                        extra_variables=self._environment(),
                        title=command,
                    )
        finally:
            await subprocesses.in_thread(kept.take_out)
        await subprocesses.in_thread(kept.copy_results)

    def _environment(self) -> dict[str, str]:
        toolchain, tools, downloads = self._toolchain, self._tools, self._caches.downloads
        places = {"caches": downloads, "app": self._app, "home": tools.home}
        operator = tools.surroundings.items()
        return {
            **{name: value for name, value in operator if name.startswith(toolchain.passed)},
            **self._state.variables_as_started(),
            **{name: text.format_map(places) for name, text in toolchain.variables.items()},
            **{name: str(downloads / cache) for name, cache in toolchain.caches.items()},
            **self._found.variables,
            "PATH": os.pathsep.join(tools.path),
        }


def _write_home_files(home: Path, files: Mapping[str, str]) -> None:
    """Writes settings files into the home folder, before a step could put a symbolic link there."""
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def _make_executable(folder: Path, commands: Sequence[str]) -> None:
    """Makes wrapper scripts such as mvnw executable, which may be committed without this permission."""
    for program in {program for command in commands for program in programs_of(command)}:
        file = tree.resolve_inside(folder, folder / program) if program.startswith("./") else None
        if file and file.is_file():
            file.chmod(file.stat().st_mode | 0o111)
