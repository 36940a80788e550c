"""Networks of instances are there as long as they are needed, whatever is killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.engines import programs
from tests.engines.rollouts import tcp
from tests.engines.stations import Station, ask, until, wanted
from tests.marks import either, nightly
from tests.needs import needs, needs_root, ordinary_user
from tests.process.helpers import SERVICE, answer_of
from windlass.base.isolation import calls, namespace_holder, netlink, network
from windlass.base.isolation.isolation import Isolation, NetworkRules
from windlass.base.isolation.step_launcher import StepLauncher
from windlass.engines.engine import NotReady
from windlass.engines.workload import Phase
from windlass.process import inspection, networks
from windlass.process.builds.cells import BuildStep, Cells

PORT = 8000
LONGER_THAN_A_LOOK = namespace_holder.CHECK_INTERVAL + 0.5
OF_USERS = Path(__file__).with_name("networks_of_users.py")


@pytest.fixture(scope="module", autouse=True)
def _needs_networks():
    if not Isolation("auto", Path("/nowhere"), rules=NetworkRules()).has_networks():
        pytest.skip("needs a kernel with network namespaces, veth and nf_tables")


@pytest.mark.slow
@needs_root
@needs("pasta")
def test_the_network_tests_pass_for_an_unprivileged_user():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        tried = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
        files = either([str(OF_USERS)], [__file__, str(OF_USERS)])
        as_root = "for_an_unprivileged_user", "drops_its_privileges", "start_removes_tables"
        tried += ["-k", " and ".join(f"not {each}" for each in as_root)]
        command = [*ordinary_user(), *tried, f"--basetemp={folder}/made", *files]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOME": folder})
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def kept(rig, name):
    return json.loads((rig.folder / "networks" / name).read_text())["pid"]


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def hubs(rig):
    return sorted(path.name for path in (rig.folder / "networks").glob("*.hub"))


@pytest.mark.parametrize("which", ["hub", "trunk"])
async def test_an_instance_whose_network_was_killed_is_started_in_a_new_one(rig, station, which):
    it = wanted(rig.made(programs.SERVES), ports=[PORT], variables={"WHO": "it"})
    made = await station.apply(it)
    await station.hears("listening")
    os.kill(kept(rig, hubs(rig)[0] if which == "hub" else "trunk"), signal.SIGKILL)

    async def is_new():
        if which == "hub":
            await station.engine._resource_monitor.tidy_networks()
        found = await station.one(SERVICE)
        return found.network != made.network and await ask(found, PORT) == "hello from it"

    await until(is_new)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["hub", *nightly("trunk")])
@pytest.mark.parametrize("counts", [False, *nightly(True)])
async def test_a_network_that_is_killed_during_a_deployment_does_not_fail_it(
    rig, station, monkeypatch, which, counts
):
    """The control counts the end of the instance as that of its program."""
    if counts:
        monkeypatch.setattr(inspection, "exit_reason", SimpleNamespace(CUT_OFF=frozenset()))
    slow = "import time; time.sleep(2)" + programs.SERVES
    it = wanted(rig.made(slow), ports=[PORT], ready=(tcp(PORT),), patience=60.0)
    made = await station.apply(it)
    waiting = asyncio.create_task(station.engine.wait_until_ready(it, 1))
    os.kill(kept(rig, hubs(rig)[0] if which == "hub" else "trunk"), signal.SIGKILL)

    async def is_over():
        await station.engine._resource_monitor.tidy_networks()
        return waiting.done()

    await until(is_over)
    assert isinstance(waiting.exception(), NotReady) is counts
    if not counts:
        assert (await station.one(SERVICE)).network != made.network


async def test_a_killed_network_is_the_reason_of_an_end_that_is_not_recorded_yet(rig, station, monkeypatch):
    await station.apply(wanted(rig.made(programs.SLEEPS)))
    ends = station.engine._instances._ends
    record_end, may_record = ends.record, asyncio.Event()

    async def record_later(*args, **named):
        await may_record.wait()
        return await record_end(*args, **named)

    monkeypatch.setattr(ends, "record", record_later)
    os.kill(kept(rig, hubs(rig)[0]), signal.SIGKILL)

    async def has_ended():
        await station.engine._resource_monitor.tidy_networks()
        return (await station.one(SERVICE)).phase is not Phase.RUNNING

    await until(has_ended)
    assert (await station.one(SERVICE)).is_cut_off
    may_record.set()


@pytest.mark.slow
async def test_networks_end_when_no_instance_and_no_engine_uses_them(rig):
    async with Station(rig) as station:
        await station.apply(wanted(rig.made(programs.SLEEPS)))
        used = [kept(rig, name) for name in (*hubs(rig), "trunk")]
        await station.engine._starter.networks.hub("empty", "acme")  # type: ignore[attr-defined]
        empty = kept(rig, "empty.hub")
        await asyncio.sleep(LONGER_THAN_A_LOOK)
        assert lives(empty), "an engine runs"

    async def have_ended():
        return not any(map(lives, ended))

    ended = [empty]
    await until(have_ended)
    assert all(map(lives, used)), "an instance is in them"
    async with Station(rig) as station:
        await station.engine.discard(SERVICE)
    ended = used
    await until(have_ended)
    async with Station(rig) as station:
        await station.apply(wanted(rig.made(programs.SLEEPS), service=f"2{SERVICE[1:]}"))
        assert all(map(lives, [kept(rig, name) for name in (*hubs(rig), "trunk")]))
        await station.engine.sweep(await station.engine.services())


async def test_network_processes_end_when_their_folder_is_removed(rig, station):
    await station.apply(wanted(rig.made(programs.SLEEPS)))
    holders = [kept(rig, name) for name in (*hubs(rig), "trunk")]
    assert all(map(lives, holders))
    (rig.folder / "networks").rename(rig.folder / "elsewhere")

    async def have_ended():
        return not any(map(lives, holders))

    await until(have_ended)


@needs_root
def test_a_network_holder_drops_its_privileges_before_the_server_continues(tmp_path):
    """The server goes on when the descriptors are closed. An ordinary user's socket server could not open the
    network of a holder with more rights than its own."""
    closed, held = os.pipe()
    child = os.fork()
    if not child:
        os.close(closed)
        file = tmp_path / "a.hub"
        file.write_text(json.dumps({"pid": os.getpid()}))
        hub = network.CellNetwork(kind="hub")
        calls.run_to_exit(lambda: namespace_holder.hold(str(file), hub, None), lambda error: None, 1)
    os.close(held)
    try:
        assert os.read(closed, 1) == b""
        status = Path(f"/proc/{child}/status").read_text()
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    finally:
        os.close(closed)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def test_two_engines_on_one_folder_share_the_network_hub_of_an_environment(rig, station):
    async with Station(rig) as other:
        for number, each in enumerate((station, other)):
            await each.apply(wanted(rig.made(programs.SLEEPS), service=f"{number}{SERVICE[1:]}"))
        assert len(hubs(rig)) == 1


@pytest.mark.parametrize(
    ("name", "is_given"),
    [
        ("main-db", True), ("api2", True), ("localhost", False), ("LocalHost", False),
        ("ip6-loopback", False), ("api.example.com", False), ("a b", False),
    ],
)  # fmt: skip
def test_the_machines_name_and_public_host_names_are_not_resolved_to_services(name: str, is_given: bool):
    assert bool(networks._HOST_NAME_PATTERN.match(name.lower())) == is_given


async def test_build_steps_of_two_environments_share_no_limit_of_connections(rig, station):
    steps = [await station.engine.network_of_steps("acme", name) for name in ("shop", "blog", "shop")]
    outer = [step["outer"] for step in steps]
    assert outer[0] == outer[2] != outer[1]


@pytest.mark.parametrize("is_seen", [True, *nightly(False)])
async def test_a_build_step_that_runs_for_long_keeps_its_hub_and_limit(rig, station, monkeypatch, is_seen):
    """With a new hub, its environment would have as many connections again."""
    if not is_seen:
        monkeypatch.setattr(networks, "is_used", lambda *_: False)
    steps = StepLauncher(station.engine.network_of_steps)
    home = rig.folder / "step"
    home.mkdir()
    cells = Cells(station.engine._isolation, "service", home, home, launcher=steps, environment="shop")
    step = BuildStep(["sh", "-c", "echo began; sleep 100"], home, {"PATH": "/usr/bin:/bin"}, {})
    async with cells.running(step) as (process, _), asyncio.timeout(20):
        assert await process.stdout.readline() == b"began\n"
        os.utime(rig.folder / "networks" / "steps-shop.hub", (0, 0))
        await station.engine._resource_monitor.tidy_networks()
        assert hubs(rig) == (["steps-shop.hub"] if is_seen else [])


async def test_an_unused_network_hub_is_removed_some_minutes_after_its_last_request(rig, station):
    made = await station.engine.network_of_steps("acme", "shop")
    await station.engine._starter.networks.hub("empty", "acme")
    folder = rig.folder / "networks"
    for name in hubs(rig):
        os.utime(folder / name, (0, 0))
    assert await station.engine.network_of_steps("acme", "shop") == made
    await station.engine._resource_monitor.tidy_networks()
    assert hubs(rig) == ["steps-shop.hub"]


LOOKS_ITSELF_UP = """
import os, socket
os.environ["RES_OPTIONS"] = "attempts:1 timeout:1"
try:
    found = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), 80, socket.AF_INET)}
except OSError:
    found = "nothing"
print(f"found {found}", flush=True)
"""


async def test_a_program_resolves_the_machines_name_to_its_own_loopback_address(rig, station):
    await station.engine.once(wanted(rig.made(LOOKS_ITSELF_UP)))
    await station.hears("found {'127.0.0.1'}")


@pytest.mark.nightly
async def test_without_the_hosts_entry_a_program_does_not_resolve_the_machines_name(
    rig, station, monkeypatch
):
    monkeypatch.setattr(networks, "_MACHINE_NAME_PATTERN", re.compile("(?!)"))
    await station.engine.once(wanted(rig.made(LOOKS_ITSELF_UP)))

    async def has_said():
        return any(line.startswith("found") for line in station.said)

    await until(has_said)
    assert "found {'127.0.0.1'}" not in station.said


@pytest.mark.parametrize("machine", ["db", "DB"])
def test_a_service_named_like_the_machine_is_resolved_by_others_under_that_name(
    tmp_path, monkeypatch, machine
):
    monkeypatch.setattr("socket.gethostname", lambda: machine)
    networks._write_hosts(tmp_path / "hosts", [])
    assert f"127.0.0.1 {machine}" in (tmp_path / "hosts").read_text()
    networks._write_hosts(tmp_path / "hosts", ["198.18.128.1 db"])
    assert f"127.0.0.1 {machine}" not in (tmp_path / "hosts").read_text()
    assert networks._service_lines(tmp_path / "hosts") == ["198.18.128.1 db"]


def start_beside_left_tables(rig, answer) -> None:
    """Starts an engine on a machine that has the table of a trunk that was killed, and of one that lives."""
    calls.unshare(calls.CLONE_NEWNET)
    ours = os.open("/proc/self/ns/net", os.O_RDONLY)
    with netlink.Netlink() as here:
        here.make_pair("windlass8", "peer", ours)
    for name in ("windlass7", "windlass8", "of another program"):
        netlink.write_table(name, {"forward": []})
    before = network.left_trunks()
    asyncio.run(start_and_stop(rig))
    answer.send((before, netlink.tables()))


async def start_and_stop(rig):
    async with Station(rig):
        pass


@needs_root
def test_a_start_removes_tables_of_trunks_that_were_killed_while_no_server_ran(rig):
    before, after = answer_of(start_beside_left_tables, rig)
    assert (before, after) == (["windlass7"], ["windlass8", "of another program"])
