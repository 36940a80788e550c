"""Faults that exhaustive tests found once, and that are tested by name since."""

from collections.abc import AsyncIterator

import pytest

from tests.documented import DOCUMENT
from tests.world import World, make_world

pytestmark = pytest.mark.slow

MANY = "k" * 255


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[World]:
    async with make_world() as made_world:
        yield made_world


@pytest.mark.parametrize(
    "address",
    ["https://[", "https://]a", "http://[::1", "ssh://a:b:c:d", "file://?", "git@a:#", "https://ü/ü"],
)
async def test_an_unreachable_git_address_is_stored_without_a_server_error(
    world: World, address: str
) -> None:
    environment = await world.environment()
    app = await world.application(environment, git_repository={"url": address})
    answer = await world.get(f"/application/{app}")
    assert answer["git_repository"]["url"] == address


@pytest.mark.parametrize("blank", ["\x85", "\x9f", "\xa0", "\u2028", "\u3000", "\ufeff"])
async def test_a_name_with_leading_or_trailing_white_space_of_any_script_is_refused(
    world: World, blank: str
) -> None:
    projects = f"/organization/{world.org}/project"
    for name in (blank, f"{blank}shop", f"shop{blank}"):
        answer = await world.post(projects, {"name": name})
        assert answer.status == 400
        assert answer.message.startswith("name: ")


@pytest.mark.parametrize(
    "url", ["https://ü.example/", "https://a.example/ü", "https://a/%zz", "https://a/{id}"]
)
async def test_a_webhook_address_with_non_ascii_letters_is_refused(world: World, url: str) -> None:
    body = {"target_url": url, "events": ["DEPLOYMENT_FAILED"]}
    answer = await world.post(f"/organization/{world.org}/webhook", body)
    assert answer.status == 400
    assert answer.message.startswith("target_url: ")


HOSTS = {
    "::": 201,
    "::1": 201,
    "1::": 201,
    "fe80::a:B": 201,
    "1:2:3:4:5:6:7:8": 201,
    "1:2:3:4:5:6:7::": 201,
    "::2:3:4:5:6:7:8": 201,
    "::ffff:127.0.0.1": 201,
    "1:2:3:4:5:6:1.2.3.4": 201,
    "": 400,
    "E10e0:27a:": 400,
    ":": 400,
    ":::": 400,
    "1:2:3": 400,
    "1::2::3": 400,
    "12345::": 400,
    "1:2:3:4:5:6:7:8:9": 400,
    "1:2:3:4::5:6:7:8": 400,
    "::256.0.0.1": 400,
    "::01.2.3.4": 400,
    "127.0.0.1": 400,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
async def test_a_host_in_brackets_is_an_ipv6_address(world: World, host: str, status: int) -> None:
    body = {"target_url": f"https://[{host}]:8443/hooks", "events": ["DEPLOYMENT_FAILED"]}
    answer = await world.post(f"/organization/{world.org}/webhook", body)
    assert answer.status == status
    assert status == 201 or answer.message.startswith("target_url: must be an address such as https://")


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("k", 201),
        ("a b~!", 201),
        (MANY, 201),
        ("", 400),
        (f"{MANY}k", 400),
        ("a\tb", 400),
        ("a\x7f", 400),
        ("é", 400),
    ],
)
async def test_an_idempotency_key_is_printable_ascii(world: World, key: str, status: int) -> None:
    answer = await world.post("/account/session", headers={"Idempotency-Key": key})
    assert answer.status == status


async def test_a_cross_origin_page_can_read_all_documented_response_headers() -> None:
    console = "https://console.example"
    async with make_world(cors_origins=(console,)) as world:
        answer = await world.get("/organization", headers={"Origin": console})
    exposed = set(answer.headers["access-control-expose-headers"].split(", "))
    assert exposed == {name.lower() for name in DOCUMENT["components"]["headers"]} - {"www-authenticate"}
