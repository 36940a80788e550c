"""Networks of instances of an ordinary user: run by test_networks.py as one."""

from __future__ import annotations

import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from tests.engines import programs
from tests.engines.stations import ask, until, wanted
from tests.process.test_networks import PORT, hubs, kept, lives
from windlass.base.isolation import socket_server
from windlass.base.isolation.instance_connections import connect, make_socket
from windlass.base.isolation.network import NamespaceHolder, start_of
from windlass.base.isolation.pasta import has_pasta_interface
from windlass.base.isolation.socket_server import TCP, SocketServerUnavailable


async def test_a_killed_pasta_is_restarted_and_the_network_reaches_the_internet_again(rig, station):
    await station.apply(wanted(rig.made(programs.SLEEPS)))
    trunk = kept(rig, "trunk")
    first = pasta_of(trunk)
    os.kill(first, signal.SIGKILL)

    async def leads_out_again():
        return pasta_of(trunk) not in (None, first) and has_pasta_interface(trunk)

    await until(leads_out_again)


async def test_pasta_ends_when_the_trunk_network_or_its_exit_process_is_killed(rig, station):
    await station.apply(wanted(rig.made(programs.SLEEPS)))
    for name in ("exit", "trunk"):
        pasta = pasta_of(kept(rig, "trunk"))
        os.kill(kept(rig, name), signal.SIGKILL)

        async def has_ended(pasta=pasta):
            await station.engine._resource_monitor.tidy_networks()
            return not lives(pasta) and hubs(rig) and pasta_of(kept(rig, "trunk")) is not None

        await until(has_ended)


def pasta_of(trunk):
    """Returns the process of pasta that leads out of this trunk."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/pasta") and words[-2] == str(trunk).encode():
            return int(path.parent.name)
    return None


async def test_the_out_of_memory_killer_prefers_instances_to_network_processes(rig, station):
    made = wanted(rig.made(programs.SLEEPS))
    await station.apply(made)
    trunk = kept(rig, "trunk")
    holders = [trunk, kept(rig, "exit"), kept(rig, hubs(rig)[0]), pasta_of(trunk)]
    assert {score(pid) for pid in holders} == {score(os.getpid())}
    assert score(station.engine._records.known(station.engine._records.find()[0]).process.pid) > score(trunk)


def score(pid):
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def test_a_hanging_network_holder_process_does_not_delay_starts_of_instances(rig, station):
    made = await station.apply(wanted(rig.made(programs.SERVES), ports=[PORT], variables={"WHO": "it"}))
    await station.hears("listening")
    trunk = kept(rig, "trunk")
    os.kill(trunk, signal.SIGSTOP)
    try:
        with pytest.raises(SocketServerUnavailable, match="does not answer"):
            make_socket(made.network, TCP)
        with pytest.raises(SocketServerUnavailable, match="does not answer"):
            await connect(made.network, made.address, made.ports[PORT])
    finally:
        os.kill(trunk, signal.SIGCONT)
    assert await ask(made, PORT) == "hello from it"


async def test_the_socket_server_makes_only_permitted_kinds_of_sockets_in_networks_of_the_installation(
    rig, station
):
    made = await station.apply(wanted(rig.made(programs.SLEEPS)))
    holder = NamespaceHolder.read(made.network)
    raw = TCP._replace(type=socket.SOCK_RAW)
    with pytest.raises(ProcessLookupError, match="kind"):
        socket_server.request_socket(holder, raw)
    ourselves = holder._replace(pid=os.getpid(), start=start_of(os.getpid()))
    with pytest.raises(ProcessLookupError, match="denied"):  # the network of the machine
        socket_server.request_socket(ourselves, TCP)
    make_socket(made.network, TCP).close()
    assert stat.S_IMODE(Path(holder.socket_server).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(holder.socket_server).parent.stat().st_mode) == 0o700
