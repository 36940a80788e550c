"""Detection over HTTP: the recipe of a repository is answered before anything is created."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from tests.process.builds.test_native_runs import until
from tests.process.test_bounded_calls import running_calls
from tests.repositories import Repository
from tests.world import World, make_world
from windlass.control.workloads.work_folders import DETECTION_PREFIX, sweep_work
from windlass.sources.git import Git

NO_TOKEN = "git_repository.git_token_id: no gitToken of this organization has this id"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "shop")
    files: dict[str, str | bytes] = {
        "web/requirements.txt": "flask\n",
        "web/app.py": "from flask import Flask\napp = Flask(__name__)\n",
        "README.md": "Rope for sale",
    }
    made.put(files).commit()
    return made


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    git = Git(allow_local=True, outbound_allow=(), home=tmp_path / "git")
    async with make_world(git=git) as made:
        yield made


def question(repository: Repository, **more: str) -> dict[str, object]:
    return {"git_repository": {"url": repository.url, **more}}


async def test_detection_over_http_returns_the_recipe_with_its_reasons(world: World, repository: Repository):
    answer = await world.post(f"/organization/{world.org}/detect", question(repository, root_path="/web"))
    assert answer.status == 200
    assert answer.json["language"] == "Python"
    assert answer.json["framework"] == "Flask"
    assert answer.json["start"].startswith("gunicorn app:app")
    assert "requirements.txt" in answer.json["reasons"]["framework"]


@pytest.mark.parametrize(
    ("makes", "install", "build"), [("native", "npm ci", "npm run build"), ("image", "", "")]
)
async def test_detection_with_a_dockerfile_shows_what_the_engine_does_with_it(
    tmp_path: Path, makes: Literal["native", "image"], install: str, build: str
):
    repository = Repository(tmp_path / "site")
    package = {"scripts": {"start": "react-router-serve x", "build": "react-router build"}}
    files: dict[str, str | bytes] = {
        "package.json": json.dumps({**package, "dependencies": {"@react-router/serve": "7"}}),
        "package-lock.json": "{}",
        "Dockerfile": 'FROM node\nRUN npm ci\nCMD ["npm", "run", "start"]\n',
    }
    repository.put(files).commit()
    git = Git(allow_local=True, outbound_allow=(), home=tmp_path / "git")
    async with make_world(git=git) as world:
        world.builder.makes = makes
        plan = (await world.post(f"/organization/{world.org}/detect", question(repository))).json
    assert (plan["dockerfile"], plan["start"], plan["port"]) == ("Dockerfile", "npm run start", 3000)
    assert (plan["install"], plan["build"]) == (install, build)
    assert "exposes no port" in plan["reasons"]["port"]


@pytest.mark.parametrize(
    ("login", "is_taken"),
    [
        ("https://ada:hush-hush@", False),
        ("https://:hush-hush@", False),
        ("https://ghp_0123456789abcdefghijklmnopqrstuvwxyz@", False),
        ("http://a:b@c@", False),
        ("ssh://git:hush-hush@", False),
        ("https://ada@", True),
        ("ssh://organization-with-a-long-name@", True),
        ("https://", True),
    ],
)
async def test_a_credential_in_an_address_is_refused_and_never_shown(world: World, login, is_taken):
    url = f"{login}git.example/acme/a@b:c.git"
    body = {"git_repository": {"url": url}}
    environment, app = await world.environment(), await world.application()
    created = await world.post(f"/environment/{environment}/application", {"name": "shop"} | body)
    changed = await world.patch(f"/application/{app}", body)
    assert (created.status, changed.status) == ((201, 200) if is_taken else (400, 400))
    if not is_taken:
        asked = await world.post(f"/organization/{world.org}/detect", body)
        told = [answer.message for answer in (created, changed, asked)]
        assert set(told) == {told[0]}
        assert "put it into a git token" in told[0]
        assert "hush" not in told[0]


async def test_the_applications_below_a_folder_are_listed(world: World, repository: Repository):
    answer = await world.post(f"/organization/{world.org}/detect", question(repository))
    assert [found["root_path"] for found in answer.json["candidates"]] == ["/web"]
    assert answer.json["problems"] == ["Set root_path to the folder of one application, such as /web."]


async def test_a_detection_creates_nothing_and_leaves_no_files(world: World, repository: Repository):
    before = await world.get(f"/organization/{world.org}/services")
    events = await world.get(f"/organization/{world.org}/events")
    await world.post(f"/organization/{world.org}/detect", question(repository))
    assert (await world.get(f"/organization/{world.org}/services")).json == before.json
    assert (await world.get(f"/organization/{world.org}/events")).json == events.json
    work = world.installation.ctx.work
    assert [*work.glob(f"{DETECTION_PREFIX}*")] == []


async def test_concurrent_detections_of_one_repository_return_the_same_recipe(
    world: World, repository: Repository
):
    path = f"/organization/{world.org}/detect"
    answers = await asyncio.gather(*(world.post(path, question(repository)) for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1


async def test_a_repository_that_cannot_be_read_is_a_conflict_that_says_why(
    world: World, repository: Repository
):
    answer = await world.post(f"/organization/{world.org}/detect", question(repository, branch="gone"))
    assert answer.status == 409
    assert "there is no branch gone" in answer.json["message"]


@pytest.fixture
def hostile(tmp_path: Path) -> Repository:
    """The time that each of these files takes grows with the square of its keys."""
    text = "[tool]\n" + "".join(f"a.b{number} = 1\n" for number in range(19_000))
    made = Repository(tmp_path / "hostile")
    made.put({f"app{number}/pyproject.toml": text for number in range(60)}).commit()
    return made


async def test_detecting_a_hostile_repository_does_not_delay_others_and_ends_with_its_request(
    world: World, repository: Repository, hostile: Repository
):
    other, token = await world.organization()
    own = question(repository, root_path="/web")
    read = await world.post(f"/organization/{other}/detect", own, token=token)
    before = running_calls()
    path = f"/organization/{world.org}/detect"
    request = asyncio.create_task(world.post(path, question(hostile)))
    await until(lambda: running_calls() > before)
    answer = await world.post(f"/organization/{other}/detect", question(repository), token=token)
    assert (read.status, answer.status) == (200, 200)
    assert running_calls() > before, "the control: the hostile repository is still being read"
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await until(lambda: running_calls() == before)


async def test_a_git_token_of_another_organization_is_not_used(world: World, repository: Repository):
    other, admin = await world.organization()
    body = {"name": "g", "type": "GITHUB", "token": "s3cret"}
    token = await world.made(f"/organization/{other}/gitToken", body, token=admin)
    path = f"/organization/{world.org}/detect"
    answer = await world.post(path, question(repository, git_token_id=token))
    assert (answer.status, answer.json["message"]) == (400, NO_TOKEN)
    own = await world.made(f"/organization/{world.org}/gitToken", body)
    assert (await world.post(path, question(repository, git_token_id=own))).status == 200, "the control"


async def test_folders_of_detections_that_a_killed_server_left_are_swept(world: World):
    ctx = world.installation.ctx
    left, fresh = (ctx.work / f"{DETECTION_PREFIX}{name}" for name in ("left", "fresh"))
    for folder in (left, fresh):
        folder.mkdir(parents=True)
    os.utime(left, (time.time() - 7200,) * 2)
    await sweep_work(ctx)
    assert (left.exists(), fresh.exists()) == (False, True)


async def test_branches_are_listed_with_the_default_branch_first(world: World, repository: Repository):
    for name in ("alpha", "feature/rope", "zulu"):
        repository.git("branch", name)
    answer = await world.post(f"/organization/{world.org}/branches", question(repository))
    assert answer.status == 200, answer
    names = [branch["name"] for branch in answer["results"]]
    assert names[1:] == ["alpha", "feature/rope", "zulu"]
    assert names[0] == repository.git("symbolic-ref", "--short", "HEAD").strip()


async def test_listing_branches_of_a_missing_repository_is_refused_with_the_reason(
    world: World, tmp_path: Path
):
    question = {"git_repository": {"url": f"file://{tmp_path}/none"}}
    answer = await world.post(f"/organization/{world.org}/branches", question)
    assert (answer.status, "cannot be read" in answer.message) == (409, True)


async def test_listing_branches_in_another_organization_is_not_found(world: World, repository: Repository):
    _, token = await world.organization()
    path = f"/organization/{world.org}/branches"
    assert (await world.post(path, question(repository), token=token)).status == 404
