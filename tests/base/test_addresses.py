"""Addresses that may be called, and their forms."""

from __future__ import annotations

import asyncio
import threading
from ipaddress import ip_address

import pytest

from tests.tables import rows
from windlass.base.addresses import BadHost, Reach, host, in_a_thread, is_public, resolve

PUBLIC = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "140.82.112.3",
    "168.63.129.15",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2606:50c0:8000::153",
    "2a00:1450:4001::1",
    "2003::1",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:1.1.1.1",
    "64:ff9b::7f00:1",
    "64:ff9b::101:101",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:53aa:64c:0:0:80ff:fffe",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


@rows("text", PUBLIC)
def test_an_allocated_address_is_public(text):
    assert is_public(ip_address(text))


@rows("text", NOT_PUBLIC)
def test_a_special_purpose_address_is_not_public(text):
    assert not is_public(ip_address(text))
    assert not Reach().admits(ip_address(text))


def test_allowed_networks_admit_only_their_own_private_addresses():
    reach = Reach(["10.1.0.0/16", "192.168.7.7", "fd00::/8"])
    for text in ("10.1.2.3", "192.168.7.7", "fd00:ec2::254"):
        assert reach.admits(ip_address(text))
        assert reach.names(ip_address(text))
    for text in ("10.2.0.1", "192.168.7.8", "127.0.0.1", "::ffff:10.1.2.3", "fe80::1"):
        assert not reach.admits(ip_address(text))
    assert reach.admits(ip_address("1.1.1.1"))
    assert not reach.names(ip_address("1.1.1.1"))


def test_allowing_loopback_admits_no_other_private_address():
    reach = Reach(loopback=True)
    assert reach.admits(ip_address("127.0.0.1"))
    assert reach.admits(ip_address("::1"))
    assert not reach.admits(ip_address("0.0.0.0"))
    assert not reach.admits(ip_address("10.0.0.1"))


def test_an_invalid_network_is_reported_by_name():
    with pytest.raises(ValueError, match=r"name a network, .*: 10\.0\.0\.0/99 is not one"):
        Reach(["10.0.0.0/99"])


@rows(
    ("text", "meant"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("git_hub.example", "git_hub.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("1.2.3.example", "1.2.3.example"),
        ("0xyz.example", "0xyz.example"),
        ("127.0.0.1", ip_address("127.0.0.1")),
        ("[2001:db8::7]", ip_address("2001:db8::7")),
    ],
)
def test_a_host_is_a_name_or_an_address_in_its_usual_form(text, meant):
    assert host(text) == meant


@rows(
    "text",
    [
        "",
        ".",
        "a..b",
        "-a.example",
        "a-.example",
        "a b",
        "a\n",
        "a\0",
        "a/b",
        "a%62",
        "a" * 64,
        "bücher.example",
        "127。0。0。1",
        "1",
        "127.1",
        "127.0.0.1.",
        "127.0.0.01",
        "0x7f.1",
        "0X7F000001",
        "0x",
        "2130706433",
        "017700000001",
        "256.1.1.1",
        "a.1",
        "[::1",
        "::1",
        "[fe80::1%1]",
        "[::1%lo]",
        "[127.0.0.1]",
        "[]",
    ],
)
def test_a_malformed_host_is_refused(text):
    with pytest.raises(BadHost):
        host(text)


async def test_resolving_a_name_returns_each_address_once():
    found = await resolve("localhost", 80)
    assert found
    assert all(each.is_loopback for each in found)
    assert len(set(found)) == len(found)


async def test_a_name_that_cannot_be_looked_up_is_an_os_error():
    with pytest.raises(OSError, match="not a valid host name"):
        await resolve("a" * 64, 80)


async def test_lookups_at_silent_servers_delay_no_other_name():
    over = threading.Event()
    silent = [asyncio.ensure_future(in_a_thread(over.wait)) for _ in range(100)]
    try:
        assert await resolve("localhost", 80)
        assert not any(each.done() for each in silent)
    finally:
        over.set()
        await asyncio.gather(*silent)


async def test_an_abandoned_lookup_ends_without_a_warning():
    over = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await in_a_thread(over.wait)
    over.set()
    assert await resolve("localhost", 80)


def test_without_public_access_only_allowed_networks_are_admitted():
    reach = Reach(["198.51.100.7"], public=False)
    assert reach.admits(ip_address("198.51.100.7"))
    assert not reach.admits(ip_address("8.8.8.8"))
    assert Reach(["198.51.100.7"]).admits(ip_address("8.8.8.8"))
