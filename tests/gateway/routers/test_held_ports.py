"""A program of the machine cannot take the port of Windlass in the other family of addresses."""

from __future__ import annotations

import socket

import pytest

from tests import free_ports
from tests.gateway.routers.town import Town
from windlass.base.held_ports import hold_other_family
from windlass.routers.router import Listen

IPV6 = ("::1", "::")
REUSE = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def can_be_taken(address: str, port: int) -> bool:
    """Returns whether another program could listen there, as best it can."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as taken:
        for option in REUSE:
            taken.setsockopt(socket.SOL_SOCKET, option, 1)
        if taken.family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            taken.bind((address, port))
            taken.listen()
        except OSError:
            return False
    return True


@pytest.mark.parametrize(
    ("host", "others"),
    [
        ("127.0.0.1", IPV6),
        ("0.0.0.0", IPV6),
        ("::1", ("127.0.0.1", "0.0.0.0")),
        ("2001:db8::1", ("127.0.0.1",)),
    ],
)
def test_a_reserved_port_cannot_be_bound_in_the_other_address_family_until_it_is_released(host, others):
    port = free_ports.free_port()
    held = hold_other_family(host, port)
    assert held is not None
    with held:
        assert not any(can_be_taken(other, port) for other in others)
    assert all(can_be_taken(other, port) for other in others)


def test_a_port_in_use_by_another_program_is_not_held(caplog):
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        assert hold_other_family("127.0.0.1", other.getsockname()[1]) is None
    assert "another program has the port" in caplog.text


async def test_the_ipv4_port_of_a_running_gateway_cannot_be_bound_on_ipv6(town: Town):
    port = town.router.port
    assert not any(can_be_taken(address, port) for address in IPV6)
    await town.router.stop()
    assert all(can_be_taken(address, port) for address in IPV6)


async def test_the_external_port_of_a_service_cannot_be_bound_on_ipv6_until_it_is_released(town: Town):
    port, other = free_ports.free_port(), free_ports.free_port()
    await town.router.reserve("shop", [Listen(port)])
    assert not any(can_be_taken(address, port) for address in IPV6)
    await town.router.reserve("shop", [Listen(other)])
    assert all(can_be_taken(address, port) for address in IPV6)
    assert not any(can_be_taken(address, other) for address in IPV6)
    await town.router.forget("shop")
    assert all(can_be_taken(address, other) for address in IPV6)
    await town.router.reserve("shop", [Listen(port)])
    await town.router.stop()
    assert all(can_be_taken(address, port) for address in IPV6)
