"""What an instance reaches from its own network, and what it does not; without one, attempts succeed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.small_internet import CHOSEN, CROWD, MACHINE, MANY, MANY_PORTS, MOST, OPENED, PRIVATE
from tests.needs import needs, needs_root, ordinary_user
from windlass.base.isolation.isolation import Isolation, NetworkRules

pytestmark = [needs_root, pytest.mark.slow]
SECONDS = 100
CLOSED = "closed: "
SHARED = {
    "private",
    "private by udp",
    "metadata",
    "loopback of the machine",
    "address of the machine",
    "later address of the machine",
    "address of the machine by udp",
    "address of the machine by ipv6",
}
"""What every program of the machine reaches, and no instance with a network of its own."""


@pytest.fixture(scope="module", autouse=True)
def _needs_networks():
    if not Isolation("auto", Path("/nowhere"), rules=NetworkRules()).has_networks():
        pytest.skip("needs a kernel with network namespaces, veth and nf_tables")


@pytest.fixture(
    scope="module", params=["root", pytest.param("ordinary", marks=[needs("pasta"), pytest.mark.slow])]
)
def found(request):
    """The answers to each attempt, with Windlass as root and as an ordinary user."""
    return attempts("networks", ordinary_user() if request.param == "ordinary" else ())


@pytest.fixture(scope="module")
def shared():
    return attempts("shared")


def attempts(mode: str, as_user: Sequence[str] = ()) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        return _attempts([sys.executable, "-m", "tests.hostile.small_internet", folder, mode, *as_user])


def _attempts(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=dict(os.environ))
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr
    found: dict[str, Any] = json.loads(lines[0][7:])
    return found


@pytest.mark.parametrize("who", ["neighbour", "stranger"])
def test_an_instance_reaches_public_networks_and_what_the_operator_opened(found, who):
    reached = {name for name, answer in found[who].items() if answer == "internet"}
    assert reached == {"public", "public by udp", "public by udp from a port of its choice", "opened"}


def test_udp_packets_of_an_instance_do_not_leave_from_a_chosen_port_of_the_machine(found):
    assert CHOSEN not in found["ports by udp"]


@pytest.mark.parametrize("who", ["neighbour", "stranger"])
def test_an_instance_reaches_neither_the_machine_nor_private_networks(found, shared, who):
    reached = {name: answer for name, answer in found[who].items() if not answer.startswith(CLOSED)}
    assert SHARED.isdisjoint(reached)
    # Without networks of their own, programs reach all of it.
    assert {name for name in SHARED if shared[who][name].startswith(CLOSED)} == set()


def test_an_instance_reaches_the_gateway_at_the_address_of_the_machine(found):
    assert found["stranger"]["gateway of the machine"] == "gateway"


def test_organizations_reach_the_gateway_from_different_addresses(found, shared):
    seen = [found[who]["own address"] for who in ("neighbour", "stranger")]
    if found["as root"]:
        assert all(address.startswith("198.19.") for address in seen)
        assert len({*seen}) == 2
    else:
        assert {*seen} == {MACHINE}, "pasta has the address of the machine"
    assert [shared[who]["own address"] for who in ("neighbour", "stranger")] == [MACHINE, MACHINE]


def test_a_service_is_found_by_address_and_name_in_its_environment_only(found, shared):
    assert (found["neighbour"]["victim"], found["neighbour"]["name"]) == ("victim", "victim")
    assert found["stranger"]["victim"].startswith(CLOSED)
    assert found["stranger"]["name"].startswith(CLOSED)
    assert shared["stranger"]["victim"] == "victim"


def test_an_instance_listening_on_another_services_port_receives_none_of_its_requests(found, shared):
    assert found["stranger"]["port of the machine"] == "bound"  # in a network in which nobody looks for it
    assert found["victim"] == "victim"
    assert shared["stranger"]["port of the machine"].startswith(CLOSED)


def test_an_environment_cannot_fill_the_table_of_connections_of_the_machine(found, shared):
    connected = int(found["stranger"]["many connections"].split()[0])
    assert 0 < connected <= MOST
    assert shared["stranger"]["many connections"] == f"{MANY} connected"


AS = pytest.mark.parametrize(
    "user", ["root", pytest.param("ordinary", marks=[needs("pasta"), pytest.mark.nightly])]
)


@AS
@pytest.mark.slow
def test_running_instance_networks_follow_a_changed_open_networks_setting_at_a_server_start(user):
    found = attempts("change", ordinary_user() if user == "ordinary" else ())
    assert (found["last"], found[PRIVATE]) == (PRIVATE, 0), "without a restart of the instance"


@pytest.mark.nightly
@pytest.mark.slow
def test_without_renewed_rules_running_networks_keep_the_setting_of_their_start():
    assert attempts("change without renewal")["last"] == OPENED


@needs("pasta")
@pytest.mark.slow
def test_an_environment_that_sends_from_many_udp_ports_leaves_some_for_others():
    found = attempts("send", ordinary_user())
    assert 0 < int(found["sent"].split()[0]) <= 512
    assert found["public"] == "internet"


@pytest.mark.nightly
@needs("pasta")
def test_builds_of_an_environment_leave_udp_ports_of_pasta_for_builds_of_others():
    found = attempts("send in a build", ordinary_user())
    assert 0 < int(found["sent"].split()[0]) <= 256
    assert found["public"] == "internet"


@pytest.mark.nightly
@needs("pasta")
@pytest.mark.slow
def test_with_one_shared_limit_a_build_would_leave_no_udp_ports_for_other_builds():
    found = attempts("send in a build of the same environment", ordinary_user())
    assert found["public"].startswith(CLOSED)


@pytest.mark.nightly
@pytest.mark.slow
def test_without_the_limit_an_environment_sends_from_any_number_of_udp_ports():
    assert attempts("send")["sent"] == f"{MANY_PORTS} answered"


@pytest.mark.nightly
def test_an_organization_with_many_environments_leaves_network_connections_for_others():
    """What is refused counts nowhere: each environment tries private addresses first."""
    found = attempts("crowd")
    assert MOST < found["crowd"] <= 2 * MOST
    assert found["other"] == "internet"


@pytest.mark.slow
def test_an_environment_leaves_connections_for_others_of_its_organization():
    found = attempts("crowd of one")
    hostile = [int(found[f"hostile {what}"]["many"].split()[0]) for what in ("service", "step")]
    assert all(0 < connected <= most for connected, most in zip(hostile, (MOST, MOST // 2), strict=True))
    assert [found[f"other {what}"]["public"] for what in ("service", "step")] == ["internet"] * 2


@pytest.mark.nightly
def test_without_a_lower_limit_build_steps_would_use_up_the_connections_of_their_organization():
    found = attempts("crowd of one without limits for steps")
    assert all(found[f"other {what}"]["public"].startswith(CLOSED) for what in ("service", "step"))


@pytest.mark.nightly
def test_many_environments_of_different_organizations_can_use_up_all_connections():
    found = attempts("crowd of many organizations")
    assert found["crowd"] >= (CROWD - 1) * MOST
    assert found["other"].startswith(CLOSED)
