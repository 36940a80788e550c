"""A build on the process engine follows the recipe of a site that a generator makes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from windlass.builders.builder import BuildError, BuildSettings
from windlass.detect.procfile import PROCFILE
from windlass.process.builds.build_state import BuildState
from windlass.process.builds.detected import follow
from windlass.process.builds.python_steps import build_python
from windlass.process.builds.start import Start


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("file", "package", "build", "folder"),
    [
        ("mkdocs.yml", "mkdocs", "mkdocs build", "site"),
        ("hugo.toml", "hugo", "hugo --minify", "public"),
    ],
)
def test_a_site_is_built_by_its_generator_and_nothing_is_started(tmp_path, file, package, build, folder):
    followed = follow(write(tmp_path, {file: ""}), None, BuildSettings())
    assert (followed.added, followed.prepare, followed.static_folder) == ((package,), build, folder)
    assert followed.start.command is None
    assert followed.start.site is not None
    assert followed.start.site.folder == folder


def test_a_command_that_is_set_wins_over_the_generator(tmp_path):
    settings = BuildSettings(start_command="python -m http.server")
    followed = follow(write(tmp_path, {"mkdocs.yml": ""}), None, settings)
    assert followed.start.site is None
    assert followed.static_folder == ""


def test_a_procfile_wins_over_the_generator(tmp_path):
    write(tmp_path, {"mkdocs.yml": "", PROCFILE: "web: python app.py\n", "app.py": ""})
    followed = follow(tmp_path, None, BuildSettings(), Start(None, "the Procfile"))
    assert followed.start.site is None
    assert followed.static_folder == ""


@pytest.mark.parametrize("folder", ["public", ""])
async def test_a_generator_that_fails_ends_the_build_unless_its_files_are_only_an_addition(folder):
    lines: list[str] = []

    async def fail(*words: object, **more: object) -> None:
        raise BuildError("hugo failed")

    state = SimpleNamespace(
        sources=SimpleNamespace(prepare="hugo", static_folder=folder),
        order=SimpleNamespace(settings=BuildSettings()),
        tools=SimpleNamespace(run=fail),
        layout=SimpleNamespace(folder=Path()),
        variables_as_started=dict,
        say=lines.append,
    )
    if folder:
        with pytest.raises(BuildError, match="hugo failed"):
            await build_python(cast(BuildState, state))
    else:
        await build_python(cast(BuildState, state))
        assert any("The build continues without it." in line for line in lines)
