"""Instances that share the network of the machine: each gets ports that no other has."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext

import pytest

from tests.base.test_filelock import holder
from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.stations import ask, wanted
from tests.free_ports import free_port
from tests.process.helpers import KEY, SERVICE
from windlass.engines.engine import EngineUnavailable
from windlass.engines.workload import Volume
from windlass.process import ports

SHARES_ITS_PORT = """
import os, socket, sys, time
time.sleep(float(os.environ.get("AFTER", "0")))
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), reuse_port=True)
print("listens", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def rig(tmp_path):
    return ProcessRig(tmp_path, networks=False)


async def test_a_program_whose_port_is_taken_is_reported_with_the_variable_port(rig, station):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        it = wanted(rig.made(programs.SERVES_ELSEWHERE), ports=[port], variables={"OWN_CHOICE": str(port)})
        await station.apply(it)
        seen = await station.ended(SERVICE)
    assert "PORT" in seen.reason
    assert f"port {port} of this machine is taken" in seen.reason


@pytest.mark.parametrize(("org", "by"), [({}, " by api-1-0;"), ({"org": "another"}, ";")])
async def test_a_service_whose_fixed_port_is_taken_hears_which_service_of_its_organization_has_it(
    rig, station, org, by
):
    port = free_port()
    made = rig.made(programs.SERVES_ELSEWHERE)
    variables = {"OWN_CHOICE": str(port)}
    other = "55555555-aaaa-4aaa-8aaa-000000000005"
    await station.apply(wanted(made, ports=[port], variables=variables, service=other, name="api", **org))
    await station.hears("listening")
    await station.apply(wanted(made, ports=[port], variables=variables))
    try:
        seen = await station.ended(SERVICE)
    finally:
        await station.engine.remove(other)
    assert f"port {port} of this machine is taken{by}" in seen.reason


async def test_the_log_of_a_program_that_ends_for_another_reason_does_not_mention_ports(rig, station):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        await station.apply(wanted(rig.made(programs.ENDS), ports=[taken.getsockname()[1]]))
        assert (await station.ended(SERVICE)).reason == "exited with code 3"


async def test_a_variable_with_the_internal_port_is_replaced_by_the_assigned_port(rig, station):
    port = free_port()
    for generation in (1, 2):
        variables = {"PORT": str(port), "WHO": str(generation)}
        it = wanted(rig.made(programs.SERVES), ports=[port], generation=generation, variables=variables)
        await station.apply(it)
    await station.hears("listening", times=2)
    seen = await station.seen(SERVICE)
    assert [await ask(each, port) for each in seen] == ["hello from 1", "hello from 2"]
    assert port not in {each.ports[port] for each in seen}


async def test_a_program_keeps_its_port_over_a_restart(rig, station):
    it = wanted(rig.made(programs.ENDS), ports=[80])
    made = await station.apply(it)
    assert (await station.running(SERVICE, restarts=1)).ports == made.ports


async def test_ports_of_instances_that_are_gone_are_free_again(rig, station):
    claims = rig.folder / "ports"
    it = wanted(rig.made(programs.SLEEPS), ports=[80, 81])
    await station.apply(it)
    assert len(list(claims.iterdir())) == 2
    (claims / "10000").symlink_to("somebody/1-0")  # left by a Windlass that was killed in between
    await station.engine.remove(SERVICE)
    await station.engine.sweep(await station.engine.services())
    assert list(claims.iterdir()) == []


async def test_a_paused_server_that_holds_the_port_lock_blocks_calls_only_until_their_timeout(
    rig, station, monkeypatch
):
    monkeypatch.setattr(ports, "_LOCK_TIMEOUT", 0.3)
    await station.engine.neighbour_address("environment", SERVICE, "shop", 8080)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    with holder(station.engine._places._lock) as process:
        process.send_signal(signal.SIGSTOP)
        counting = asyncio.create_task(count_turns())
        with pytest.raises(EngineUnavailable, match=f"resume or end the process {process.pid}"):
            await station.engine.neighbour_address("environment", SERVICE, "shop", 9090)
        counting.cancel()
        assert turns > 3
        assert await station.engine.neighbour_address("environment", SERVICE, "shop", 8080)  # known already
    assert await station.engine.neighbour_address("environment", SERVICE, "shop", 9090)


async def test_a_port_on_which_another_program_listens_is_not_reported_for_the_instance(rig, station):
    it = wanted(rig.made(programs.SLEEPS), ports=[8080, 8081])
    await station.apply(it)
    (seen,) = await station.seen(SERVICE)
    with socket.create_server(("127.0.0.1", seen.ports[8080])):
        (robbed,) = await station.seen(SERVICE)
        assert robbed.ports == {8081: seen.ports[8081]}
    assert [each.ports for each in await station.seen(SERVICE)] == [seen.ports]


@pytest.mark.slow
async def test_a_port_shared_with_another_program_is_not_reported_for_the_instance(rig, station):
    """The control is the same port once the other program has ended."""
    it = wanted(rig.made(SHARES_ITS_PORT), ports=[8080], variables={"AFTER": "2"})
    made = await station.apply(it)
    owner = station.engine._starter._isolation.owner(SERVICE)
    variables = {"PORT": str(made.ports[8080])}
    become = "" if owner is None else f"import os, socket, sys, time; os.setresuid({owner}, {owner}, {owner})"
    command = [sys.executable, "-I", "-S", "-c", become + SHARES_ITS_PORT]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"listens\n"
        await station.hears("listens")
        (shared,) = await station.seen(SERVICE)
        other.kill()
    assert shared.ports == {}
    (alone,) = await station.seen(SERVICE)
    assert alone.ports == made.ports
    assert station.engine._instances.supervisors.of(KEY).heard == made.ports


LETS_GO_OF_ITS_PORT = """
import os, socket, sys, time
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), reuse_port=True)
print("listens", flush=True)
while not os.path.exists(os.environ["WINDLASS_VOLUME_DATA"] + "/go"):
    time.sleep(0.01)
server.close()
print("let go", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("is_robbed", [True, False])
async def test_a_port_that_another_program_has_taken_later_is_not_reported_any_more(rig, station, is_robbed):
    """The control is a port that no other program has taken."""
    it = wanted(rig.made(LETS_GO_OF_ITS_PORT), ports=[8080], volumes=(Volume(name="data", mount="/data"),))
    made = await station.apply(it)
    await station.hears("listens")
    assert [each.ports for each in await station.seen(SERVICE)] == [made.ports]
    assert station.engine._instances.supervisors.of(KEY).heard == made.ports
    (volume,) = (rig.folder / "volumes").rglob("data")
    (volume / "go").touch()
    await station.hears("let go")
    with socket.create_server(("127.0.0.1", made.ports[8080])) if is_robbed else nullcontext():
        (seen,) = await station.seen(SERVICE)
    assert seen.ports == ({} if is_robbed else made.ports)
