"""A repository without a branch gets its default branch, and one that does not answer delays no other
request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes.builder import FakeRepositories
from tests.world import make_world
from windlass.sources.git import GitSource

REPOSITORY = {"url": "https://git.example/acme/front.git"}
ELSEWHERE = {"url": "https://git.example/acme/back.git"}


class Repositories(FakeRepositories):
    """Counts who asks for a branch, and answers only if it may."""

    def __init__(self) -> None:
        super().__init__()
        self.default = "master"
        self.asked: list[GitSource] = []
        self.begun = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def head(self, source: GitSource) -> tuple[str, str]:
        self.asked.append(source)
        self.begun.set()
        await self.answers.wait()
        _, newest = await super().head(source)
        return source.branch or self.default, newest


@pytest.fixture
async def world():
    async with make_world(git=Repositories()) as made:
        yield made


async def created(world: Any, repository: dict[str, Any]) -> Any:
    body = {"name": world.name("app"), "git_repository": repository}
    return await world.post(f"/environment/{await world.environment()}/application", body)


@pytest.mark.parametrize("branch", [{}, {"branch": None}])
async def test_a_new_application_has_the_default_branch_if_none_was_named(world, branch):
    answer = await created(world, {**REPOSITORY, **branch})
    assert (answer.status, answer["git_repository"]["branch"]) == (201, "master")
    assert (await world.get(f"/application/{answer['id']}")).json == answer.json


async def test_a_given_branch_is_stored_without_contacting_the_repository(world):
    app = f"/application/{(await created(world, {**REPOSITORY, 'branch': 'next'}))['id']}"
    await world.put(app, {"git_repository": {**REPOSITORY, "branch": "other"}})
    moved = await world.patch(app, {"git_repository": ELSEWHERE})
    assert (moved["git_repository"]["branch"], world.git.asked) == ("other", [])


async def test_a_branch_omitted_or_set_to_null_is_reset_to_the_default_branch(world):
    app = f"/application/{(await created(world, {**REPOSITORY, 'branch': 'next'}))['id']}"
    replaced = await world.put(app, {"git_repository": REPOSITORY})
    assert replaced["git_repository"]["branch"] == "master"
    world.git.default = "main"
    patched = await world.patch(app, {"git_repository": {**ELSEWHERE, "branch": None}})
    assert patched["git_repository"]["branch"] == "main"


@pytest.mark.parametrize("default", ["master", "-x", "a b"])
@pytest.mark.parametrize("broken", ["", "it is private"])
async def test_if_the_repository_does_not_answer_the_application_is_created_without_a_branch(
    world, default, broken
):
    world.git.broken, world.git.default = broken, default
    answer = await created(world, REPOSITORY)
    assert answer.status == 201
    good = default == "master" and not broken
    assert answer["git_repository"].get("branch") == ("master" if good else None)


async def test_a_repository_that_does_not_answer_delays_no_other_write_and_no_creation_for_ever(world):
    world.git.answers.clear()
    environment = await world.environment()
    body = {"name": "web", "git_repository": REPOSITORY}
    waiting = asyncio.create_task(world.post(f"/environment/{environment}/application", body))
    await world.git.begun.wait()
    assert (await world.post(f"/organization/{world.org}/project", {"name": "shop"})).status == 200
    assert not waiting.done()
    answer = await waiting
    assert answer.status == 201
    assert "branch" not in answer["git_repository"]


async def test_a_caller_without_the_write_right_causes_no_request_to_the_repository(world):
    reader = await world.new_token("Read")
    _, stranger = await world.organization()
    path, body = (
        f"/environment/{await world.environment()}/application",
        {"name": "a", "git_repository": REPOSITORY},
    )
    for token, status in ((reader, 403), (stranger, 404), (None, 401)):
        assert (await world.post(path, body, token=token)).status == status
    assert world.git.asked == []


async def test_a_limited_token_cannot_use_a_git_token_outside_its_limits(world):
    tokens = f"/organization/{world.org}/gitToken"
    secret = {"name": "t", "type": "GITHUB", "token": "x", "git_api_url": "https://git.example"}
    token = await world.made(tokens, secret)
    environment = await world.environment()
    limited = await world.new_token("Admin", limited_to=[environment])
    body = {"name": "a", "git_repository": {**REPOSITORY, "git_token_id": token}}
    refused = await world.post(f"/environment/{environment}/application", body, token=limited)
    assert (refused.status, world.git.asked) == (400, [])
    allowed = await world.post(f"/environment/{environment}/application", body)
    assert (allowed.status, [source.token for source in world.git.asked]) == (201, ["x"])
