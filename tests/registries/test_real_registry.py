"""A real registry with TLS and a login: added, checked, listed, and told what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.registries.docker_registry import PASSWORD, USER, DockerRegistry, docker_registry
from tests.world import World, make_world

LOGIN = {"username": USER, "password": PASSWORD}
LOOPBACK = ("127.0.0.0/8", "::1/128")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with docker_registry(tmp_path_factory.mktemp("registry") / "one") as served:
        for tag in ("1.4.1", "1.4.2", "1.10.0", "latest"):
            served.push("acme/shop", tag, tag.encode())
        served.push("acme/blog", "7")
        yield served


@pytest.fixture
async def world(registry: DockerRegistry):
    assert registry.authority
    file = str(registry.authority.file)
    async with make_world(
        engine=FakeEngine("image"), out=None, outbound_allow=LOOPBACK, outbound_ca_file=file
    ) as made:
        yield made


def body(registry: DockerRegistry, **config: str) -> dict[str, Any]:
    return {"name": "ours", "kind": "GENERIC_CR", "url": registry.url, "config": config}


async def added(world: World, registry: DockerRegistry) -> str:
    path = f"/organization/{world.org}/containerRegistry"
    return f"{path}/{await world.made(path, body(registry, **LOGIN))}"


async def test_a_registry_is_checked_when_it_is_saved_and_on_request(world, registry):
    path = await added(world, registry)
    stored = await world.get(path)
    assert (stored["check"]["status"], stored["check"]["problem"]) == ("OK", "")
    assert stored["config"] == {"username": USER}
    assert PASSWORD not in stored.body.decode()
    world.clock.turn(60)
    checked = await world.post(f"{path}/check")
    assert (checked.status, checked["status"]) == (200, "OK")
    again = await world.get(path)
    assert again["check"] == checked.json != stored["check"]
    assert again.headers["etag"] == stored.headers["etag"]


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"config": {"username": USER, "password": "wrong"}}, "config", "refuses the login"),
        ({"kind": "AZURE_CR", "config": {}}, "config.username", "no identity in your Azure tenant"),
        ({"config": {"username": USER}}, "config.password", "is required with the other"),
        ({"url": "http://registry.example.com"}, "url", "plain http is for registries on this machine"),
        ({"url": "https://example.com/team"}, "url", "without a path"),
        ({"kind": "ECR", "config": {"region": "eu-west-3"}}, "config.access_key_id", "is required for ECR"),
        (
            {"kind": "ECR", "config": {"role_arn": "x"}},
            "config.",
            "Windlass has no identity of its own at AWS",
        ),
        ({"config": {**LOGIN, "region": "x"}}, "config.region", "has no such setting"),
    ],
)
async def test_an_unusable_registry_is_refused_with_the_field_and_the_reason(
    world, registry, change, field, reason
):
    answer = await world.post(
        f"/organization/{world.org}/containerRegistry", body(registry, **LOGIN) | change
    )
    assert answer.status == 400
    assert answer.message.startswith(field), answer
    assert reason in answer.message


async def test_a_registry_of_an_unknown_authority_is_refused(registry):
    async with make_world(out=None, outbound_allow=LOOPBACK) as world:
        answer = await world.post(f"/organization/{world.org}/containerRegistry", body(registry, **LOGIN))
        assert answer.status == 400
        assert "certificate that is not valid" in answer.message
        assert "outbound_ca_file" in answer.message


async def test_an_unreachable_registry_is_stored_with_a_failed_check(world, registry):
    path = f"/organization/{world.org}/containerRegistry"
    for url, problem in (("https://localhost:1", "UNREACHABLE"), ("https://no.such.invalid", "NAME")):
        made = await world.post(path, body(registry, **LOGIN) | {"url": url, "name": problem})
        assert made.status == 201
        assert (made["check"]["status"], made["check"]["problem"]) == ("FAILED", problem)


async def test_changing_the_address_of_a_registry_requires_its_password_again(world, registry):
    path = await added(world, registry)
    moved = await world.patch(path, {"url": "https://elsewhere.example"})
    assert moved.status == 400
    assert moved.message.startswith("config.password: send it again, because url changes")
    other = await world.put(path, {"name": "ours", "config": {"username": "another"}})
    assert other.message.startswith("config.password: send it again, because config.username changes")
    renamed = await world.put(path, {"name": "renamed", "config": {"username": USER}})
    assert (renamed.status, renamed["name"]) == (200, "renamed")
    assert (await world.post(f"{path}/check"))["status"] == "OK", "the secret is kept"
    assert (await world.patch(path, {"kind": "ECR"})).message == "kind: cannot be changed after creation"


async def test_tags_of_an_image_come_newest_first_and_a_page_at_a_time(world, registry):
    path = await added(world, registry)
    whole = (await world.get(f"{path}/images?imageName=acme/shop"))["results"]
    assert whole[0]["versions"] == ["1.10.0", "1.4.2", "1.4.1", "latest"]
    second = await world.get(f"{path}/images?imageName=acme/shop&page=2&page_size=3")
    assert second["results"][0]["versions"] == ["latest"]
    assert second["pagination"]["total_count"] == 4
    images = await world.get(f"{path}/images")
    assert [image["image_name"] for image in images["results"]] == ["acme/blog", "acme/shop"]
    assert [image["image_name"] for image in (await world.get(f"{path}/images?search=blo"))["results"]] == [
        "acme/blog"
    ]
    unknown = await world.get(f"{path}/images?imageName=acme/none")
    assert (unknown.status, "has no acme/none" in unknown.message) == (409, True)
