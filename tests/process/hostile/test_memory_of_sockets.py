"""What the kernel holds for sockets and pipes of an instance counts when memory of the machine gets short,
where no control group counts it."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from windlass.base import kernel_buffers, live_thread
from windlass.base.cgroups import of_machine
from windlass.base.kernel_buffers import KernelBuffers
from windlass.base.process_memory import is_memory_short
from windlass.process import resource_monitor
from windlass.process.memory_shares import MemoryUse, heaviest
from windlass.process.records import InstanceKey

GIB = 1 << 30
MIB = 1 << 20
FILLS, IDLE = "11111111-aaaa-4aaa-8aaa-000000000001", "21111111-aaaa-4aaa-8aaa-000000000001"
OPENS_SOCKETS = """
import os, signal, socket
kept = []
for _ in range(int(os.environ["PAIRS"])):
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    kept.append(pair)
    pair[0].setblocking(False)
    try:
        while os.environ["FILLS"]:
            pair[0].send(bytes(50_000))
    except BlockingIOError:
        pass
print("is open", flush=True)
signal.pause()
"""


@pytest.fixture
async def station(tmp_path):
    async with Station(ProcessRig(tmp_path, has_groups=False)) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


@pytest.fixture
def available(monkeypatch):
    def set_available(count: int) -> None:
        monkeypatch.setattr(resource_monitor, "available_memory", lambda: (count, 16 * GIB))

    set_available(16 * GIB)
    return set_available


async def start_both(station: Station) -> None:
    made = await station.rig.artifact(OPENS_SOCKETS)
    for service, pairs, fills in ((FILLS, 300, "1"), (IDLE, 900, "")):
        variables = {"PAIRS": str(pairs), "FILLS": fills}
        await station.apply(wanted(made, service=service, variables=variables, memory=40))
    await station.hears("is open", 2)


@pytest.mark.slow
async def test_an_instance_that_fills_sockets_beyond_its_memory_is_ended_once_memory_is_memory_short(
    station, available
):
    await start_both(station)
    available(GIB)
    assert "600 open sockets" in (await station.ended(FILLS)).reason
    assert not (await station.one(IDLE)).reason
    available(16 * GIB)


@pytest.mark.nightly
async def test_while_memory_is_free_an_instance_that_fills_sockets_is_not_ended(station, available):
    await start_both(station)
    available(2 * GIB)
    engine: Any = station.engine
    await engine._resource_monitor._keep_memory()
    await engine._resource_monitor._check_memory()
    assert not (await station.one(FILLS)).reason


@pytest.mark.parametrize("has_groups", [True, False])
async def test_a_control_group_counts_what_sockets_hold(tmp_path, has_groups):
    if has_groups and "memory" not in of_machine(tmp_path).offered():
        pytest.xfail("no control group can be made on this machine")
    rig = ProcessRig(tmp_path, has_groups=has_groups)
    async with Station(rig) as station:
        variables = {"PAIRS": "300", "FILLS": "1"}
        await station.apply(wanted(rig.made(OPENS_SOCKETS), service=FILLS, variables=variables, memory=40))
        if has_groups:
            assert "more than its memory of 40 MB" in (await station.ended(FILLS)).reason
        else:
            await station.hears("is open")
        await station.engine.sweep(await station.engine.services())


@pytest.mark.parametrize(
    ("uses", "ended"),
    [
        ({"a": (100, 50, 90), "b": (100, 150, 0), "c": (100, 90, 9)}, "b"),
        ({"a": (100, 50, 190), "b": (100, 150, 0)}, "a"),
        ({"a": (100, 50, 50), "b": (900, 800, 0), "c": (0, 999, 0)}, None),
    ],
    ids=["most above its limit", "with its sockets", "all are within their limits"],
)
def test_the_instance_that_exceeds_its_memory_limit_most_is_ended(uses, ended):
    found = heaviest(
        {
            InstanceKey(name, 1, 0): MemoryUse(limit, used, KernelBuffers(bytes=buffers))
            for name, (limit, used, buffers) in uses.items()
        }
    )
    assert (found and found.service) == ended


@pytest.mark.parametrize(
    ("whole", "reserve"),
    [(64 * GIB, 2 * GIB), (8 * GIB, GIB), (GIB, 256 * MIB), (512 * MIB, 128 * MIB)],
)
def test_the_reserve_is_an_eighth_of_the_machine_within_limits(whole, reserve):
    assert is_memory_short(reserve - 1, whole)
    assert not is_memory_short(reserve, whole)


@pytest.mark.parametrize("may_ask", [True, False])
def test_sockets_and_pipes_that_the_server_cannot_inspect_count_as_full(monkeypatch, may_ask):
    if not may_ask:
        monkeypatch.setattr(live_thread, "_PIDFD_GETFD", 1 << 20)
    pairs = [socket.socketpair() for _ in range(8)]
    pipe = os.pipe()
    child = os.fork()
    if not child:
        signal.pause()
        os._exit(0)
    # Other threads of this process may open sockets, so it is compared only where exact sizes do not count.
    both = [child, os.getpid()] if may_ask else [child]
    try:
        idle = kernel_buffers.held_by(both)
        pairs[0][0].send(bytes(9 << 10))
        os.write(pipe[1], b"x")
        filled = kernel_buffers.held_by(both)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (*pipe, *(one.detach() for pair in pairs for one in pair)):
            os.close(end)
    assert idle.sockets >= 16
    least = 0 if may_ask else 16 * kernel_buffers._default_buffer()
    assert idle.bytes >= least
    # One end has sent; the other counts with the default, for its sender may be closed by now.
    more = (9 << 10) + kernel_buffers._default_buffer() + (64 << 10)
    assert filled.bytes - idle.bytes >= more if may_ask else filled == idle
