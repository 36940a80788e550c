"""Services of one organization leave processes, threads and open files of the machine for others."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from windlass.base.isolation import user_limits
from windlass.base.kernel_shares import KernelUse, Scarce, heaviest
from windlass.base.open_files import inherited_files, mapped_files, open_files
from windlass.process import process_table, resource_monitor
from windlass.process.records import InstanceKey

STARTS_THREADS = """
import os, signal, threading
files = []
for _ in range(int(os.environ["COUNT"])):
    threading.Thread(target=signal.pause, daemon=True).start()
    files.append(open(os.devnull))
print("has started", flush=True)
signal.pause()
"""
FEW = 800
MOST = 400
"""Processes of a machine, of which one organization may have 100 if they are scarce."""
CROWD = {f"{number}1111111-aaaa-4aaa-8aaa-000000000001": 40 for number in range(3)}
OTHER = "91111111-aaaa-4aaa-8aaa-000000000001"


@pytest.fixture
async def station(tmp_path):
    async with Station(ProcessRig(tmp_path)) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


@pytest.fixture(params=["processes", "files"])
def kind(request):
    return request.param


@pytest.fixture
def present(monkeypatch, kind):
    """Sets how many processes or open files the machine has, of MOST."""

    def set_present(count: int) -> None:
        monkeypatch.setattr(resource_monitor, f"most_{kind}", lambda: MOST)
        monkeypatch.setattr(resource_monitor, f"present_{kind}", lambda: count)

    return set_present


async def start_all(station: Station, other: dict[str, Any] | None = None) -> None:
    """Starts a crowd of services, and one with more: of another organization, or of what `other` says."""
    made = await station.rig.artifact(STARTS_THREADS)
    for service, count in {**CROWD, OTHER: 60}.items():
        owner: dict[str, Any] = {"org": "crowd"} | ((other or {"org": "other"}) if service == OTHER else {})
        await station.apply(wanted(made, service=service, variables={"COUNT": str(count)}, **owner))
    await station.hears("has started", 4)


async def reasons(station: Station) -> list[str]:
    return [seen.reason for service in CROWD for seen in await station.seen(service) if seen.reason]


@pytest.mark.slow
async def test_the_services_of_one_organization_leave_processes_and_files_for_others(station, present, kind):
    present(0)
    await start_all(station)
    present(MOST // 2 + 1)

    async def one_was_ended():
        return await reasons(station)

    await until(one_was_ended)
    words = {"processes": r"had 42 processes and threads", "files": r"had \d\d open files"}
    assert re.match(f"{words[kind]}, the most of its environment", (await reasons(station))[0])
    assert not (await station.one(OTHER)).reason
    present(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "is_spared"),
    [
        pytest.param({"environment": OTHER}, True, id="another environment"),
        pytest.param({"org": "crowd"}, False, id="the same environment", marks=pytest.mark.nightly),
    ],
)
async def test_the_services_of_one_environment_leave_processes_and_files_for_other_environments(
    station, present, kind, other, is_spared
):
    present(0)
    await start_all(station, other)
    present(MOST // 2 + 1)

    async def one_was_ended():
        return await reasons(station) or (await station.one(OTHER)).reason

    await until(one_was_ended)
    assert bool((await station.one(OTHER)).reason) is not is_spared
    present(0)


@pytest.mark.nightly
async def test_while_enough_processes_and_files_are_free_no_service_is_ended(station, present):
    present(MOST // 2)
    await start_all(station)
    await station.engine._resource_monitor._share_processes()
    await station.engine._resource_monitor._share_files()
    assert not await reasons(station)


async def test_scarce_processes_used_outside_of_services_are_logged(station, present, caplog):
    present(MOST)
    await station.engine._resource_monitor._share_processes()
    await station.engine._resource_monitor._share_files()
    assert "find out which programs use most of what gets scarce" in caplog.text
    present(0)


@pytest.mark.parametrize(
    ("counts", "present", "ended"),
    [
        ({"a1": 90, "a2": 20, "b1": 95}, 201, "a1"),  # a has more than a quarter
        ({"a1": 90, "a2": 20, "b1": 95}, 200, None),  # half is free
        ({"a1": 50, "a2": 50, "b1": 95}, 350, None),  # each has a quarter at most
        ({"a1": 50, "a2": 49, "b1": 95}, 351, "a1"),  # the reserve is used
        ({"a1": 25}, 400, None),  # by others
        ({"a1": 60, "b1": 100}, 360, None),  # most of it belongs to no instance
        ({"a1": 60, "b1": 101}, 360, "b1"),  # but this one has more than its share
        ({"a1": 90, "b1": 95}, 360, "b1"),  # the reserve is used, and most of it is known
    ],
)
def test_the_heaviest_service_of_the_heaviest_organization_is_ended(counts, present, ended):
    uses = {InstanceKey(name, 1, 0): KernelUse(name[0], count) for name, count in counts.items()}
    found = heaviest(uses, Scarce("processes", MOST, present))
    assert (found and found.service) == ended


def test_an_environment_with_many_small_services_is_ended_before_one_larger_service_of_another():
    counts = {"play1": 50, "play2": 55, "prod1": 60, "prod2": 10}
    uses = {name: KernelUse("a", count, name[:4]) for name, count in counts.items()}
    scarce = Scarce("processes", MOST, 201)
    assert heaviest(uses, scarce) == "play2"
    without = {name: KernelUse("a", count) for name, count in counts.items()}
    assert heaviest(without, scarce) == "prod1", "without environments, the larger one is ended"


@pytest.mark.parametrize(("built", "ended"), [(54, "play2"), (56, "builds")])
def test_builds_of_an_organization_count_towards_its_heaviest_environment(built, ended):
    counts = {"play1": 50, "play2": 55, "prod1": 60}
    uses = {name: KernelUse("a", count, name[:4]) for name, count in counts.items()}
    assert heaviest({**uses, "builds": KernelUse("a", built)}, Scarce("memory", MOST, 201)) == ended


def test_a_per_user_process_limit_is_not_taken_as_the_limit_of_the_machine(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (FEW, FEW))
    assert user_limits.most_processes() > FEW
    assert user_limits.share_of_processes() == FEW // 8


def test_a_machine_has_one_open_file_for_each_10_kib_of_memory_at_most(monkeypatch):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for set_number, most in (("1000\n", 1000), (f"{2**63 - 1}\n", memory // 10240)):
        monkeypatch.setattr(user_limits, "_read", lambda path, number=set_number: int(number))
        assert user_limits.most_files() == most
    assert user_limits.present_files() > 0


def test_open_files_of_a_process_are_counted(tmp_path):
    before = open_files(os.getpid())
    files = [(tmp_path / "file").open("w") for _ in range(300)]
    assert open_files(os.getpid()) >= before + 200  # before Linux 6.2 roughly
    for file in files:
        file.close()


MAPS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
for number in range(100):
    file = os.open(sys.executable, os.O_RDONLY)
    # Private, and with two protections, since the kernel joins maps that are alike.
    libc.mmap(None, ctypes.c_size_t(4096), number % 2 + 1, 2, file, ctypes.c_long(0))
    os.close(file)
print("done", flush=True)
sys.stdin.read()
"""


def test_mapped_and_closed_files_are_counted():
    command = [sys.executable, "-c", MAPS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"done\n"
        assert mapped_files(holder.pid) > 100
        assert open_files(holder.pid) < 20
    assert mapped_files(os.getpid()) < len(Path("/proc/self/maps").read_text().splitlines()) / 2


@pytest.mark.parametrize("has_own", [True, False])
def test_open_files_inherited_from_the_server_are_recognized(tmp_path, has_own):
    files = [(tmp_path / "file").open("w") for _ in range(300)]
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        if has_own:
            for file in files:
                os.dup2(os.open(os.devnull, os.O_RDONLY), file.fileno())
        os.write(tell, b"+")
        signal.pause()
    try:
        os.read(hear, 1)
        assert (inherited_files(child, os.getpid()) >= 300) is not has_own
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for number in (hear, tell):
            os.close(number)
        for each in files:
            each.close()


LEAVES_DEAD_CHILDREN = """
import os, subprocess, sys
children = [subprocess.Popen(["/bin/true"]) for _ in range(20)]
for each in children:
    os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOWAIT)
print("all have ended", flush=True)
sys.stdin.readline()
for each in children:
    each.wait()
print("all are reaped", flush=True)
sys.stdin.readline()
"""


def test_processes_that_have_ended_count_until_they_are_reaped(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES_DEAD_CHILDREN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        assert parent.stdout.readline() == b"all have ended\n"
        assert process_table.count(tmp_path).dead_children[parent.pid] == 20
        parent.stdin.write(b"reap them\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"all are reaped\n"
        assert process_table.count(tmp_path).dead_children.get(parent.pid, 0) == 0
        parent.stdin.close()
