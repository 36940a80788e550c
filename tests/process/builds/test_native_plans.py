"""A build on this machine follows its plan: for each tree of the tables, with a Dockerfile and without."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.detect.rows import ROWS
from tests.tables import rows
from windlass.builders.builder import BuildError, Order
from windlass.builders.dockerfile_hints import Shell, text_of
from windlass.builders.folder_recipe import tree_of
from windlass.builders.node_packages import package
from windlass.builders.plan import DockerfileChoice, plan_of
from windlass.detect import Recipe
from windlass.detect.python_runners import without_runner
from windlass.process.builds import sources
from windlass.process.builds.sources import Sources
from windlass.process.builds.start import without_npm

NATIVE = DockerfileChoice(executes=False)
INSTALLS = {
    "requirements": ("pip install -r",),
    "pipfile": ("pipenv install",),
    "locked": ("uv sync", "poetry install", "pdm install"),
    "project": ("pip install .",),
}
"""How the install command of a plan begins for each place of dependencies of Python."""
DOCKERFILE = "FROM base:1\nWORKDIR /app\nCOPY . .\nRUN make-everything\n{expose}CMD {command}\n"


def written(files, folder: Path, **more: str) -> Path:
    for name, content in {**files, **more}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def sources_of(folder: Path) -> Sources:
    return sources.read(
        Order(service="s", org="o", name="n", deployment="d", key="k", commit="c", source=folder)
    )


def command_of(recipe: Recipe, folder: Path) -> str:
    """Returns the planned command as it is started: without the package manager in front of it."""
    command = Shell(recipe.start.removeprefix("npx "))
    return without_runner(text_of(without_npm(command, package(folder))))


def builds(built: Sources) -> bool:
    steps = built.steps.commands if built.steps else ()
    return bool(built.build or built.prepare or any(title == "Building" for title, _ in steps))


def assert_is_as_planned(folder: Path) -> None:
    """Fails if a build differs from the plan, unless it is refused, or says so in the build log."""
    plan = plan_of(tree_of(folder), choice=NATIVE).recipe
    try:
        built = sources_of(folder)
    except BuildError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert "on this machine" in refused or "Docker engine" in refused
        return
    if any("Not as planned" in line or "is followed, and not" in line for line in built.remarks):
        return
    started = without_runner(text_of(built.start.command)) if built.start.command else ""
    assert started.removeprefix("npx ") == command_of(plan, folder)
    assert builds(built) == bool(plan.build)
    if built.declaration and not plan.dockerfile:
        assert plan.install.startswith(INSTALLS[built.declaration.kind])
    assert bool(built.start.site) == bool(plan.static_folder)
    assert (built.ports[0] if built.ports else built.web_port) == plan.port


@rows("row", ROWS, ids=lambda row: row.name)
def test_a_native_build_runs_as_the_detection_plan_says(row, tmp_path):
    folder = written(row.files, tmp_path / row.name)
    assert_is_as_planned(folder)


@pytest.mark.parametrize("expose", ["", "EXPOSE 4321\n"])
@rows("row", [row for row in ROWS if row.values.get("start")], ids=lambda row: row.name)
def test_a_build_with_a_dockerfile_follows_its_plan(row, expose, tmp_path):
    command = shlex.join(["sh", "-c", str(row.values["start"])])
    for form in (str(row.values["start"]), command):
        text = DOCKERFILE.format(expose=expose, command=form)
        folder = written(row.files, tmp_path / row.name / form[:2], Dockerfile=text)
        assert_is_as_planned(folder)
