"""Files of repositories over HTTP: they are looked at before a service is made of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.repositories import Repository
from tests.world import Answer, World, make_world
from windlass.sources.git import Git

DOCKERFILE = (
    "ARG VERSION=3.12\nFROM python:${VERSION}-slim AS build\nARG EXTRA\nRUN true\nFROM build\nFROM ${UNSET}\n"
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "shop")
    files: dict[str, str | bytes] = {
        "web/Dockerfile": DOCKERFILE,
        "web/deploy/Broken": "FROM alpine\nFRON alpine\n",
        "web/deploy/values.yaml": "a: 1",
        "README.md": "Rope for sale",
        "node_modules/rope/index.js": "",
    }
    made.put(files)
    (tmp_path / "shop" / "web" / "linked.yaml").symlink_to("deploy/values.yaml")
    made.commit()
    return made


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    git = Git(allow_local=True, outbound_allow=(), home=tmp_path / "git")
    async with make_world(git=git) as made:
        yield made


async def ask(world: World, action: str, repository: Repository, **fields: Any) -> Answer:
    body = {"git_repository": {"url": repository.url, "root_path": "/web"}, **fields}
    return await world.post(f"/environment/{await world.environment()}/{action}", body)


async def test_a_dockerfile_is_answered_with_its_arguments_and_images(world: World, repository: Repository):
    answer = await ask(world, "checkDockerfile", repository, dockerfile_path="Dockerfile")
    assert answer.status == 200, answer
    assert answer["dockerfile_path"] == "Dockerfile"
    assert answer["arg"] == ["EXTRA", "VERSION"]
    assert answer["repositories"] == ["python:3.12-slim", "${UNSET}"]


async def test_a_dockerfile_that_cannot_be_parsed_is_refused_with_the_line(
    world: World, repository: Repository
):
    answer = await ask(world, "checkDockerfile", repository, dockerfile_path="deploy/Broken")
    assert answer.status == 400
    assert answer.message.startswith("dockerfile_path: deploy/Broken cannot be parsed: line 2:")


@pytest.mark.parametrize("path", ["none", "deploy", "../README.md", "../../../../../etc/passwd", "a/\u202eb"])
async def test_a_file_that_is_not_in_the_folder_is_refused_with_its_field(
    world: World, repository: Repository, path: str
):
    one = await ask(world, "checkDockerfile", repository, dockerfile_path=path)
    assert (one.status, one.message.partition(":")[0]) == (400, "dockerfile_path")
    other = await ask(world, "checkGitFile", repository, files=["deploy/values.yaml", path])
    assert (other.status, other.message.partition(":")[0]) == (400, "files[1]")


async def test_existing_repository_files_are_found_also_through_symlinks(
    world: World, repository: Repository
):
    files = ["deploy/values.yaml", "linked.yaml", "/Dockerfile"]
    answer = await ask(world, "checkGitFile", repository, files=files)
    assert (answer.status, answer["files"]) == (200, files)


async def test_folders_of_a_repository_are_listed(world: World, repository: Repository):
    path = f"/organization/{world.org}/listDirectoriesFromGitRepository"
    answer = await world.post(path, {"url": repository.url})
    assert (answer.status, answer["results"]) == (200, ["web", "web/deploy"])
    below = await world.post(path, {"url": repository.url, "root_path": "/web"})
    assert below["results"] == ["deploy"]
    missing = await world.post(path, {"url": "https://ada:hush@git.example/a.git"})
    assert (missing.status, missing.message.partition(":")[0]) == (400, "url")


async def test_a_repository_that_cannot_be_read_is_a_conflict(world: World, repository: Repository):
    body = {"git_repository": {"url": repository.url, "branch": "gone"}, "files": ["README.md"]}
    path = f"/environment/{await world.environment()}/checkGitFile"
    answer = await world.post(path, body)
    assert (answer.status, "there is no branch gone" in answer.message) == (409, True)
    del body["git_repository"]["branch"]  # type: ignore[attr-defined]
    assert (await world.post(path, body)).status == 200, "the control"


async def test_a_git_token_that_is_not_of_the_organization_is_refused(world: World, repository: Repository):
    git = {"url": repository.url, "git_token_id": "00000000-0000-4000-8000-000000000000"}
    path = f"/organization/{world.org}/listDirectoriesFromGitRepository"
    answer = await world.post(path, git)
    assert (answer.status, answer.message.partition(":")[0]) == (400, "git_token_id")
