"""Runs one build: installs the dependencies, builds the application and describes its artifact.

`sources` reads the files before the build. `artifacts` stores the result.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from windlass.base import subprocesses
from windlass.builders.builder import BuildError, Say
from windlass.engines.workload import Artifact
from windlass.process.builds import tree
from windlass.process.builds.build_state import BuildState
from windlass.process.builds.command import Site
from windlass.process.builds.language_steps import install_language
from windlass.process.builds.node_steps import install_node
from windlass.process.builds.processes import resolve_processes
from windlass.process.builds.python_steps import build_python, install_python, place_runners
from windlass.process.builds.tools import step


async def run_own_commands(state: BuildState) -> None:
    """Runs the install and build commands from the settings. Does nothing for Python and Node, whose steps
    run these commands themselves."""
    if state.sources.declaration is not None or state.sources.package is not None:
        return
    settings = state.order.settings
    for title, command in (("Installing", settings.install_command), ("Building", settings.build_command)):
        if command:
            with step(state.say, f"{title} ({command})"):
                await state.tools.run(
                    ["/bin/sh", "-c", command],
                    cwd=state.layout.folder,
                    extra_variables=state.variables_as_started(),
                    title=command,
                )


async def make_artifact(state: BuildState) -> Artifact:
    if state.sources.steps:
        await install_language(state, state.sources.steps)
    else:
        await install_python(state)
        await install_node(state)
        await build_python(state)
        await run_own_commands(state)
        await place_runners(state)
    state.check()
    lines: list[str] = []
    artifact = await subprocesses.in_thread(_describe, state, lines.append)
    for line in lines:
        state.say(line)
    await subprocesses.in_thread(tree.move, state.layout.app, state.made / "app")
    return artifact


def _describe(state: BuildState, write_line: Say) -> Artifact:
    folder = state.sources.static_folder
    if folder and not (state.layout.folder / folder).is_dir():
        raise BuildError(f"Make the build write to the folder {folder}: it is not there after the build.")
    _add_image(state, write_line)
    now = [*(str(at) for at, _ in state.places), *state.machine]
    final = [*(str(at) for _, at in state.places), *state.machine]
    site = Site(layout=state.layout, path=tuple(now), final=tuple(final), undone=state.sources.undone)
    commands = resolve_processes(state.sources.start, site, write_line, state.order.settings)
    state.environment["PATH"] = os.pathsep.join(final)
    _writable((*commands.web, *state.environment, *state.environment.values()))
    return Artifact(
        kind="native",
        ref=str(state.final),
        key=state.order.key,
        command=commands.web,
        processes=commands.processes,
        release=commands.release,
        static=state.sources.start.site,
        environment=state.environment,
        workdir=state.layout.below,
        ports=state.sources.ports,
        web_port=state.sources.web_port,
    )


def _add_image(state: BuildState, write_line: Say) -> None:
    """Adds the ENV values of the Dockerfile, with paths in the image replaced by paths on this machine."""
    for name, value in state.sources.environment.items():
        here = ":".join(state.layout.here(part) for part in value.split(":"))
        if here != value and name != "PATH":
            write_line(f"ENV {name}: {value} is {here} here, from the folder that it is started in.")
        if name == "PATH":
            state.places += [(state.layout.folder / part, Path(part)) for part in _own_places(value, here)]
        elif name == "PYTHONPATH" and name in state.environment:
            state.environment[name] += f":{here}"
        elif name not in ("VIRTUAL_ENV", "PYTHONHOME", "HOME"):
            state.environment[name] = here


def _own_places(value: str, folder: str) -> Iterator[str]:
    for original, part in zip(value.split(":"), folder.split(":"), strict=True):
        if part and original != part:
            yield part


def _writable(texts: Collection[str]) -> None:
    if any("\0" in text for text in texts):
        raise BuildError("Take the NUL character out of the command or the variable: no program takes one.")
