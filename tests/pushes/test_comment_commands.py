"""Commands in comments of pull requests: who may give them, and what they do."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import force_setattr

from tests.pushes.deliveries import pushes
from tests.pushes.previewed import Shop, shop_of
from tests.pushes.pull_requests import GiteaWithPulls, GitHubWithPulls, GitLabWithPulls, WithPulls
from tests.pushes.test_previews import Kill

SERVERS = (GitHubWithPulls, GiteaWithPulls, GitLabWithPulls)


async def say(
    shop: Shop, text: str, author: str = "ada", number: int = 12, announced: str = "", result: str = "COMMENT"
) -> str:
    """Somebody comments on a pull request, and what follows is done. Returns the id of the comment."""
    id = shop.server.say(number, text, author)
    await tell(shop, id, announced or text, number, result)
    return id


async def tell(shop: Shop, id: str, text: str, number: int = 12, result: str = "COMMENT") -> None:
    body, headers = shop.server.comment_delivery(shop.to.secret, number, id, text)
    answer = await shop.world.call("POST", shop.to.path, raw=body, headers=headers, token=None)
    assert answer["result"] == result, answer
    await shop.world.run(10)


async def newest(shop: Shop) -> dict[str, Any]:
    return dict((await pushes(shop.world, shop.web))[0])


@pytest.mark.parametrize("make", SERVERS)
async def test_a_writer_makes_stops_starts_and_deletes_a_preview_with_comments(make: type[WithPulls]):
    async with shop_of(make) as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        assert await shop.previews() == [], "it has no label"
        await say(shop, "/windlass preview\nplease")
        assert (await shop.preview())["state"] == "RUNNING"
        assert (await newest(shop))["result"] == "COMMAND_DONE"
        await say(shop, "/windlass stop")
        assert (await shop.preview())["state"] == "STOPPED"
        await say(shop, "/windlass preview")
        assert (await shop.preview())["state"] == "RUNNING"
        await say(shop, "/windlass delete")
        await shop.world.run(20)
        assert (await shop.previews(), {*await shop.environments()}) == ([], {"live"})
        assert "deleted" in shop.server.text(12)


@pytest.mark.parametrize("make", SERVERS)
async def test_a_comment_of_somebody_who_may_not_write_does_nothing(make: type[WithPulls]):
    async with shop_of(make) as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        await say(shop, "/windlass preview", "eve")
        assert await shop.previews() == []
        told = await newest(shop)
        assert (told["result"], "may not write" in told["message"]) == ("COMMAND_REFUSED", True)
        assert not shop.server.comments, "strangers cause no comments"
        await say(shop, "/windlass preview")
        assert len(await shop.previews()) == 1, "the control"
        await say(shop, "/windlass delete", "eve")
        assert len(await shop.previews()) == 1


async def test_the_comment_counts_as_the_git_server_has_it_and_not_as_it_was_announced():
    async with shop_of() as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        await shop.open(13, "other")
        await say(shop, "hello", announced="/windlass preview")
        assert (await newest(shop))["result"] == "COMMAND_REFUSED"
        id = shop.server.say(13, "/windlass preview")
        await tell(shop, id, "/windlass preview", number=12)
        await tell(shop, "9999", "/windlass preview")
        assert await shop.previews() == []
        assert {one["result"] for one in await pushes(shop.world, shop.web)} >= {"COMMAND_REFUSED"}


@pytest.mark.parametrize("text", ["hello", "please /windlass preview", "/windlass", "/windlass explode now"])
async def test_a_comment_without_a_command_does_nothing(text: str):
    async with shop_of() as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        await say(shop, text, result="COMMENT" if text.startswith("/") else "OTHER_EVENT")
        assert await shop.previews() == []


async def test_a_command_is_carried_out_once():
    async with shop_of() as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        id = await say(shop, "/windlass preview")
        await say(shop, "/windlass stop")
        await tell(shop, id, "/windlass preview")
        assert (await shop.preview())["state"] == "STOPPED"
        told = await newest(shop)
        assert (told["result"], "before" in told["message"]) == ("COMMAND_REFUSED", True)


async def test_a_command_makes_no_preview_where_the_environment_has_them_off():
    async with shop_of() as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        await shop.rule(on_demand_preview=False)
        await say(shop, "/windlass preview")
        assert await shop.previews() == []
        assert "previews on" in (await newest(shop))["message"]


async def test_a_command_builds_no_fork_without_an_approval():
    async with shop_of() as shop:
        await shop.make(on_demand_preview=True)
        first = await shop.open(12, "first", is_fork=True)
        await say(shop, "/windlass preview")
        preview = await shop.preview()
        assert preview["state"] == "WAITING_FOR_APPROVAL"
        assert {*await shop.environments()} == {"live"}, "it was built without an approval"
        path = f"/preview/{preview['id']}/approve"
        assert (await shop.world.post(path, {"commit_id": first})).status == 200
        await shop.world.run(8)
        second = await shop.open(12, "second")
        await say(shop, "/windlass preview")
        preview = await shop.preview()
        assert (preview["state"], preview["deployed_commit_id"]) == ("WAITING_FOR_APPROVAL", first)
        built = {order.commit[:12] for order in shop.world.builder.built}
        assert second[:12] not in built


async def test_a_command_that_a_killed_server_has_read_is_carried_out_later():
    async with shop_of() as shop:
        await shop.make(on_demand_preview=True)
        await shop.open(12, "first")
        force_setattr(shop.world.installation.ctx, "point", Kill("comment read"))
        await say(shop, "/windlass preview")
        await shop.world.run(100)
        assert (await shop.preview())["state"] == "RUNNING"
        assert len(shop.server.comments[12]) == 1
