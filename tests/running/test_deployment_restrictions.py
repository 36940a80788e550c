"""Deployment restrictions: with `auto_deploy`, paths choose which new commits are deployed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.contract import is_refused
from tests.running.deployments import deployed
from tests.running.test_auto_deploy import commits, look, said
from tests.tables import rows
from tests.world import World
from windlass.control.background.auto_deploy import is_any_watched, patterns_of
from windlass.families.deployment_restriction import DeploymentRestriction


async def restrict(world: World, app: str, mode: str, value: str) -> Any:
    body = {"mode": mode, "type": "PATH", "value": value}
    return await world.post(f"/application/{app}/deploymentRestriction", body)


async def test_a_commit_that_matches_no_restriction_is_not_deployed(world: World):
    app = await deployed(world, auto_deploy=True)
    await restrict(world, app, "MATCH", "web/")
    await restrict(world, app, "EXCLUDE", "/web/test")
    first = world.git.newest
    for paths in (["README.md"], ["web/test/a.py"], ["web/test/a.py", "docs/b.md"]):
        world.git.push(f"changes {paths}", *paths)
        await look(world)
    assert await commits(world, app) == [first]
    assert "is not deployed: deployment restrictions leave out all paths that it changes" in await said(
        world, app
    )
    matching = world.git.push("changes the page", "web/page.html", "README.md")
    await look(world)
    assert await commits(world, app) == [matching, first]


async def test_without_the_restriction_the_commit_is_deployed(world: World):
    """The control of the test above."""
    app = await deployed(world, auto_deploy=True)
    restriction = (await restrict(world, app, "MATCH", "web"))["id"]
    path = f"/application/{app}/deploymentRestriction/{restriction}"
    assert (await world.delete(path)).status == 204
    commit = world.git.push("changes the readme", "README.md")
    await look(world)
    assert (await commits(world, app))[0] == commit


async def test_a_file_must_match_both_watch_paths_and_deployment_restrictions(world: World):
    app = await deployed(world, auto_deploy=True, watch_paths=["web", "docs"])
    await restrict(world, app, "EXCLUDE", "docs")
    first = world.git.newest
    world.git.push("changes both", "docs/a.md", "api/b.py")
    await look(world)
    assert await commits(world, app) == [first]
    assert "watch_paths and deployment restrictions leave out all paths" in await said(world, app)
    commit = world.git.push("changes the page", "docs/a.md", "web/b.html")
    await look(world)
    assert await commits(world, app) == [commit, first]


async def test_a_manual_deploy_ignores_deployment_restrictions(world: World):
    app = await deployed(world)
    await restrict(world, app, "EXCLUDE", "**")
    commit = world.git.push("changes the readme", "README.md")
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert (await commits(world, app))[0] == commit


@pytest.mark.parametrize("value", ["", "../web", "!web", "#web", "/", "web\n"])
async def test_a_restriction_without_a_path_of_the_repository_is_refused(world: World, value: str):
    is_refused(await restrict(world, await world.application(), "MATCH", value), 400, "value: ")


@pytest.mark.parametrize("value", ["/web/", "web", "docs/*.md"])
async def test_a_restriction_path_is_returned_unchanged(world: World, value: str):
    assert (await restrict(world, await world.application(), "MATCH", value))["value"] == value


@rows(
    ("paths", "restrictions", "passes"),
    [
        (["web/a"], [], True),
        (["web/a"], ["MATCH web"], True),
        (["api/a"], ["MATCH web"], False),
        (["api/a"], ["MATCH web", "MATCH api"], True),
        (["web/a"], ["EXCLUDE web"], False),
        (["web/a", "api/a"], ["EXCLUDE web"], True),
        (["web/a"], ["EXCLUDE web", "MATCH web"], False),
        (["web/a", "web/b/c"], ["EXCLUDE web/a", "MATCH web"], True),
        ([], ["EXCLUDE web"], False),
    ],
)
def test_an_excluding_deployment_restriction_takes_precedence_over_a_matching_one(
    paths: list[str], restrictions: list[str], passes: bool
):
    specs = [text.split(" ") for text in restrictions]
    declared: list[Any] = [
        DeploymentRestriction(mode=mode, type="PATH", value=value)  # type: ignore[arg-type]
        for mode, value in specs
    ]
    assert is_any_watched(paths, patterns_of(declared)) is passes
