"""Previews: a pull request gets an environment of its own, is told of it, and loses it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import force_setattr

from tests.fakes.engine import FakeEngine
from tests.pushes.deliveries import pushes
from tests.pushes.git_servers import answer
from tests.pushes.previewed import Shop, shop_of
from tests.pushes.pull_requests import (
    EACH,
    BitbucketWithPulls,
    GiteaWithPulls,
    GitHubWithPulls,
    WithPulls,
    commit,
)
from tests.running.deployments import deployments
from windlass.base.http_out import HttpResult
from windlass.control.background import pull_request_work
from windlass.control.services import preview_comments

each = pytest.mark.parametrize("make", EACH)


def given_to(shop: Shop, service: str) -> dict[str, Any]:
    """The variables with which a service was last started."""
    return dict([one for one in shop.world.engine.applied if one.service == service][-1].variables)


class Kill:
    """Ends the worker that comes to a point first, as a killed server does: its lease goes on."""

    def __init__(self, point: str) -> None:
        self.point = point

    async def __call__(self, point: str) -> None:
        if point == self.point:
            self.point = ""
            raise asyncio.CancelledError


@each
async def test_a_pull_request_gets_an_environment_and_loses_it(make: type[WithPulls]):
    async with shop_of(make) as shop:
        await shop.make()
        first = await shop.open(12, "first")
        preview = await shop.preview()
        assert preview["state"] == "RUNNING", preview
        made = (await shop.environments())["live-pr-12"]
        assert (made["mode"], made["id"]) == ("PREVIEW", preview["preview_environment_id"])
        assert made["preview"]["pull_request"] == 12
        web = (await shop.services(made["id"]))["web"]
        assert (web["git_repository"]["branch"], web["auto_deploy"]) == ("colours", False)
        [deployment] = await deployments(shop.world, web["id"])
        assert deployment["git_commit_id"][:12] == first[:12]
        assert preview["address"] in shop.server.text(12)
        assert shop.server.statuses[preview["commit_id"]][-1].lower().startswith("success")

        second = await shop.open(12, "second")
        assert second.startswith((await shop.preview())["deployed_commit_id"])
        newest = (await deployments(shop.world, web["id"]))[0]
        assert newest["git_commit_id"][:12] == second[:12]
        assert second[:12] in shop.server.text(12), "the one comment was edited"

        shop.server.close_pull(12)
        await shop.deliver(12)
        assert await shop.previews() == []
        assert {*await shop.environments()} == {"live"}
        assert "deleted" in shop.server.text(12)


async def test_a_service_that_is_skipped_in_its_stage_is_not_deployed_in_a_preview():
    async with shop_of(engine=FakeEngine("image")) as shop:
        await shop.make()
        for name in ("cache", "queue"):
            body = {"name": name, "image_name": "acme/cache", "tag": "1.0"}
            service = await shop.world.made(f"/environment/{shop.id}/container", body)
            stage = (await shop.world.get(f"/service/{service}/deploymentStage"))["id"]
            path = f"/deploymentStage/{stage}/service/{service}"
            assert (await shop.world.put(path, {"is_skipped": name == "cache"})).status == 200
        await shop.open(12, "first")
        made = await shop.services((await shop.preview())["preview_environment_id"])
        states = [
            await shop.world.get(f"/container/{made[name]['id']}/status") for name in ("cache", "queue")
        ]
        assert [state["service_deployment_status"] for state in states] == ["NEVER_DEPLOYED", "UP_TO_DATE"]
        preview = await shop.preview()
        assert preview["state"] == "RUNNING"
        path = f"/environment/{preview['preview_environment_id']}/deploymentHistoryV2"
        [deployment] = (await shop.world.get(path))["results"]
        names = [stage["name"] for stage in deployment["stages"]]
        assert names == ["default-databases", "default-applications"], "it is one deployment"


async def test_a_preview_shares_nothing_with_its_original():
    async with shop_of(engine=FakeEngine("image")) as shop:
        await shop.make()
        timetable = {
            "name": "nightly",
            "source": {"image": {"image_name": "acme/cache", "tag": "1.0"}},
            "schedule": {"cronjob": {"scheduled_at": "* * * * *", "arguments": ["true"]}},
        }
        await shop.world.made(f"/environment/{shop.id}/job", timetable)
        domain = {"domain": "shop.example.com", "generate_certificate": False}
        await shop.world.made(f"/application/{shop.web}/customDomain", domain)
        await shop.open(12, "first")
        made = await shop.services((await shop.preview())["preview_environment_id"])
        path = f"/database/{made['orders']['id']}"
        assert (await shop.world.get(path))["accessibility"] == "PRIVATE"
        assert (await shop.world.get(f"/application/{made['web']['id']}/customDomain"))["results"] == []
        assert await deployments(shop.world, made["web"]["id"])
        due = await shop.world.get(f"/job/{made['nightly']['id']}/dueTimes")
        assert due.status != 200 or not due["is_active"], "its timetable was not started"


async def test_a_fork_waits_for_the_approval_of_each_commit_and_gets_no_secrets():
    async with shop_of() as shop:
        await shop.make()
        first = await shop.open(12, "first", is_fork=True)
        preview = await shop.preview()
        assert preview["state"] == "WAITING_FOR_APPROVAL"
        assert {*await shop.environments()} == {"live"}, "it was built without an approval"
        path = f"/preview/{preview['id']}"
        assert (await shop.world.post(f"{path}/approve", {"commit_id": commit("other")})).status == 409
        writer = await shop.world.new_token("Write", "Deploy")
        approval = {"commit_id": first}
        assert (await shop.world.post(f"{path}/approve", approval, token=writer)).status == 403
        assert (await shop.world.post(f"{path}/approve", approval)).status == 200
        await shop.world.run(5)
        preview = await shop.preview()
        assert (preview["state"], preview["missing_secrets"]) == ("RUNNING", ["KEY", "PASSWORD"])
        assert "| Secrets that a fork does not get | 2: " in shop.server.text(12)
        assert "PASSWORD" not in shop.server.text(12), "everybody reads the comments of a public repository"
        web = (await shop.services(preview["preview_environment_id"]))["web"]["id"]
        given = given_to(shop, web)
        assert given["COLOUR"] == "red"
        assert not {"KEY", "PASSWORD"} & given.keys()
        assert "canary" not in str(given)

        second = await shop.open(12, "second")
        preview = await shop.preview()
        assert (preview["state"], preview["deployed_commit_id"]) == ("WAITING_FOR_APPROVAL", first)
        assert (await shop.world.post(f"{path}/approve", approval)).status == 409, "it is not the newest"
        approval = {"commit_id": second}
        assert (await shop.world.post(f"{path}/approve", approval)).status == 200
        assert (await shop.world.post(f"{path}/approve", approval)).status == 409, "nothing waits any more"


@pytest.mark.parametrize("is_fork", [True, False])
async def test_the_code_of_a_fork_gets_no_secret_outputs_of_the_jobs_of_the_original(is_fork: bool):
    """Negative control: a pull request of the repository itself gets them."""
    async with shop_of(engine=FakeEngine("image")) as shop:
        await shop.make()
        world = shop.world
        schedule = {
            "on_stop": {"arguments": ["say"]}
        }  # it does not run in the preview before the application
        source = {"image": {"image_name": "acme/seed", "tag": "1"}}
        job = await world.made(
            f"/environment/{shop.id}/job", {"name": "seed", "source": source, "schedule": schedule}
        )
        outputs = {"PLAIN": {"value": "red"}, "KEY": {"value": "canary-output", "sensitive": True}}
        assert (await world.post(f"/job/{job}/deploy")).status == 202
        await world.settle()
        world.engine.output = msgspec.json.encode(outputs)
        assert (await world.post(f"/job/{job}/stop")).status == 202
        await world.settle()
        world.engine.output = b""
        first = await shop.open(12, "first", is_fork=is_fork)
        preview = await shop.preview()
        if is_fork:
            approval = {"commit_id": first}
            assert (await world.post(f"/preview/{preview['id']}/approve", approval)).status == 200
            await world.run(5)
            preview = await shop.preview()
        assert preview["state"] == "RUNNING"
        services = await shop.services(preview["preview_environment_id"])
        given = given_to(shop, services["web"]["id"])
        prefix = f"WINDLASS_JOB_Z{services['seed']['id'][:8].upper()}_"
        assert given[f"{prefix}PLAIN"] == "red"
        assert (f"{prefix}KEY" in given, "canary-output" in str(given)) == (not is_fork, not is_fork)


async def test_the_code_of_a_fork_is_not_copied_to_where_it_would_get_secrets():
    async with shop_of() as shop:
        await shop.make()
        approval = {"commit_id": await shop.open(12, "first", is_fork=True)}
        id = (await shop.preview())["id"]
        assert (await shop.world.post(f"/preview/{id}/approve", approval)).status == 200
        await shop.world.run(5)
        fork = (await shop.preview())["preview_environment_id"]
        web = (await shop.services(fork))["web"]["id"]
        for path, body in (
            (f"/environment/{fork}/clone", {"name": "copy", "mode": "STAGING"}),
            (f"/application/{web}/clone", {"name": "copy", "environment_id": shop.id}),
        ):
            answer = await shop.world.post(path, body)
            assert (answer.status, "fork" in answer.message) == (409, True), answer
        # A copy beside it has no secrets either, and the environment of the preview may be copied.
        beside = {"name": "copy", "environment_id": fork}
        assert (await shop.world.post(f"/application/{web}/clone", beside)).status == 202
        live = {"name": "copy", "mode": "STAGING"}
        assert (await shop.world.post(f"/environment/{shop.id}/clone", live)).status == 202


@pytest.mark.parametrize("action", ["redeploy", "deploy"])
@pytest.mark.parametrize("make", [GitHubWithPulls, BitbucketWithPulls])
async def test_a_deployment_by_hand_of_a_fork_builds_the_approved_commit_and_no_newer_one(make, action):
    async with shop_of(make) as shop:
        await shop.make()
        first = (await shop.open(12, "first", is_fork=True))[:12]
        shop.world.builder.broken = "this commit cannot be built"
        id = (await shop.preview())["id"]
        approval = {"commit_id": (await shop.preview())["commit_id"]}
        assert (await shop.world.post(f"/preview/{id}/approve", approval)).status == 200
        await shop.world.run(5)
        web = (await shop.services((await shop.preview())["preview_environment_id"]))["web"]["id"]
        await shop.open(12, "second")
        shop.world.git.push("second")
        assert (await shop.preview())["state"] == "WAITING_FOR_APPROVAL"
        writer = await shop.world.new_token("Write", "Deploy")
        answer = await shop.world.post(f"/application/{web}/{action}", {}, token=writer)
        assert answer.status == 202, answer
        await shop.world.run(5)
        built = [order.commit[:12] for order in shop.world.builder.built if order.service == web]
        assert built == [first, first]


async def test_a_pull_request_that_a_reader_has_pushed_into_the_repository_is_a_fork():
    async with shop_of(GiteaWithPulls) as shop:
        await shop.make()
        first = await shop.open(12, "first", is_agit=True)
        preview = await shop.preview()
        assert (preview["state"], preview["is_fork"]) == ("WAITING_FOR_APPROVAL", True)
        assert {*await shop.environments()} == {"live"}, "it was built without an approval"
        await shop.world.post(f"/preview/{preview['id']}/approve", {"commit_id": first})
        await shop.world.run(5)
        preview = await shop.preview()
        assert (preview["state"], preview["missing_secrets"]) == ("RUNNING", ["KEY", "PASSWORD"])
        await shop.open(13, "other")
        other = next(one for one in await shop.previews() if one["pull_request"] == 13)
        assert other["state"] == "RUNNING", "the control: a pull request of a branch waits for nobody"


async def test_a_commit_with_the_same_first_digits_is_not_built_after_an_approval_at_bitbucket():
    """Bitbucket lists 12 digits, for which a second commit is found within a minute."""
    async with shop_of(BitbucketWithPulls) as shop:
        await shop.make()
        good = await shop.open(12, "good", is_fork=True)
        preview = await shop.preview()
        assert (preview["state"], preview["commit_id"]) == ("WAITING_FOR_APPROVAL", good)
        evil = good[:12] + commit("evil")[12:]
        shop.server.pulls[12] = shop.server.pulls[12]._replace(commit=evil)
        await shop.deliver(12)
        path = f"/preview/{preview['id']}/approve"
        assert (await shop.world.post(path, {"commit_id": good[:12]})).status == 409
        assert (await shop.world.post(path, {"commit_id": good})).status == 200
        await shop.world.run(5)
        web = (await shop.services((await shop.preview())["preview_environment_id"]))["web"]["id"]
        assert [one["git_commit_id"] for one in await deployments(shop.world, web)] == [good]


async def test_a_preview_that_turns_out_to_be_of_a_fork_loses_its_environment_with_the_secrets():
    async with shop_of() as shop:
        await shop.make()
        first = await shop.open(12, "first")
        former = (await shop.preview())["preview_environment_id"]
        assert former
        await shop.open(12, "first", is_fork=True)
        await shop.world.run(20)
        preview = await shop.preview()
        assert preview["state"] == "WAITING_FOR_APPROVAL"
        assert {*await shop.environments()} == {"live"}
        await shop.world.post(f"/preview/{preview['id']}/approve", {"commit_id": first})
        await shop.world.run(5)
        preview = await shop.preview()
        assert (preview["state"], preview["missing_secrets"]) == ("RUNNING", ["KEY", "PASSWORD"])
        web = (await shop.services(preview["preview_environment_id"]))["web"]["id"]
        assert "canary" not in str(given_to(shop, web))


async def test_a_pull_request_of_the_repository_itself_has_the_secrets():
    async with shop_of() as shop:
        await shop.make()
        await shop.open(12, "first")
        web = (await shop.services((await shop.preview())["preview_environment_id"]))["web"]["id"]
        given = given_to(shop, web)
        assert {given["KEY"], given["PASSWORD"]} == {"canary-above", "canary-here"}


async def test_a_preview_on_demand_waits_for_its_label():
    async with shop_of() as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        assert await shop.previews() == []
        await shop.open(12, "first", labels=("preview",))
        assert (await shop.preview())["state"] == "RUNNING"


@pytest.mark.parametrize("hides", ["the rule", "the service", "the branch"])
async def test_a_pull_request_gets_no_preview_where_none_is_wanted(hides: str):
    async with shop_of() as shop:
        await shop.make()
        if hides == "the rule":
            await shop.rule(auto_preview=False)
        if hides == "the service":
            await shop.world.patch(f"/application/{shop.web}", {"auto_preview": False})
        await shop.open(12, "first", target="next" if hides == "the branch" else "main")
        assert await shop.previews() == []
        newest = (await pushes(shop.world, shop.web))[0]
        wanted = "NO_PREVIEWS" if hides == "the rule" else "PULL_REQUESTS_LOOKED_AT"
        assert (newest["result"], "#12" in newest["message"]) == (wanted, True)


async def test_a_git_server_that_never_answers_ends_a_look_and_a_comment_in_time(monkeypatch):
    """Branches of all organizations wait for what previews hold."""
    monkeypatch.setattr(pull_request_work, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(preview_comments, "TELL_SECONDS", 0.05)
    async with shop_of() as shop:
        await shop.make()

        plain, silent = shop.server.send, "/pulls"

        async def send(method: str, url: str, *rest: Any, **more: Any) -> HttpResult:
            if silent in url:
                await asyncio.Event().wait()
            return await plain(method, url, *rest, **more)

        monkeypatch.setattr(shop.server, "send", send)
        await shop.open(12, "first")
        assert await shop.previews() == []
        silent = "/comments"
        await shop.deliver(12)
        preview = await shop.preview()
        assert (preview["state"], "takes too long" in preview["problem"]) == ("RUNNING", True)
        silent = "nothing"
        await shop.world.run(70)
        preview = await shop.preview()
        assert preview["problem"] == "", "the control"
        assert preview["address"] in shop.server.text(12)


async def test_a_closed_pull_request_is_found_although_no_webhook_came():
    async with shop_of() as shop:
        await shop.make()
        shop.server.open(12, "first")
        await shop.world.run(70)
        assert (await shop.preview())["state"] == "RUNNING"
        shop.server.close_pull(12)
        await shop.world.run(80)
        assert (await shop.previews(), {*await shop.environments()}) == ([], {"live"})


async def test_a_project_has_a_limited_number_of_previews():
    async with shop_of(previews_of_project=1) as shop:
        await shop.make()
        await shop.open(12, "first")
        await shop.open(13, "other")
        states = {one["pull_request"]: one["state"] for one in await shop.previews()}
        assert states == {12: "RUNNING", 13: "WAITING_FOR_ROOM"}
        assert "as many previews as it may have" in shop.server.text(13)
        shop.server.close_pull(12)
        await shop.deliver(12)
        await shop.world.run(70)
        assert (await shop.preview())["state"] == "RUNNING"


async def test_a_quiet_preview_is_stopped_and_later_deleted():
    async with shop_of(preview_quiet_hours=1, preview_days=1) as shop:
        await shop.make()
        await shop.open(12, "first")
        shop.world.clock.turn(3700)
        await shop.world.run(10)
        assert (await shop.preview())["state"] == "STOPPED"
        second = await shop.open(12, "second")
        preview = await shop.preview()
        assert (preview["state"], preview["deployed_commit_id"]) == ("RUNNING", second)
        shop.world.clock.turn(25 * 3600)
        await shop.world.run(20)
        assert (await shop.preview())["state"] == "ENDED"
        assert {*await shop.environments()} == {"live"}
        await shop.open(12, "third")
        assert (await shop.preview())["state"] == "RUNNING", "a new commit makes it again"


async def test_a_preview_of_a_branch_is_made_by_hand_and_deleted_by_hand():
    async with shop_of() as shop:
        await shop.make(auto_preview=False)
        made = await shop.world.post(f"/environment/{shop.id}/preview", {"branch": "fix/colours"})
        assert (made.status, made["name"]) == (201, "live-fix-colours")
        await shop.world.run(5)
        preview = await shop.preview()
        assert (preview["state"], preview["commit_id"]) == ("RUNNING", shop.world.git.newest)
        second = shop.world.git.push("second")
        await shop.world.run(70)
        assert (await shop.preview())["deployed_commit_id"] == second
        assert (await shop.world.delete(f"/preview/{preview['id']}")).status == 204
        await shop.world.run(20)
        assert (await shop.previews(), {*await shop.environments()}) == ([], {"live"})


async def test_a_preview_that_was_deleted_by_hand_is_not_made_again_by_itself():
    async with shop_of() as shop:
        await shop.make()
        await shop.open(12, "first")
        await shop.world.delete(f"/preview/{(await shop.preview())['id']}")
        assert "is deleted" in shop.server.text(12)
        await shop.open(12, "second")
        assert (await shop.previews(), {*await shop.environments()}) == ([], {"live"})
        asked = await shop.world.post(f"/environment/{shop.id}/preview", {"pull_request": 12})
        assert asked.status == 201
        await shop.world.run(30)
        assert (await shop.preview())["state"] == "RUNNING"


async def test_the_previews_of_a_deleted_environment_are_deleted():
    async with shop_of() as shop:
        await shop.make()
        await shop.open(12, "first")
        await shop.world.delete(f"/environment/{shop.id}")
        await shop.world.run(330)
        assert await shop.environments() == {}


async def test_a_webhook_without_pull_requests_is_told_and_repaired():
    async with shop_of() as shop:
        await shop.make()
        sync, status = f"/service/{shop.web}/gitWebhook/sync", f"/service/{shop.web}/gitWebhookStatus"
        assert (await shop.world.post(sync))["status"] == "ACTIVE"
        shop.server.hooks[0]["events"] = ["push"]
        told = await shop.world.get(status)
        assert (told["status"], told["missing_events"]) == (
            "MISCONFIGURED",
            ["pull_request", "issue_comment"],
        )
        await shop.rule(auto_preview=False)
        assert (await shop.world.get(status))["status"] == "ACTIVE", "without previews, pushes are enough"
        shop.server.hooks[0]["events"] = ["push", "pull_request"]
        await shop.rule(auto_preview=True)
        told = await shop.world.get(status)
        assert (told["status"], told["missing_events"]) == ("MISCONFIGURED", ["issue_comment"])
        assert "commands in comments" in told.message, "webhooks from before the commands are told, too"
        assert (await shop.world.post(sync))["status"] == "ACTIVE"


async def test_a_git_server_that_refuses_a_comment_fails_no_preview():
    async with shop_of() as shop:
        await shop.make()
        shop.server.wrong = lambda request: (
            None if request.method == "GET" else answer(403, {"message": "Resource not accessible"})
        )
        await shop.open(12, "first")
        preview = await shop.preview()
        assert preview["state"] == "RUNNING"
        assert "Resource not accessible" in preview["problem"]
        shop.server.wrong = lambda request: None
        await shop.world.run(70)
        assert (await shop.preview())["problem"] == ""
        assert "RUNNING" in shop.server.text(12)


async def test_a_token_turns_previews_on_only_where_it_may_create_environments():
    async with shop_of() as shop:
        await shop.make(auto_preview=False)
        world = shop.world
        limited = await world.new_token("Admin", limited_to=[shop.id])
        rule = f"/environment/{shop.id}/deploymentRule/current"
        assert (await world.put(rule, {"auto_preview": True}, token=limited)).status == 403
        branch = {"branch": "colours"}
        path = f"/environment/{shop.id}/preview"
        assert (await world.post(path, branch, token=limited)).status == 403
        writer = await world.new_token("Write")
        assert (await world.put(rule, {"auto_preview": True}, token=writer)).status == 403
        both = await world.new_token("Write", "Deploy")
        assert (await world.put(rule, {"auto_preview": True}, token=both)).status == 200
        assert (await world.post(path, branch, token=both)).status == 403
        assert (await world.post(path, branch)).status == 201


@pytest.mark.parametrize("point", ["pull requests looked at", "preview advanced", "pull request told"])
async def test_a_killed_server_leaves_no_environment_and_writes_no_second_comment(
    point: str,
):
    async with shop_of() as shop:
        await shop.make()
        server, world = shop.server, shop.world
        force_setattr(world.installation.ctx, "point", Kill(point))
        server.open(12, "first")
        await world.run(100)
        assert (await shop.preview())["state"] == "RUNNING"
        assert len(server.comments[12]) == 1
        assert {*await shop.environments()} == {"live", "live-pr-12"}
