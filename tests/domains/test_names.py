"""Which names a domain may have."""

from __future__ import annotations

import pytest

from tests.contract.contract import is_refused
from tests.domains.served import SHOP, add
from windlass.core.words.domains import BadDomain, ascii_name

GOOD = {
    "shop.example.com": "shop.example.com",
    "Shop.Example.COM": "shop.example.com",
    "example.com": "example.com",
    "*.example.com": "*.example.com",
    "bücher.example": "xn--bcher-kva.example",
    "faß.example": "xn--fa-hia.example",
    "中国.example": "xn--fiqs8s.example",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "1and1.example": "1and1.example",
}
BAD = [
    "", "com", "localhost", "a.localhost", "shop.internal", "203.0.113.7", "a.b.1", "0x7f.0x1",
    "[2001:db8::1]", "https://shop.example.com", "shop.example.com/path", "shop.example.com:443",
    "a@example.com", "shop..example", ".example.com", "example.com.", " shop.example.com",
    "shop example.com", "-a.example.com", "a-.example.com", "a_b.example.com", "*", "*.", "*.com",
    "*.*.example.com", "a.*.example.com", "shop*.example.com", f"{'a' * 64}.example.com",
    ".".join(["a" * 50] * 6), "\u202eshop.example.com", "shop\n.example.com", "shop．", "é" * 2000,
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_name_is_read_in_its_ascii_form(name):
    assert ascii_name(name) == GOOD[name]


@pytest.mark.parametrize("name", BAD)
def test_a_text_that_is_no_name_of_a_domain_is_refused(name):
    with pytest.raises(BadDomain):
        ascii_name(name)


async def test_the_longest_name_can_still_be_proved(world):
    longest = f"{'a' * 50}.{'b' * 50}.{'c' * 50}.{'d' * 50}.{'e' * 29}"
    assert len(longest) == 233
    app = await world.application()
    document = await add(world, app, longest)
    assert len(document["challenge_name"]) == 253
    assert (await world.get(f"/application/{app}/checkCustomDomain")).status == 200
    with pytest.raises(BadDomain):
        ascii_name(f"{longest}e")


async def test_a_refused_name_says_what_to_write(world):
    app = await world.application()
    answer = await world.post(
        f"/application/{app}/customDomain", {"domain": "https://a.example/", "generate_certificate": True}
    )
    is_refused(answer, 400)
    assert "domain: write the name alone" in answer.message


@pytest.mark.parametrize(
    "name", ["apps.example.com", "web.apps.example.com", "*.apps.example.com", "WEB.Apps.example.com"]
)
async def test_names_that_windlass_gives_out_are_refused(world, name):
    app = await world.application()
    answer = await world.post(
        f"/application/{app}/customDomain", {"domain": name, "generate_certificate": False}
    )
    is_refused(answer, 400)


async def test_a_service_has_a_name_once_however_it_is_written(world):
    app = await world.application()
    await add(world, app, "bücher.example")
    for again in ("bücher.example", "xn--bcher-kva.example", "BÜCHER.example"):
        answer = await world.post(
            f"/application/{app}/customDomain", {"domain": again, "generate_certificate": False}
        )
        is_refused(answer, 409)


async def test_a_domain_is_answered_as_it_was_written(world):
    app = await world.application()
    assert (await add(world, app, "Bücher.example"))["domain"] == "Bücher.example"


async def test_domains_of_a_container_are_as_those_of_an_application(world):
    environment = await world.environment()
    registry = await world.made(
        f"/organization/{world.org}/containerRegistry",
        {"name": "r", "kind": "DOCKER_HUB", "url": "https://docker.io", "config": {}},
    )
    container = await world.made(
        f"/environment/{environment}/container",
        {"name": "web", "image_name": "library/nginx", "tag": "1", "registry_id": registry},
    )
    made = await world.post(
        f"/container/{container}/customDomain", {"domain": SHOP, "generate_certificate": False}
    )
    assert made.status == 201
    listed = await world.get(f"/container/{container}/customDomain")
    assert [each["domain"] for each in listed["results"]] == [SHOP]


async def test_a_domain_is_found_by_its_name_below_its_service(world):
    environment = await world.environment()
    app = await world.application(environment, name="web")
    other = await world.application(environment, name="api")
    document = await add(world, app)
    await add(world, other)
    for path in (SHOP, f"web/{SHOP}", f"{app}/{SHOP}"):
        found = await world.get(f"/resource?family=domain&below=application&path={path}")
        ids = [each["id"] for each in found["results"]]
        assert document["id"] in ids
        assert len(ids) == (2 if path == SHOP else 1)
