"""Webhooks of git servers: a push deploys at once, and never more than the look at the branch would."""

from __future__ import annotations

import json

import pytest

from tests.pushes.deliveries import (
    Address,
    as_form,
    bitbucket,
    bitbucket_push,
    forgejo,
    gitea,
    github,
    gitlab,
    push,
    pushes,
    results,
    send,
    webhook,
)
from tests.running.deployments import deployed, deployments
from tests.world import World
from windlass.control.services import push_intake
from windlass.sources.git_servers.repositories import repository_key
from windlass.store.tables.git_webhooks import GitWebhookRow

HOUR = 3600


async def commits(world: World, service: str) -> list[str]:
    return [one["git_commit_id"] for one in await deployments(world, service)]


async def test_a_push_is_deployed_at_once(world: World):
    app = await deployed(world, auto_deploy=True)
    to, first = await webhook(world, app), world.git.newest
    second = world.git.push("second")
    await world.settle()
    assert await commits(world, app) == [first], "the branch was looked at without a webhook"
    answer = await send(world, to, push(second))
    assert (answer.status, answer["result"]) == (202, "RECEIVED")
    await world.settle()
    assert await commits(world, app) == [second, first]
    [entry] = await pushes(world, app)
    assert entry["result"] == "DEPLOYED"
    assert entry["found_by"] == "WEBHOOK"
    assert (entry["branch"], entry["commit_id"], entry["event"]) == ("main", second, "push")


async def test_a_push_of_a_service_that_was_never_deployed_says_so(world: World):
    repository = {"url": "https://git.example/acme/shop.git", "branch": "main"}
    environment = await world.environment(await world.project())
    app = await world.application(environment, auto_deploy=True, git_repository=repository)
    to = await webhook(world, app)
    await send(world, to, push(world.git.push("second")))
    await world.settle()
    assert await results(world, app) == ["NOT_RUNNING"]
    assert await commits(world, app) == []


@pytest.mark.parametrize(
    ("sign", "body_of"),
    [(github, push), (gitea, push), (forgejo, push), (gitlab, push), (bitbucket, bitbucket_push)],
    ids=["github", "gitea", "forgejo", "gitlab", "bitbucket"],
)
async def test_each_git_server_is_understood_and_its_signature_checked(world: World, sign, body_of):
    app = await deployed(world, auto_deploy=True)
    to, first = await webhook(world, app), world.git.newest
    second = world.git.push("second")
    body = body_of(second)
    wrong = await send(world, to, body, headers=sign("another secret", body))
    assert wrong.status == 401
    await world.settle()
    assert await commits(world, app) == [first]
    assert await results(world, app) == ["WRONG_SIGNATURE"]
    assert (await send(world, to, body, headers=sign(to.secret, body))).status == 202
    await world.settle()
    assert await commits(world, app) == [second, first]
    assert set(await results(world, app)) == {"DEPLOYED", "WRONG_SIGNATURE"}


async def test_a_changed_body_and_a_missing_signature_are_refused(world: World):
    app = await deployed(world, auto_deploy=True)
    to = await webhook(world, app)
    signed = github(to.secret, push(world.git.newest))
    assert (await send(world, to, push("f" * 40), headers=signed)).status == 401
    assert (await send(world, to, push("f" * 40), headers={"x-github-event": "push"})).status == 401
    short = {"x-github-event": "push", "x-hub-signature": "sha1=" + "0" * 40}
    assert (await send(world, to, push("f" * 40), headers=short)).status == 401
    told = {entry["result"]: entry["times"] for entry in await pushes(world, app)}
    assert told == {"WRONG_SIGNATURE": 1, "NO_SIGNATURE": 2}


async def test_an_unknown_address_answers_like_a_wrong_signature(world: World):
    app = await deployed(world)
    known, body = await webhook(world, app), push("f" * 40)
    unknown = Address("/git-webhook/" + "0" * 32, known.secret)
    there = await send(world, known, body, headers=github("wrong", body))
    nowhere = await send(world, unknown, body)
    assert (there.status, there.message) == (nowhere.status, nowhere.message)
    assert (await send(world, Address("/git-webhook/x", ""), body)).message == there.message


async def test_deliveries_do_not_use_up_the_requests_of_the_sender_s_address(world: World):
    app = await deployed(world)
    to = await webhook(world, app)
    first, second = [await send(world, to, push("f" * 40)) for _ in range(2)]
    left = "x-ratelimit-remaining"
    assert first.headers[left] == second.headers[left]
    unknown = Address("/git-webhook/" + "0" * 32, "")
    answers = [await send(world, unknown, b"{}") for _ in range(2)]
    assert int(answers[1].headers[left]) == int(answers[0].headers[left]) - 1, "guesses are counted"


async def test_a_payload_deploys_nothing_that_the_repository_does_not_have(world: World):
    app = await deployed(world, auto_deploy=True)
    to, first = await webhook(world, app), world.git.newest
    await send(world, to, push("f" * 40))
    await world.settle()
    assert await commits(world, app) == [first]
    [entry] = await pushes(world, app)
    assert entry["result"] == "OTHER_COMMIT"
    assert first[:12] in entry["message"]


async def test_the_list_of_pushes_says_that_the_branch_cannot_be_read(world: World):
    """As after the git token has expired. The commit is deployed as soon as the branch can be read."""
    app = await deployed(world, auto_deploy=True)
    to, second = await webhook(world, app), world.git.push("second")
    world.git.broken = "Check the git token: the git server refuses it."
    await send(world, to, push(second))
    await world.settle()
    [entry] = await pushes(world, app)
    assert (entry["result"], world.git.broken in entry["message"]) == ("RECEIVED", True)
    world.git.broken = ""
    world.clock.turn(HOUR)
    await world.settle()
    [entry] = await pushes(world, app)
    assert (entry["result"], entry["message"]) == ("DEPLOYED", "The commit is deployed")


async def test_the_list_of_pushes_says_why_a_push_deployed_nothing(world: World):
    app = await deployed(world, auto_deploy=True, watch_paths=["web/**"])
    off = await deployed(world)
    to, first = await webhook(world, app), world.git.newest
    await send(world, to, push("e" * 40, "next"))
    await world.settle()
    assert await results(world, app) == ["OTHER_BRANCH"]
    second = world.git.push("second", "docs/readme.md")
    world.clock.turn(5)
    await send(world, to, push(second))
    await world.settle()
    assert (await results(world, app))[0] == "NO_WATCHED_PATH"
    world.clock.turn(5)
    await send(world, to, push(second))
    await world.settle()
    newest = (await pushes(world, app))[0]
    assert newest["result"] == "ALREADY_KNOWN"
    assert "before" in newest["message"]
    assert await results(world, off) == ["AUTO_DEPLOY_OFF"] * 3
    assert await commits(world, app) == [first]


async def test_a_stopped_service_stays_stopped(world: World):
    app = await deployed(world, auto_deploy=True)
    to = await webhook(world, app)
    await world.post(f"/application/{app}/stop")
    await world.settle()
    await send(world, to, push(world.git.push("second")))
    await world.settle()
    assert await world.state(f"/application/{app}") == "STOPPED"
    assert await results(world, app) == ["NOT_RUNNING"]


async def test_a_push_without_a_webhook_is_found_by_the_regular_check_and_listed(world: World):
    app = await deployed(world, auto_deploy=True)
    second = world.git.push("second")
    await world.settle()
    world.clock.turn(61)
    await world.settle()
    [entry] = await pushes(world, app)
    assert (entry["found_by"], entry["result"], entry["commit_id"]) == ("LOOKING", "DEPLOYED", second)
    assert "no webhook came, found by looking" in entry["message"]


async def test_one_webhook_serves_all_services_of_the_repository(world: World):
    one, two = await deployed(world, auto_deploy=True), await deployed(world, auto_deploy=True)
    git = {"url": "https://git.example/acme/other.git", "branch": "main"}
    other = await deployed(world, auto_deploy=True, git_repository=git)
    to = await webhook(world, one)
    second = world.git.push("second")
    await send(world, to, push(second))
    await world.settle()
    assert [len(await commits(world, app)) for app in (one, two, other)] == [2, 2, 1]
    assert (await world.get(f"/service/{two}/gitWebhook"))["url"].endswith(to.path)
    assert "url" not in (await world.get(f"/service/{other}/gitWebhook")).json


async def test_a_repeated_delivery_is_counted_and_not_passed_on_again(world: World):
    app = await deployed(world, auto_deploy=True)
    to, second = await webhook(world, app), world.git.push("second")
    for _ in range(3):
        assert (await send(world, to, push(second), delivery="d-1")).status == 202
        await world.settle()
        world.clock.turn(5)
    assert await results(world, app) == ["DEPLOYED"]
    await send(world, to, push(second), delivery="d-2")
    await world.settle()
    assert await results(world, app) == ["ALREADY_KNOWN", "DEPLOYED"]
    assert len(await commits(world, app)) == 2


async def test_many_pushes_at_once_are_one_deployment_of_the_newest_commit(world: World):
    app = await deployed(world, auto_deploy=True)
    to = await webhook(world, app)
    for number in range(20):
        newest = world.git.push(f"push {number}")
        await send(world, to, push(newest), delivery=f"d-{number}")
    await world.settle()
    world.clock.turn(5)
    await world.settle()
    assert (await commits(world, app))[0] == newest
    assert len(await commits(world, app)) == 2


async def test_other_events_are_accepted_and_listed_with_their_kind(world: World):
    app = await deployed(world, auto_deploy=True)
    to, first = await webhook(world, app), world.git.newest
    assert (await send(world, to, b"{}", event="ping"))["result"] == "PING"
    assert (await send(world, to, b"{}", event="issues"))["result"] == "OTHER_EVENT"
    tag = json.dumps({"ref": "refs/tags/v1", "after": "f" * 40}).encode()
    removed = json.dumps({"ref": "refs/heads/main", "after": "0" * 40}).encode()
    for body in (tag, removed):
        assert (await send(world, to, body))["result"] == "NO_BRANCH"
    world.git.push("second")
    await world.settle()
    assert await commits(world, app) == [first]
    assert sorted(await results(world, app)) == ["NO_BRANCH", "NO_BRANCH", "OTHER_EVENT", "PING"]


async def test_json_inside_a_form_is_understood(world: World):
    app = await deployed(world, auto_deploy=True)
    to, second = await webhook(world, app), world.git.push("second")
    body = as_form(push(second, "next"))
    headers = github(to.secret, body) | {"content-type": "application/x-www-form-urlencoded"}
    await send(world, to, body, headers=headers)
    await world.settle()
    assert await results(world, app) == ["OTHER_BRANCH"]


async def test_a_body_of_25_mib_is_taken_and_a_larger_one_refused(world: World):
    app = await deployed(world, auto_deploy=True)
    to, second = await webhook(world, app), world.git.push("second")
    most = push_intake.MAX_BODY_BYTES - len(push(second, filling=""))
    assert (await send(world, to, push(second, filling="x" * most))).status == 202
    await world.settle()
    assert await results(world, app) == ["DEPLOYED"]
    assert (await send(world, to, push(second, filling="x" * (most + 1)))).status == 413


async def test_an_unreadable_payload_causes_a_check_of_every_branch(world: World):
    app = await deployed(world, auto_deploy=True)
    to, second = await webhook(world, app), world.git.push("second")
    for body in (b"[" * 100_000, b'{"ref": 7}', b"\xff", b""):
        assert (await send(world, to, body)).status == 202
        world.clock.turn(5)
        await world.settle()
    assert await commits(world, app) == [second, (await commits(world, app))[-1]]
    assert await results(world, app) == ["ALREADY_KNOWN"] * 3 + ["DEPLOYED"]


async def test_deliveries_of_one_webhook_have_a_limit_of_their_own(world: World, monkeypatch):
    one = await deployed(world)
    git = {"url": "https://git.example/acme/other.git", "branch": "main"}
    to, other = await webhook(world, one), await webhook(world, await deployed(world, git_repository=git))
    intake = world.installation.app._git_webhooks._intake
    with intake.place(await stored(world, to)):
        monkeypatch.setattr(push_intake, "MAX_DELIVERIES_OF_WEBHOOK", 1)
        answer = await send(world, to, b"{}", event="ping")
        assert answer.status == 429
        assert answer.headers["retry-after"] == "5"
        assert (await send(world, other, b"{}", event="ping")).status == 200
    assert (await send(world, to, b"{}", event="ping")).status == 200, "the control"


async def stored(world: World, to: Address) -> GitWebhookRow:
    row = await world.installation.ctx.store.reads.git_webhooks.get(to.path.rpartition("/")[2])
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("limit", "place"), [("MAX_DELIVERIES", "place"), ("MAX_LARGE_DELIVERIES", "large_place")]
)
async def test_the_webhooks_of_one_organization_leave_room_for_another(
    world: World, monkeypatch, limit: str, place: str
):
    """The number of webhooks of an organization is its own choice."""
    git = {"url": "https://git.example/acme/other.git", "branch": "main"}
    own = [await deployed(world), await deployed(world, git_repository=git)]
    addresses = [await webhook(world, app) for app in own]
    world.org, world.token = await world.organization()
    theirs = await webhook(world, await deployed(world))
    monkeypatch.setattr(push_intake, limit, 4)
    hold = getattr(world.installation.app._git_webhooks._intake, place)
    body = b"{}" if place == "place" else b" " * (push_intake.MAX_SMALL_BODY_BYTES + 1)
    with hold(await stored(world, addresses[0])), hold(await stored(world, addresses[0])):
        assert (await send(world, addresses[1], body, event="ping")).status == 429
        assert (await send(world, theirs, body, event="ping")).status == 200
    assert (await send(world, addresses[1], body, event="ping")).status == 200, "the control"


async def test_a_new_secret_ends_the_former_one_and_a_removed_webhook_its_address(world: World):
    app = await deployed(world)
    former = await webhook(world, app)
    to = await webhook(world, app)
    assert to.path == former.path
    assert to.secret != former.secret
    assert (await send(world, former, b"{}", event="ping")).status == 401
    assert (await send(world, to, b"{}", event="ping")).status == 200
    assert "secret" not in (await world.get(f"/service/{app}/gitWebhook")).json
    assert (await world.delete(f"/service/{app}/gitWebhook")).status == 204
    assert (await send(world, to, b"{}", event="ping")).status == 401


async def test_the_account_of_a_webhook_is_bounded(world: World):
    app = await deployed(world, auto_deploy=True)
    to = await webhook(world, app)
    for number in range(120):
        await send(world, to, push("f" * 40, "next"), delivery=f"d-{number}")
        world.clock.turn(2)
        await world.settle()
    assert len(await pushes(world, app)) == 100
    rows = await world.installation.ctx.store.reads.session.all("SELECT count(*) FROM git_push")
    assert rows[0][0] <= 200


async def test_another_organization_has_a_webhook_of_its_own(world: World):
    app = await deployed(world, auto_deploy=True)
    to = await webhook(world, app)
    org, token = await world.organization()
    mine, world.org, world.token = world.org, org, token
    other = await deployed(world, auto_deploy=True)
    assert (await webhook(world, other)).path != to.path
    assert (await world.get(f"/service/{app}/gitPush")).status == 404
    assert mine != org


def test_addresses_of_one_repository_have_one_key():
    same = [
        "https://GitHub.com/acme/shop.git",
        "https://github.com/acme/Shop",
        "git@github.com:acme/shop.git",
        "ssh://git@github.com:22/acme/shop/",
    ]
    assert {repository_key(url) for url in same} == {"github.com/acme/shop"}
    assert repository_key("https://github.com/acme/shop2") != "github.com/acme/shop"
    assert repository_key("https://git.example:3000/a/b") != repository_key("https://git.example/a/b")


async def test_a_token_for_some_services_of_a_repository_cannot_take_its_webhook_over(world: World):
    app = await deployed(world, auto_deploy=True)
    to = await webhook(world, app)
    await send(world, to, b"{}")  # a delivery that is no push of a service
    play = await world.environment()
    own = await world.application(environment=play)
    limited = await world.new_token("WRITE", "DEPLOY", "ADMIN", limited_to=[play])
    path = f"/service/{own}/gitWebhook"
    for method, at in (("POST", path), ("DELETE", path), ("POST", f"{path}/sync")):
        answer = await world.call(method, at, token=limited)
        assert (answer.status, "on all services" in answer.message) == (403, True), answer
    assert (await world.get(f"/service/{own}/gitPush", token=limited))["results"] == []
    second = world.git.push("second")
    assert (await send(world, to, push(second))).status == 202, "its secret is as before"
    assert (await world.get(f"/service/{own}/gitPush"))["results"]
    whole = await world.new_token("WRITE")
    assert (await world.call("POST", path, token=whole)).status == 200
