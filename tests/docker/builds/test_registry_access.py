"""The Docker engine of the server calls registries of organizations only at addresses that are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from windlass.base.addresses import Address, Reach
from windlass.docker.builds.registry_access import RegistryAccess

PUBLIC, PRIVATE = "203.0.114.7", "10.0.0.7"
HOSTS = {
    "images.example.com": [PUBLIC],
    "inside.example.com": [PRIVATE],
    "both.example.com": [PUBLIC, PRIVATE],
    "localhost": ["127.0.0.1", "::1"],
}


async def resolve(name: str, port: int) -> Sequence[Address]:
    if name not in HOSTS:
        raise OSError("no such host")
    return [ip_address(each) for each in HOSTS[name]]


@pytest.mark.parametrize(
    ("ref", "allowed", "closed"),
    [
        ("images.example.com/acme/web", [], ""),
        ("images.example.com:5000/acme/web@sha256:" + "0" * 64, [], ""),
        ("inside.example.com/acme/web", [], PRIVATE),
        ("inside.example.com/acme/web", [f"{PRIVATE}/32"], ""),
        ("both.example.com/acme/web", [], PRIVATE),
        ("localhost:5000/acme/web:1", [], "127.0.0.1, ::1"),
        ("127.0.0.1:5000/acme/web:1", [], "127.0.0.1"),
        ("169.254.169.254/acme/web", ["127.0.0.0/8"], "169.254.169.254"),
        ("missing.example.com/acme/web", [], ""),
    ],
)
async def test_each_address_of_a_registry_has_to_be_allowed(ref: str, allowed: list[str], closed: str):
    why = await RegistryAccess(Reach(allowed), resolve).refusal(ref)
    assert why.partition("Docker engine to ")[2] == closed
    assert why.startswith("Ask the operator to allow the registry ") is bool(closed)


async def test_an_address_in_an_unusual_form_is_refused():
    why = await RegistryAccess(Reach(), resolve).refusal("0x7f.1:5000/acme/web")
    assert why.startswith("Correct the address of the registry 0x7f.1:5000")


async def test_the_registry_of_the_operator_may_be_anywhere():
    assert not await RegistryAccess(None, resolve).refusal("localhost:5000/acme/web")
