"""Webhooks of container registries: a pushed tag deploys the services that follow it, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, NamedTuple

import pytest
from msgspec.structs import force_setattr

from tests.fakes.engine import FakeEngine
from tests.fakes.registries import DIGEST, FakeRegistries
from tests.pushes.test_previews import Kill
from tests.registries.test_containers_of_registries import container, deployed, registry
from tests.world import Answer, World, make_world
from windlass.base.http_out import HttpResult, NoAnswer
from windlass.control.services import image_push_intake

IMAGE = "registry.example.com/acme/shop"
OTHER = f"sha256:{'0' * 64}"


class Registries(FakeRegistries):
    """Registries that lack some tags, and may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: set[str] = set()
        self.is_away = False

    async def send(self, method: str, url: str, *rest: Any, **options: Any) -> HttpResult:
        if self.is_away:
            raise NoAnswer("it is away")
        if url.rpartition("/")[2] in self.missing:
            return HttpResult(404, {"docker-distribution-api-version": "registry/2.0"}, b"{}", False, 1)
        return await super().send(method, url, *rest, **options)


class Address(NamedTuple):
    path: str
    secret: str


@pytest.fixture
async def out() -> Registries:
    return Registries()


@pytest.fixture
async def world(database_url: str, out: Registries) -> Any:
    async with make_world(database_url, engine=FakeEngine("image"), out=out) as made:
        yield made


def path_of(world: World, id: str) -> str:
    return f"/organization/{world.org}/containerRegistry/{id}"


async def webhook(world: World, id: str) -> Address:
    answer = await world.post(f"{path_of(world, id)}/renewWebhook")
    assert answer.status == 200, answer
    assert answer["secret_url"] == f"{answer['url']}/{answer['secret']}"
    return Address("/registry-webhook/" + answer["url"].rpartition("/")[2], answer["secret"])


async def send(world: World, to: Address, body: Any, headers: dict[str, str] | None = None) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {to.secret}"} if headers is None else headers
    answer = await world.call("POST", to.path, raw=raw, headers=headers, token=None)
    await world.settle()
    return answer


async def account(world: World, id: str, **options: Any) -> list[dict[str, Any]]:
    return list((await world.get(f"{path_of(world, id)}/imagePush", **options))["results"])


async def tag_of(world: World, service: str) -> str:
    return str((await world.get(f"/container/{service}"))["tag"])


def pulls(world: World, tag: str) -> int:
    return [request.ref for request in world.engine.resolved].count(f"{IMAGE}:{tag}")


def plain(tag: str = "1.1", image: str = "acme/shop") -> dict[str, Any]:
    return {"image_name": image, "tag": tag}


def hub() -> Any:
    return {"push_data": {"tag": "1.1"}, "repository": {"repo_name": "acme/shop"}, "callback_url": "x"}


def github() -> Any:
    tag = {"name": "1.1", "digest": DIGEST}
    package = {
        "name": "Shop",
        "namespace": "acme",
        "package_type": "CONTAINER",
        "package_version": {"container_metadata": {"tag": tag}},
    }
    return {"action": "published", "registry_package": package}


def gitea() -> Any:
    package = {"type": "container", "name": "shop", "version": "1.1", "owner": {"login": "Acme"}}
    return {"action": "created", "package": package}


def harbor() -> Any:
    data = {
        "resources": [{"digest": DIGEST, "tag": "1.1", "resource_url": f"{IMAGE}:1.1"}],
        "repository": {"name": "shop", "namespace": "acme", "repo_full_name": "acme/shop"},
    }
    return {"type": "PUSH_ARTIFACT", "occur_at": 1, "operator": "admin", "event_data": data}


def harbor_cloud_event() -> Any:
    return {"specversion": "1.0", "type": "harbor.artifact.pushed", "data": harbor()["event_data"]}


def quay() -> Any:
    return {"name": "shop", "repository": "acme/shop", "namespace": "acme", "updated_tags": ["1.1"]}


def distribution() -> Any:
    layer = {"id": "a0", "action": "push", "target": {"repository": "acme/shop", "digest": OTHER}}
    target = {"repository": "acme/shop", "tag": "1.1", "digest": DIGEST}
    return {"events": [layer, {"id": "a1", "action": "push", "target": target}]}


def azure() -> Any:
    target = {"repository": "acme/shop", "tag": "1.1", "digest": DIGEST}
    return {"id": "b1", "action": "push", "target": target, "request": {"id": "c", "host": "x"}}


def digest_of(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def signed(event: str, secret: str, body: bytes) -> dict[str, str]:
    if event == "GITEA":
        return {"x-gitea-event": "package", "x-gitea-signature": digest_of(secret, body)}
    return {"x-github-event": "registry_package", "x-hub-signature-256": f"sha256={digest_of(secret, body)}"}


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def bare(secret: str) -> dict[str, str]:
    return {"authorization": secret}


def basic(secret: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"any:{secret}".encode()).decode()}


@pytest.mark.parametrize(
    ("sender", "body_of", "prove"),
    [
        ("DOCKER_HUB", hub, None),
        ("QUAY", quay, None),
        ("GITHUB", github, signed),
        ("GITEA", gitea, signed),
        ("HARBOR", harbor, bare),
        ("HARBOR", harbor_cloud_event, bare),
        ("DISTRIBUTION", distribution, bearer),
        ("AZURE", azure, basic),
        ("PLAIN", plain, bearer),
    ],
    ids=["hub", "quay", "github", "gitea", "harbor", "cloudevents", "distribution", "azure", "plain"],
)
async def test_each_registry_is_understood_and_its_secret_checked(world: World, sender, body_of, prove):
    id = await registry(world)
    service = await container(world, registry_id=id, auto_deploy=True)
    await deployed(world, service)
    to, raw = await webhook(world, id), json.dumps(body_of()).encode()

    async def deliver(secret: str) -> Answer:
        if prove is None:
            return await send(world, Address(f"{to.path}/{secret}", secret), raw, headers={})
        return await send(world, to, raw, prove(sender, secret, raw) if prove is signed else prove(secret))

    wrong = await deliver("another secret")
    assert (wrong.status, await tag_of(world, service)) == (401, "1.0")
    right = await deliver(to.secret)
    assert (right.status, right["result"]) == (202, "RECEIVED")
    assert await tag_of(world, service) == "1.1"
    assert pulls(world, "1.1") == 1
    told = {entry["result"]: entry for entry in await account(world, id)}
    assert set(told) == {"DEPLOYED", "WRONG_SECRET"}
    deployed_entry = told["DEPLOYED"]
    assert (deployed_entry["sender"], deployed_entry["service_id"]) == (sender, service)
    assert (deployed_entry["image_name"], deployed_entry["tag"]) == ("acme/shop", "1.1")


async def test_a_service_follows_its_own_tag_and_newer_ones_of_its_form(world: World):
    id = await registry(world)
    world.engine.digests |= {f"{IMAGE}:1.0": OTHER, f"{IMAGE}:2.0": DIGEST}
    service = await container(world, registry_id=id, auto_deploy=True)
    await deployed(world, service)
    to = await webhook(world, id)
    for tag in ("1.1-alpine", "pr-12", "0.9", "latest"):
        await send(world, to, plain(tag))
        world.clock.turn(5)
    assert [entry["result"] for entry in await account(world, id)] == ["OTHER_TAG"] * 4
    await send(world, to, plain("1.0"))
    assert (await account(world, id))[0]["result"] == "DEPLOYED", "its tag stands for another image now"
    assert (await tag_of(world, service), pulls(world, "1.0")) == ("1.0", 2)
    world.clock.turn(5)
    await send(world, to, plain("2.0"))
    world.clock.turn(5)
    await send(world, to, plain("2.0"))
    assert await tag_of(world, service) == "2.0"
    assert (await account(world, id))[0]["result"] == "ALREADY_KNOWN"
    assert pulls(world, "2.0") == 1


async def test_the_account_says_why_a_push_deployed_nothing(world: World, out: Registries):
    id = await registry(world)
    off = await container(world, registry_id=id)
    never = await container(world, registry_id=id, auto_deploy=True)
    by_name = await container(world, image_name=IMAGE, auto_deploy=True)
    await deployed(world, by_name)
    to = await webhook(world, id)
    await send(world, to, plain())
    told = {entry.get("service_id"): entry["result"] for entry in await account(world, id)}
    assert told == {off: "AUTO_DEPLOY_OFF", never: "NOT_RUNNING", by_name: "DEPLOYED"}
    await world.delete(f"/container/{by_name}")
    await world.settle()
    world.clock.turn(5)
    await send(world, to, plain(image="acme/other"))
    assert (await account(world, id))[0]["result"] == "NO_SERVICE"
    out.missing = {"1.2"}
    world.clock.turn(5)
    await send(world, to, plain("1.2"))
    assert {entry["result"] for entry in await account(world, id) if entry["tag"] == "1.2"} == {
        "AUTO_DEPLOY_OFF",
        "NOT_IN_REGISTRY",
    }
    assert await tag_of(world, never) == "1.0"


async def test_a_registry_that_is_away_is_asked_again(world: World, out: Registries):
    id = await registry(world)
    service = await container(world, registry_id=id, auto_deploy=True)
    await deployed(world, service)
    to = await webhook(world, id)
    out.is_away = True
    await send(world, to, plain())
    assert [entry["result"] for entry in await account(world, id)] == ["RECEIVED"]
    out.is_away = False
    await world.run(40)
    assert await tag_of(world, service) == "1.1"
    out.is_away = True
    await send(world, to, plain("1.2"))
    await world.run(1200)
    newest = (await account(world, id))[0]
    assert (newest["result"], newest["tag"]) == ("REGISTRY_FAILED", "1.2")
    assert await tag_of(world, service) == "1.1"


async def test_a_repeated_delivery_is_one_entry_and_one_deployment(world: World):
    id = await registry(world)
    service = await container(world, registry_id=id, auto_deploy=True)
    await deployed(world, service)
    to, raw = await webhook(world, id), json.dumps(github()).encode()
    headers = signed("GITHUB", to.secret, raw) | {"x-github-delivery": "d1"}
    for _ in range(3):
        assert (await send(world, to, raw, headers)).status == 202
        world.clock.turn(5)
    assert pulls(world, "1.1") == 1
    assert [entry["result"] for entry in await account(world, id)] == ["DEPLOYED"]


async def test_what_is_no_push_of_a_tag_is_counted_and_deploys_nothing(world: World):
    id = await registry(world)
    service = await container(world, registry_id=id, auto_deploy=True)
    await deployed(world, service)
    to = await webhook(world, id)
    none = [b"", b"[]", b"null", b"{", {}, plain("--help"), plain(image="../x"), plain(image="Acme/Shop")]
    none += [{"events": [{"action": "pull", "target": {"repository": "acme/shop", "tag": "1.1"}}]}]
    none += [harbor() | {"type": "DELETE_ARTIFACT"}, azure() | {"action": "delete"}]
    for body in none:
        answer = await send(world, to, body)
        assert (answer.status, answer["result"]) == (200, "OTHER_EVENT"), body
    ping = await send(world, to, harbor() | {"type": "TEST_ENDPOINT"})
    assert ping["result"] == "PING"
    told = {entry["result"]: entry["times"] for entry in await account(world, id)}
    assert told == {"OTHER_EVENT": len(none), "PING": 1}
    assert await tag_of(world, service) == "1.0"


async def test_an_unknown_address_answers_like_a_wrong_secret(world: World):
    id = await registry(world)
    to = await webhook(world, id)
    wrong = await send(world, to, plain(), bearer("wrong"))
    unknown = await send(world, Address("/registry-webhook/" + "0" * 32, ""), plain(), bearer(to.secret))
    assert (wrong.status, wrong.message) == (unknown.status, unknown.message)
    assert (await send(world, to, plain(), {})).message == wrong.message
    told = {entry["result"] for entry in await account(world, id)}
    assert told == {"WRONG_SECRET", "NO_SECRET"}
    assert (await world.call("GET", to.path, token=None)).status == 405


async def test_a_new_secret_ends_the_former_one_and_the_registry_ends_its_address(world: World):
    id = await registry(world)
    former = await webhook(world, id)
    present = await webhook(world, id)
    assert present.path == former.path
    assert (await send(world, former, plain())).status == 401
    assert (await send(world, present, plain())).status == 202
    shown = await world.get(f"{path_of(world, id)}/webhook")
    assert present.secret not in shown.body.decode()
    writer = await world.new_token("Read", "Write", "Deploy")
    assert (await world.post(f"{path_of(world, id)}/renewWebhook", token=writer)).status == 403
    assert (await world.delete(path_of(world, id))).status == 204
    assert (await send(world, present, plain())).status == 401
    other = await registry(world)
    to = await webhook(world, other)
    assert (await world.delete(f"{path_of(world, other)}/webhook")).status == 204
    assert (await send(world, to, plain())).status == 401


async def test_deliveries_are_limited_and_large_bodies_refused(world: World, monkeypatch):
    id = await registry(world)
    to = await webhook(world, id)
    assert (await send(world, to, b" " * (1024 * 1024 + 1))).status == 413
    monkeypatch.setattr(image_push_intake, "MAX_IMAGE_DELIVERIES_OF_WEBHOOK", 0)
    limited = await send(world, to, plain())
    assert (limited.status, limited.headers["retry-after"]) == (429, "5")


async def test_the_registries_of_one_organization_leave_room_for_another(world: World, monkeypatch):
    own = await webhook(world, await registry(world))
    other = await webhook(world, await registry(world))
    world.org, world.token = await world.organization()
    theirs = await webhook(world, await registry(world))
    monkeypatch.setattr(image_push_intake, "MAX_IMAGE_DELIVERIES", 4)
    row = await world.installation.ctx.store.reads.registry_webhooks.get(own.path.rpartition("/")[2])
    assert row is not None
    hold = world.installation.app._registry_webhooks._intake.place
    with hold(row), hold(row):
        assert (await send(world, other, {})).status == 429
        assert (await send(world, theirs, {})).status == 200
    assert (await send(world, other, {})).status == 200, "the control"


async def test_a_server_that_is_killed_before_it_deploys_a_tag_deploys_it_later(world: World):
    id = await registry(world)
    service = await container(world, registry_id=id, auto_deploy=True)
    await deployed(world, service)
    to = await webhook(world, id)
    kill = Kill("about to deploy new tags")
    force_setattr(world.installation.ctx, "point", kill)
    await send(world, to, plain())
    assert (kill.point, await tag_of(world, service)) == ("", "1.0")
    await world.run(90)
    assert (await tag_of(world, service), pulls(world, "1.1")) == ("1.1", 1)


async def test_a_pushed_tag_is_deployed_again_in_its_preview(world: World):
    base = await world.environment()
    id = await registry(world)
    await container(world, base, name="web", registry_id=id)
    path = f"/environment/{base}/preview"
    await world.made(path, {"image_name": IMAGE, "image_tag": "pr-12"})
    await world.run(8)
    before = pulls(world, "pr-12")
    await send(world, await webhook(world, id), plain("pr-12"))
    await world.run(8)
    assert pulls(world, "pr-12") == before + 1
    told = {entry["result"] for entry in await account(world, id)}
    assert told == {"PREVIEWED", "AUTO_DEPLOY_OFF"}
