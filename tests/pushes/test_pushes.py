"""`git push` stores commits, builds the branch of the application, and says how it ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.pushes.conftest import RunningServer, Scene, running_server
from tests.pushes.pushing import (
    ask,
    deployments,
    ended_deployment,
    make_application,
    web_folder,
    with_token,
)
from tests.whole import page, until
from windlass.control.workloads.repositories import copied_fact


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[RunningServer]:
    async with running_server() as made:
        yield made


async def test_a_push_deploys_and_shows_the_build_and_the_address(scene: Scene):
    windlass = scene.windlass
    app = await make_application(windlass, scene.environment)
    assert app["push_url"] == f"{windlass.url}/git/{app['id']}.git"
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    ended = await folder.push(url)
    assert ended.code == 0, ended
    for line in (
        "Received ",
        "It is started by the process web",
        "main is at ",
        "web runs v1",
        "[new branch]",
    ):
        assert line in ended.text
    (link,) = (await windlass.call("GET", f"/application/{app['id']}/link"))["results"]
    assert link["url"] in ended.text
    assert (await page(link["url"])).text == "one"
    folder.write(text="two").commit("second")
    assert (await folder.push(url)).code == 0
    assert (await page(link["url"])).text == "two"
    same = await folder.push(url)
    assert (same.code, "Everything up-to-date" in same.text) == (0, True)
    assert len(await deployments(windlass, app["id"])) == 2


@pytest.mark.slow
async def test_a_failed_build_refuses_the_push_and_the_old_version_keeps_serving(scene: Scene):
    windlass = scene.windlass
    app = await make_application(windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    assert (await folder.push(url)).code == 0
    folder.write(requirements__txt="no-such-package-at-all @ file:///nowhere\n")
    broken = folder.commit("broken")
    ended = await folder.push(url)
    assert ended.code == 1, ended
    assert "[remote rejected] main -> main (not deployed: " in ended.text
    assert broken not in await ask(folder.path, "ls-remote", url)
    (link,) = (await windlass.call("GET", f"/application/{app['id']}/link"))["results"]
    assert (await page(link["url"])).text == "one"
    folder.write(requirements__txt="").commit("mended")
    assert (await folder.push(url)).code == 0


async def test_a_release_that_fails_moves_the_branch_and_says_so(scene: Scene):
    app = await make_application(scene.windlass, scene.environment, release_command="false")
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    ended = await folder.push(url)
    assert ended.code == 0, ended
    assert "v1 did not start to serve. Nothing serves yet." in ended.text
    assert folder.git("rev-parse", "HEAD") in await ask(folder.path, "ls-remote", url)


async def test_only_the_branch_of_the_application_is_deployed(scene: Scene):
    app = await make_application(scene.windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    ended = await folder.push(url, "main:feature", "HEAD:refs/tags/v1")
    assert ended.code == 0, ended
    assert "The branch feature is stored; only main is deployed." in ended.text
    assert "The tag v1 is stored; only main is deployed." in ended.text
    assert await deployments(scene.windlass, app["id"]) == []
    ended = await folder.push(url, ":feature")
    assert (ended.code, "The branch feature is deleted." in ended.text) == (0, True)


@pytest.mark.slow
async def test_pushed_commits_can_be_cloned_listed_and_deployed_again(scene: Scene):
    windlass = scene.windlass
    app = await make_application(windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    await folder.push(url)
    first = folder.git("rev-parse", "HEAD")
    second = folder.write(text="two").commit("second")
    await folder.push(url)
    await ask(scene.place.beside, "clone", "--quiet", url, "cloned")
    assert (scene.place.beside / "cloned" / "text").read_text() == "two"
    await ask(scene.place.beside, "clone", "--quiet", "--depth=1", "--branch=main", url, "shallow")
    commits = (await windlass.call("GET", f"/application/{app['id']}/commit"))["results"]
    assert [commit["git_commit_id"] for commit in commits] == [second, first]
    await windlass.call("POST", f"/application/{app['id']}/deploy", {"git_commit_id": first})
    await ended_deployment(windlass, app["id"])
    (link,) = (await windlass.call("GET", f"/application/{app['id']}/link"))["results"]
    assert (await page(link["url"])).text == "one"
    shown = await windlass.call("GET", f"/application/{app['id']}")
    assert shown["git_repository"]["deployed_commit_id"] == first
    assert second in await ask(folder.path, "ls-remote", url), "a deploy moved the branch"


@pytest.mark.nightly
async def test_a_forced_push_says_so_and_the_former_commit_can_be_deployed_again(scene: Scene):
    windlass = scene.windlass
    app = await make_application(windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    await folder.push(url)
    first = folder.git("rev-parse", "HEAD")
    folder.git("commit", "--quiet", "--amend", "--message=other")
    plain = await folder.push(url)
    assert (plain.code, "[rejected]" in plain.text) == (1, True)
    forced = await folder.push(url, "--force", "main")
    assert forced.code == 0, forced
    assert f"This push is forced: main was at {first[:12]}" in forced.text
    await windlass.call("POST", f"/application/{app['id']}/deploy", {"git_commit_id": first})
    assert (await ended_deployment(windlass, app["id"]))["status"] == "SUCCEEDED"


@pytest.mark.nightly
async def test_a_copy_of_an_application_has_a_copy_of_its_repository(scene: Scene):
    windlass = scene.windlass
    app = await make_application(windlass, scene.environment)
    folder = web_folder(scene.place.beside / "web")
    await folder.push(with_token(app["push_url"]))
    body = {"name": "copy", "environment_id": scene.environment}
    copy = await windlass.call("POST", f"/application/{app['id']}/clone", body)
    assert copy["push_url"] == f"{windlass.url}/git/{copy['id']}.git"
    await windlass.call("POST", f"/application/{copy['id']}/deploy", {})
    assert (await ended_deployment(windlass, copy["id"]))["status"] == "SUCCEEDED"
    folder.write(text="of the copy").commit("for the copy")
    assert (await folder.push(with_token(copy["push_url"]))).code == 0
    listed = await ask(folder.path, "ls-remote", with_token(app["push_url"]))
    assert folder.git("rev-parse", "HEAD") not in listed


async def test_a_copy_has_nothing_that_is_pushed_to_the_original_later(scene: Scene):
    windlass = scene.windlass
    pushed, reads = windlass.installation.ctx.pushed, windlass.installation.ctx.store.reads
    full = await make_application(windlass, scene.environment)
    empty = await make_application(windlass, scene.environment, "empty")
    folder = web_folder(scene.place.beside / "web")
    await folder.push(with_token(full["push_url"]), "main:other")
    copies = []
    for number, app in enumerate((full, empty)):
        body = {"name": f"copy {number}", "environment_id": scene.environment}
        copy = await windlass.call("POST", f"/application/{app['id']}/clone", body)

        async def is_made(id: str = copy["id"]) -> bool:
            return await reads.facts.get(copied_fact(id)) == b""

        await until(is_made)
        copies.append(copy)
    assert pushed.exists(copies[0]["id"]), "the control"
    folder.write(text="secret").commit("later")
    for app, copy in zip((full, empty), copies, strict=True):
        await folder.push(with_token(app["push_url"]), "main:other")
        listed = await ask(folder.path, "ls-remote", with_token(copy["push_url"]))
        assert folder.git("rev-parse", "HEAD") not in listed
        assert ("refs/heads/other" in listed) is (app is full)


async def test_the_repository_of_a_deleted_application_is_removed(scene: Scene):
    windlass = scene.windlass
    app = await make_application(windlass, scene.environment)
    await web_folder(scene.place.beside / "web").push(with_token(app["push_url"]))
    path = windlass.installation.ctx.pushed.path(app["id"])
    assert path.exists()
    await windlass.call("DELETE", f"/application/{app['id']}")

    async def is_gone() -> bool:
        return not path.exists()

    await until(is_gone)


async def test_without_a_branch_the_first_pushed_one_is_deployed(scene: Scene):
    repository = {"url": "windlass://push"}
    app = await make_application(scene.windlass, scene.environment, git_repository=repository)
    folder = web_folder(scene.place.beside / "web")
    folder.git("branch", "--move", "trunk")
    ended = await folder.push(with_token(app["push_url"]), "trunk")
    assert (ended.code, "web runs v1" in ended.text) == (0, True), ended


async def test_the_first_push_makes_the_repository_the_source_of_an_uploaded_application(scene: Scene):
    windlass = scene.windlass
    body = {"name": "web", "source": "UPLOAD"}
    app = await windlass.call("POST", f"/environment/{scene.environment}/application", body)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    ended = await folder.push(url)
    assert (ended.code, "web runs v1" in ended.text) == (0, True), ended
    shown = await windlass.call("GET", f"/application/{app['id']}")
    repository = shown["git_repository"]
    assert (shown["source"], repository["url"], repository["branch"]) == ("GIT", "windlass://push", "main")
