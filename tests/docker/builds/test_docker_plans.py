"""An image follows the plan that is shown before: for each tree of the tables, with a Dockerfile or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.detect.rows import ROWS
from tests.tables import rows
from windlass.builders.builder import Order
from windlass.builders.dockerfile import read
from windlass.builders.dockerfile_hints import read_hints
from windlass.builders.folder_recipe import planned_recipe
from windlass.docker.builds.recipes import ChosenDockerfile, choose_dockerfile

DOCKERFILE = "FROM base:1\nWORKDIR /app\nCOPY . .\nRUN make-everything\n{expose}CMD {command}\n"
STARTED = [row for row in ROWS if row.values.get("start")]
RUNNABLE = [row for row in ROWS if row.values.get("start") or row.values.get("static_folder")]


def chosen(files, folder: Path, **more: str) -> ChosenDockerfile:
    for name, content in {**files, **more}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    order = Order(service="s", org="o", name="n", deployment="d", key="k", commit="c", source=folder)
    return choose_dockerfile(order, caches=True)


@rows("row", RUNNABLE, ids=lambda row: row.name)
def test_a_docker_image_is_built_as_the_detection_plan_says(row, tmp_path):
    folder = tmp_path / row.name
    files = {name: content for name, content in row.files.items() if name != "Dockerfile"}
    built = chosen(files, folder)
    plan = planned_recipe(folder)
    assert built.notes.is_static == (bool(plan.static_folder) and not plan.start)
    dockerfile = read(built.files.text.decode())
    hints = read_hints(dockerfile, dockerfile.stages[-1], {})
    assert bool(hints.command) == bool(plan.start)
    assert set(hints.ports) <= {plan.port}
    assert [*built.notes.processes] == ([] if built.notes.is_static else [one.name for one in plan.processes])


@pytest.mark.parametrize(("expose", "port"), [("", 0), ("EXPOSE 4321\n", 4321)])
@rows("row", STARTED, ids=lambda row: row.name)
def test_an_image_of_a_dockerfile_has_the_planned_port(row, expose, port, tmp_path):
    folder = tmp_path / row.name
    text = DOCKERFILE.format(expose=expose, command=row.values["start"])
    built = chosen(row.files, folder, Dockerfile=text)
    plan = planned_recipe(folder)
    assert built.notes.web_port == plan.port
    assert port in (0, plan.port)
    assert plan.dockerfile == "Dockerfile"
    assert not plan.build
