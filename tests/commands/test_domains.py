"""`windlass domain check` before a domain is added, and `windlass domain certificate`."""

from __future__ import annotations

import pytest

from tests.commands.line import Line
from tests.domains.served import SHOP, add, prove, published
from tests.domains.test_uploads import new_key
from tests.fakes.authority import FakeAuthority
from tests.fakes.engine import FakeEngine
from tests.fakes.name_server import name_server
from tests.schemathesis.serving import served
from tests.world import make_world


@pytest.fixture
async def dns():
    async with name_server() as server:
        server.set("*.apps.example.com", ("A", "203.0.113.10"))
        yield server


@pytest.fixture
async def windlass(dns):
    async with (
        make_world(
            engine=FakeEngine("image"),
            dns_servers=(dns.address,),
            public_domain="apps.example.com",
            acme_directory="",
        ) as world,
        served(world) as url,
    ):
        yield Line(world, url)


async def test_a_name_is_checked_before_and_after_it_is_added(windlass, dns):
    app = await published(windlass.world)
    words = ("domain", "check", SHOP, "--application", app)
    before = await windlass.done(*words)
    assert (before["domain"], before["proved_by"]) == (SHOP, "")
    document = await add(windlass.world, app)
    assert before["validation_domain"] == document["validation_domain"]
    await prove(windlass.world, dns, document)
    assert (await windlass.done(*words))["proved_by"] == "CNAME"
    shown = await windlass(*words, "--text")
    assert "Its CNAME record proves it." in shown.out


async def test_a_service_that_does_not_exist_is_told(windlass):
    said = await windlass("domain", "check", SHOP, "--application", "nothing")
    assert said.code != 0
    assert "application" in said.err


async def test_a_certificate_is_uploaded_shown_and_removed(windlass, dns, tmp_path):
    app = await published(windlass.world)
    await prove(windlass.world, dns, await add(windlass.world, app))
    (key, pem), authority = new_key(), FakeAuthority(windlass.world.clock.now)
    (tmp_path / "chain.pem").write_text(authority.issue(SHOP, key.public_key()))
    (tmp_path / "key.pem").write_text(pem)
    files = ("--chain", str(tmp_path / "chain.pem"), "--key", str(tmp_path / "key.pem"))
    words = [
        ("domain", "certificate", word, SHOP, "--application", app) for word in ("upload", "show", "remove")
    ]
    assert (await windlass.done(*words[0], *files))["certificate_origin"] == "UPLOADED"
    assert (await windlass.done(*words[1]))["origin"] == "UPLOADED"
    assert (await windlass.done(*words[2]))["certificate_origin"] == ""
