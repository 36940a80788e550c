"""Outgoing requests reach admitted addresses only."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from ipaddress import ip_address

import pytest

from tests.base.http_out.failures import LOOPBACK, failure, leads_to, refusal
from tests.forbidden_urls import NO_URL, NOT_PUBLIC
from tests.loopback import Receiver, receiver
from windlass.base.http_out import HttpSender


@pytest.fixture
async def run_at_all_places() -> AsyncIterator[Receiver]:
    """On every address of the machine."""
    addresses = ["0.0.0.0", *(["::"] if socket.has_dualstack_ipv6() else [])]
    async with receiver(at=addresses) as made:
        yield made


# Where it goes


def test_the_corpus_has_at_least_80_refused_urls():
    assert len({*NO_URL, *NOT_PUBLIC}) >= 80


async def test_an_ambiguous_url_is_refused_despite_allowed_networks(run_at_all_places):
    for text in NO_URL:
        url = text.replace("{port}", str(run_at_all_places.port))
        for allowed in ((), ("0.0.0.0/0", "::/0")):
            assert "outbound_allow" not in await refusal(HttpSender(allowed), url), url
    assert run_at_all_places.connections == 0


async def test_a_private_address_is_refused_without_a_connection(run_at_all_places):
    for text in NOT_PUBLIC:
        said = await refusal(HttpSender(), text.replace("{port}", str(run_at_all_places.port)))
        assert said.endswith("allow its network with the setting outbound_allow."), text
    assert run_at_all_places.connections == 0


async def test_requests_to_an_allowed_network_are_sent(run_at_all_places):
    out = HttpSender((*LOOPBACK, "0.0.0.0/32", "::/128", "::ffff:127.0.0.0/104"))
    hosts = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost", "LOCALHOST."]
    if socket.has_dualstack_ipv6():
        hosts += ["[::1]", "[::]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]"]
    for host in hosts:
        assert (await out.send("POST", run_at_all_places.url(host))).status == 200, host
    assert run_at_all_places.connections >= len(hosts) - 2
    await out.close()


@pytest.mark.parametrize(
    "found",
    [
        ["127.0.0.1"],
        ["::1"],
        ["0.0.0.0"],
        ["::"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["10.1.2.3", "169.254.169.254", "fe80::1%1"],
    ],
)
async def test_a_name_that_leads_only_to_addresses_that_are_not_public_is_refused(run_at_all_places, found):
    out = HttpSender(resolve=leads_to(*found))
    said = await refusal(out, run_at_all_places.url("hooks.example"))
    assert said.startswith("hooks.example has no public address."), said
    assert run_at_all_places.connections == 0


async def test_only_admitted_addresses_of_a_name_are_called():
    async with receiver(at=["127.0.0.1"]) as hidden:
        out = HttpSender(["127.0.0.2/32"], resolve=leads_to("127.0.0.1", "::1", "127.0.0.2"))
        assert "hooks.example:" in await failure(out, hidden.url("hooks.example"))
        await out.close()
        assert hidden.connections == 0
        out = HttpSender(LOOPBACK, resolve=leads_to("::1", "127.0.0.2", "127.0.0.1"))
        assert (await out.send("POST", hidden.url("hooks.example"))).status == 200
        await out.close()


async def test_a_name_that_resolves_to_another_address_is_checked_again(run_at_all_places):
    answers = iter([["127.0.0.2"], ["127.0.0.1"]])

    async def resolve(name, port):
        return [ip_address(each) for each in next(answers)]

    async with receiver(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", at=["127.0.0.2"]
    ) as first:
        out = HttpSender(["127.0.0.2/32"], resolve=resolve)
        assert (await out.send("POST", first.url("hooks.example"))).status == 200
        assert "has no public address" in await refusal(out, first.url("hooks.example"))


async def test_a_host_name_with_2000_addresses_causes_at_most_40_connections():
    many = [f"127.0.{high}.{low}" for high in range(8) for low in range(1, 251)]

    async def reset(reader, writer):
        """Speaks no TLS, so that the next address is tried."""

    async with receiver(reset, at=["0.0.0.0"]) as there:
        out = HttpSender(LOOPBACK, resolve=leads_to(*many))
        await failure(out, there.url("hooks.example", scheme="https"))
        await out.close()
        assert 1 <= there.connections <= 40


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_is_not_followed(free, run_at_all_places, status):
    to = f"HTTP/1.1 {status} Away\r\nLocation: {run_at_all_places.url()}\r\nContent-Length: 0\r\n\r\n"
    async with receiver(to.encode()) as away:
        answer = await free.send("POST", away.url(), b"x")
    assert (answer.status, answer.headers["location"]) == (status, run_at_all_places.url())
    assert run_at_all_places.connections == 0


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "https_proxy"])
async def test_proxy_variables_of_the_environment_are_ignored(run_at_all_places, monkeypatch, name):
    monkeypatch.setenv(name, run_at_all_places.url())
    async with receiver() as right:
        out = HttpSender(LOOPBACK)
        assert (await out.send("POST", right.url())).status == 200
        assert "no machine named" in await failure(out, "http://hooks.invalid/")
        await out.close()
    assert run_at_all_places.connections == 0
