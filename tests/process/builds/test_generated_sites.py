"""A build on the process engine follows the recipe of a site that a generator makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.builders.builder import BuildSettings
from windlass.detect.procfile import PROCFILE
from windlass.process.builds.detected import follow
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
