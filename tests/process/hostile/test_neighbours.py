"""Programs make no neighbours but their hub: the table of neighbours is one for all networks of the machine,
and full, it would cut new instances off. Without the rules of its network, the same program makes many."""

from __future__ import annotations

import pytest

from tests.needs import needs, needs_root, ordinary_user
from tests.process.hostile.neighbours import EACH, PERMANENT, WAYS
from tests.process.hostile.test_networks import _needs_networks, attempts  # noqa: F401 (a fixture)
from windlass.base.isolation.network import GATEWAY

pytestmark = [needs_root, pytest.mark.slow]
NONE = dict.fromkeys(WAYS, 0)


@pytest.fixture(scope="module")
def as_root():
    return attempts("fill")


@pytest.fixture(
    scope="module", params=["root", pytest.param("ordinary", marks=[needs("pasta"), pytest.mark.nightly])]
)
def found(request):
    return (
        attempts("fill", ordinary_user())
        if request.param == "ordinary"
        else request.getfixturevalue("as_root")
    )


@pytest.mark.parametrize("program", ["service", "step"])
def test_a_program_cannot_create_arp_neighbours_by_sending_past_its_router(found, program):
    assert found[program] == NONE


def test_without_network_rules_a_program_creates_any_number_of_arp_neighbours(as_root):
    assert as_root["without rules"] == dict.fromkeys(WAYS, EACH) | {"router": 0}


def test_a_program_reaches_its_gateway_even_if_the_arp_table_is_full(found):
    """Permanent neighbours do not count in the table, and are found when it is full."""
    assert found["answers"] == ["victim", "internet"]
    assert GATEWAY in dict(found["neighbours"])
    assert all(state & PERMANENT for _, state in found["neighbours"])


def test_arp_neighbours_between_instances_and_the_machine_are_permanent(as_root):
    assert {"instance", "trunk", "machine"} < as_root["states"].keys()  # and hubs
    for states in as_root["states"].values():
        assert any(address.startswith("198.") for address, _ in states)
        assert all(state & PERMANENT for _, state in states)


def test_multicast_reaches_programs_of_the_same_instance(found):
    assert found["group"] == "heard"
