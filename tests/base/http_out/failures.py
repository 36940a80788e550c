"""Outgoing requests that are refused or fail, and their reasons."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from windlass.base.http_out import AddressRefused, HttpSender, HttpTransport, NoAnswer

LOOPBACK = ("127.0.0.0/8", "::1/128")


def leads_to(*found: str):
    async def resolve(name, port):
        return [ip_address(each) for each in found]

    return resolve


async def refusal(out: HttpSender, url: str) -> str:
    with pytest.raises(AddressRefused) as caught:
        await out.send("POST", url, b"x", seconds=5)
    await out.close()
    return str(caught.value)


async def failure(out: HttpTransport, url: str, seconds: float = 5.0) -> str:
    with pytest.raises(NoAnswer) as caught:
        await out.send("POST", url, b"x", seconds=seconds)
    return str(caught.value)
