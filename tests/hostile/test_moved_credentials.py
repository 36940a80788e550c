"""Attacks that moved a credential to another host are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from tests.hostile.credentials import CANARY, git_ground, listening, webhook_ground
from tests.tables import rows
from tests.world import World, make_world
from windlass.store import Row


async def stored_elsewhere(world: World, app: str, url: str) -> None:
    """As an earlier version would have stored it."""

    async def change(tx: Any) -> None:
        row: Row = await tx.resources.get(app)
        document = msgspec.json.decode(row.body)
        document["git_repository"]["url"] = url
        await tx.resources.rewrite(row.id, msgspec.json.encode(document))

    await world.installation.ctx.store.write(change)


async def test_a_repository_address_stored_before_the_rule_gets_no_git_token(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        ground = await git_ground(world, ears)
        app = ground.paths["application"]
        await stored_elsewhere(world, app.rpartition("/")[2], ears.elsewhere.url(path="/acme/shop.git"))
        answer = await world.get(f"{app}/commit")
        assert answer.status == 409
        assert "git_repository.git_token_id: this git token is for 127.0.0.1" in answer.message
        deployment = (await world.post(f"{app}/deploy"))["id"]
        await world.settle()
        shown = await world.get(f"{app}/deployment/{deployment}")
        assert shown["status"] == "FAILED"
        assert "git_token_id" in shown["message"]
        assert not ears.elsewhere.requests
        # The rest of the application can still be changed.
        assert (await world.put(app, {"cpu": 600})).status == 200


async def test_a_repository_on_another_host_than_its_git_token_is_refused_with_advice(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        ground = await git_ground(world, ears)
        url = ears.elsewhere.url(path="/acme/shop.git")
        repository = (await world.get(ground.paths["application"]))["git_repository"]
        sent = {"url": url, "git_token_id": repository["git_token_id"]}
        answer = await world.put(ground.paths["application"], {"git_repository": sent})
        assert answer.status == 400
        assert answer.message == (
            f"git_repository.git_token_id: this git token is for 127.0.0.1:{ears.own.port}, "
            f"and the repository is on 127.0.0.1:{ears.elsewhere.port}: choose a git token "
            f"whose git_api_url is on 127.0.0.1:{ears.elsewhere.port}, or none"
        )
        without = {"git_repository": {"url": url, "git_token_id": None}}
        assert (await world.put(ground.paths["application"], without)).status == 200


@rows(
    ("type", "api", "url", "sent"),
    [
        ("GITHUB", None, "https://github.com/acme/shop.git", True),
        ("GITHUB", None, "https://GitHub.com./acme/shop", True),
        ("GITHUB", None, "https://github.com:443/acme/shop", True),
        ("GITHUB", None, "https://github.com:8443/acme/shop", False),
        ("GITHUB", None, "https://github.com.evil.example/acme/shop", False),
        ("GITHUB", None, "https://github.com@evil.example/acme/shop", False),
        ("GITHUB", None, "https://evil.example/github.com/shop", False),
        ("GITHUB", None, "https://gitlab.com/acme/shop", False),
        ("GITHUB", None, "https://gist.github.com/acme/shop", False),
        ("GITHUB", None, "git://github.com/acme/shop", False),
        ("GITHUB", "https://git.acme.example/api/v3", "https://git.acme.example/acme/shop", True),
        ("GITHUB", "https://git.acme.example/api/v3", "https://github.com/acme/shop", False),
        ("GITHUB", "https://api.acme.ghe.com", "https://acme.ghe.com/acme/shop", True),
        ("GITHUB", "https://api.acme.ghe.com", "https://other.ghe.com/acme/shop", False),
        ("GITLAB", None, "https://gitlab.com/acme/shop", True),
        ("GITLAB", "https://[2001:db8::7]:8443/api/v4", "https://[2001:DB8:0::7]:8443/acme/shop", True),
        ("BITBUCKET", None, "https://bitbucket.org/acme/shop", True),
    ],
)
async def test_a_git_token_may_be_used_only_for_repositories_on_its_host(
    type: str, api: str | None, url: str, sent: bool
):
    async with make_world() as world:
        body = {"name": "g", "type": type, "token": CANARY, "workspace": "acme"}
        body |= {"git_api_url": api} if api else {}
        token = await world.made(f"/organization/{world.org}/gitToken", body)
        environment = await world.environment()
        repository = {"url": url, "git_token_id": token}
        application = {"name": "a", "git_repository": repository}
        answer = await world.post(f"/environment/{environment}/application", application)
        assert answer.status == (201 if sent else 400), answer
        assert sent or answer.message.startswith("git_repository.git_token_id: ")


async def test_a_limited_token_cannot_change_the_address_of_a_repository_with_a_git_token(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        ground = await git_ground(world, ears)
        app = ground.paths["application"]
        limited = await world.new_token("Write", limited_to=[app.rpartition("/")[2]])
        assert (await world.get(f"/organization/{world.org}/gitToken", token=limited))["results"] == []
        repository = (await world.get(app, token=limited))["git_repository"]
        kept = {"url": repository["url"], "git_token_id": repository["git_token_id"]}
        another = kept | {"url": ears.own.url(path="/acme/other.git")}
        answer = await world.put(app, {"git_repository": another}, token=limited)
        assert (answer.status, answer.message.partition(":")[0]) == (403, "git_repository.url")
        # What it does not change, it may send back; and it may go on without the git token.
        assert (await world.put(app, {"git_repository": kept, "cpu": 600}, token=limited)).status == 200
        without = another | {"git_token_id": None}
        assert (await world.put(app, {"git_repository": without}, token=limited)).status == 200


async def test_changing_the_host_of_a_git_token_requires_its_value(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await git_ground(world, ears)).paths["gitToken"]
        for change in ({"git_api_url": ears.elsewhere.url(path="/api")}, {"type": "GITLAB"}):
            answer = await world.put(path, change)
            assert (answer.status, answer.message.partition(":")[0]) == (400, "token")
            assert (await world.put(path, change | {"token": "another"})).status == 200
        assert (await world.put(path, {"description": "for builds"})).status == 200


async def test_changing_the_address_of_a_webhook_requires_its_secret(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await webhook_ground(world, ears, send_secret=False)).paths["webhook"]
        write = await world.new_token("Write")
        for change in (
            {"target_url": ears.elsewhere.url()},
            {"target_url": ears.own.url(path="/other")},
            {"send_secret": True},
        ):
            answer = await world.put(path, change, token=write)
            assert (answer.status, answer.message.partition(":")[0]) == (400, "target_secret")
        # It can be said again, or given up; and what does not move it asks for nothing.
        moved = {"target_url": ears.elsewhere.url(), "target_secret": "another one"}
        assert (await world.put(path, moved, token=write)).status == 200
        assert (await world.put(path, {"target_url": ears.own.url(), "target_secret": ""})).status == 200
        assert (await world.get(path))["target_secret_set"] is False
        assert (await world.put(path, {"enabled": False, "send_secret": False})).status == 200


async def test_the_old_secret_during_a_rotation_signs_nothing_for_a_new_address(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await webhook_ground(world, ears, send_secret=False)).paths["webhook"]
        await world.post(f"{path}/rotateSecret", {"target_secret": "the second", "overlap_in_hours": 24})
        await world.post(f"{path}/test")
        await world.settle()
        moved = {"target_url": ears.elsewhere.url(), "target_secret": "the third"}
        assert (await world.put(path, moved)).status == 200
        await world.post(f"{path}/test")
        await world.settle()
        assert [signatures(one.requests[-1]) for one in (ears.own, ears.elsewhere)] == [2, 1]


def signatures(request: bytes) -> int:
    found = re.search(rb"webhook-signature: (.*)\r\n", request, re.IGNORECASE)
    return len(found[1].split()) if found else 0


async def test_deliveries_are_not_replayed_after_the_webhook_address_changed(tmp_path: Path):
    async with listening(tmp_path) as (world, ears):
        path = (await webhook_ground(world, ears)).paths["webhook"]
        first = (await world.post(f"{path}/test"))["id"]
        await world.settle()
        waiting = await world.post(f"{path}/test")
        moved = {"target_url": ears.elsewhere.url(), "target_secret": "another one"}
        assert (await world.put(path, moved)).status == 200
        answer = await world.post(f"{path}/replay", {"event_id": first})
        assert (answer.status, answer.message.partition(":")[0]) == (409, "event_id")
        assert (await world.post(f"{path}/replay", {"only_failed": False}))["replayed"] == 0
        await world.settle()
        assert not [one for one in ears.elsewhere.requests if one.startswith(b"POST")]
        listed = {one["id"]: one["status"] for one in (await world.get(f"{path}/event"))["results"]}
        assert listed == {first: "DELIVERED", waiting["id"]: "FAILED"}
        # Back at the first address, both can be replayed.
        assert (await world.put(path, {"target_url": ears.own.url(), "target_secret": CANARY})).status == 200
        assert (await world.post(f"{path}/replay", {"event_id": first}))["replayed"] == 1
