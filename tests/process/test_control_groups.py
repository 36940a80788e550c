"""Control groups hold limits and children, where the machine gives some."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, wanted
from tests.marks import nightly
from tests.process.helpers import KEY, answer_of
from windlass.base import abandoned_cgroups, cgroups, kernel
from windlass.base.isolation import cell_entry, launcher_client
from windlass.process import resource_monitor
from windlass.process.records import Record, RecordStore
from windlass.process.spawn import Spawner, SpawnRequest

GROWS = """
import time
print("here", flush=True)
time.sleep({wait})
held = b"x" * (150 << 20)
print("has grown", flush=True)
time.sleep(60)
"""
HIDES = """
import os, time
if os.fork() == 0:
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.execve("/bin/sleep", ["sleep", "1000"], {})
print("here", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def delegated():
    """A control group that is given to us, as systemd does."""
    mount = cgroups.mount()
    group = (mount or Path("/nowhere")) / f"windlass-test-{os.getpid()}"
    try:
        group.mkdir()
        os.setxattr(group, "trusted.delegate", b"1")
    except OSError as error:
        pytest.xfail(f"no control group can be made on this machine: {error.strerror}")
    yield group
    for each in (*sorted(group.rglob("*/"), reverse=True), group):
        while (each / "cgroup.procs").read_text():  # the process that bounds unread output ends by itself
            time.sleep(0.02)
        each.rmdir()


def live_in(group: Path, rig: ProcessRig, answer: Any) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
    answer.send(asyncio.run(_live(rig)))


async def _live(rig: ProcessRig) -> tuple[Sequence[str], list[str], list[str]]:
    async with Station(rig) as station:
        it = wanted(rig.made(HIDES))
        await station.apply(it)
        await station.hears("here")
        record = RecordStore(rig.folder).read(KEY)
        assert record is not None
        there = cgroups.members(record.groups)
        inside = [str(kernel.stat(pid)) for pid in there if not kernel.leads_namespace(pid)]
        await station.engine.remove(it.service, grace=1)
        return record.groups, inside, [str(pid) for pid in cgroups.members(record.groups)]


def test_ending_an_instance_with_a_control_group_kills_even_detached_children(tmp_path, delegated):
    groups, inside, after = answer_of(live_in, delegated, ProcessRig(tmp_path, networks=False))
    if len(groups) == 1:
        assert Path(groups[0]).is_relative_to(delegated)
    else:  # version 1
        of_service = Path(groups[0]).parent.name
        assert {*map(Path, groups)} == {
            at / of_service / Path(groups[0]).name for name, at in cgroups.find_v1().items() if name != "cpu"
        }
    assert len(inside) == 2
    assert after == []
    assert not any(Path(group).parent.exists() for group in groups)


def test_the_control_group_that_an_earlier_version_recorded_is_kept():
    it = msgspec.json.decode(
        b'{"service":"a","pod":"a-1-0","deployment":"","org":"","workdir":"","memory":1,"cgroup":"/x"}',
        type=Record,
    )
    assert it.groups == ("/x",)
    assert msgspec.json.decode(msgspec.json.encode(it), type=Record) == it


@pytest.mark.parametrize(
    ("controllers", "limits"),
    [
        ("cpu memory pids", {"cpu.max": "50000 100000", "memory.max": str(64 << 20), "pids.max": "4096"}),
        ("cpuset io", {}),
    ],
)
def test_a_control_group_gets_the_limits_of_its_available_controllers(tmp_path, controllers, limits):
    base = tmp_path / "given"
    base.mkdir()
    (base / "cgroup.controllers").write_text(controllers)
    (base / "cgroup.procs").touch()
    groups = cgroups.Cgroups(base, tmp_path)
    groups.prepare()
    [made] = map(Path, groups.make("web", "web-1-0", cpu=500, memory=64, together=192))
    assert {name: (made / name).read_text() for name in limits} == limits
    assert {name for name in ("cpu.max", "memory.max", "pids.max") if (made / name).exists()} == limits.keys()
    if limits:
        for divided in (base, made.parent):
            assert "+pids" in (divided / "cgroup.subtree_control").read_text().split()
        assert (made.parent / "memory.max").read_text() == str(192 << 20)


@pytest.mark.parametrize(
    ("line", "typed", "given"),
    [
        ("0::/", False, None),  # the whole machine's: systemd's, not ours
        ("0::/", True, "."),  # a container with a namespace of its own
        ("0::/user.slice/shop.service", True, None),  # belongs to root, and was delegated to no user
        ("1:cpu:/", True, None),
    ],
)
def test_only_a_control_group_delegated_to_windlass_is_subdivided(tmp_path, line, typed, given):
    mount, proc = tmp_path / "cgroup", tmp_path / "proc"
    group = mount / line.rpartition(":")[2].strip("/")
    group.mkdir(parents=True)
    proc.mkdir()
    (proc / "cgroup").write_text(f"5:pids:/\n{line}\n")
    (proc / "mountinfo").write_text(f"30 24 0:26 / {mount} rw,relatime - cgroup2 cgroup2 rw\n")
    (group / "cgroup.procs").touch()
    if typed:
        (group / "cgroup.type").write_text("domain")
    found = cgroups.find(proc)
    if os.getuid() != 0 and line.startswith("0::/user"):
        given = line.partition("::/")[2]  # its owner is not root
    assert found == (None if given is None else Path(os.path.normpath(mount / given)))


SYSTEMD_RUN = """#!{python}
import os, sys
words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
group = os.path.join({mount!r}, words["slice"], words["unit"])
os.mkdir(group)
os.setxattr(group, "user.delegate", b"1")
for name, text in (("controllers", "cpu memory pids"), ("type", "domain"), ("procs", "")):
    open(os.path.join(group, "cgroup." + name), "w").write(text)
"""
REFUSING = "#!/bin/sh\necho 'Access denied' >&2\nexit 1\n"


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The delegated group of a server's systemd unit, and the program `systemd-run`."""
    own = tmp_path / "cgroup/system.slice/windlass.service"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpu memory pids")
    (own / "cgroup.type").write_text("domain")
    (own / "cgroup.procs").touch()
    os.setxattr(own, "user.delegate", b"1")
    program = tmp_path / "bin/systemd-run"
    program.parent.mkdir()
    program.write_text(SYSTEMD_RUN.format(python=sys.executable, mount=str(tmp_path / "cgroup")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return own


def test_services_are_in_a_systemd_unit_of_their_own_as_systemd_starts_servers_in_the_group_of_theirs(
    unit: Path, tmp_path: Path
):
    groups = cgroups.Cgroups(None, tmp_path, unit=unit)
    groups.prepare()
    [made] = map(Path, groups.make("web", "web-1-0", cpu=500, memory=64, together=192))
    assert made.is_relative_to(unit.parent / "windlass-services.service")
    assert [*unit.glob("*/")] == []
    assert not (unit / "cgroup.subtree_control").exists()


def test_without_a_unit_for_services_the_group_of_the_server_stays_undivided(
    unit: Path, tmp_path: Path, caplog
):
    (tmp_path / "bin/systemd-run").write_text(REFUSING)
    groups = cgroups.Cgroups(None, tmp_path, unit=unit)
    groups.prepare()
    assert groups.make("web", "web-1-0", cpu=500, memory=64, together=192) == ()
    assert not (unit / "cgroup.subtree_control").exists()
    assert "Access denied" in caplog.text


def test_a_unit_for_services_that_was_stopped_is_started_again(unit: Path, tmp_path: Path):
    groups = cgroups.Cgroups(None, tmp_path, unit=unit)
    groups.prepare()
    shutil.rmtree(unit.parent / "windlass-services.service")
    [made] = groups.make("web", "web-1-0", cpu=500, memory=64, together=192)
    assert Path(made).is_dir()


def test_doctor_sees_the_controllers_of_the_server_from_the_group_of_a_shell(unit: Path, tmp_path: Path):
    cgroups.Cgroups(None, tmp_path, unit=unit).prepare()
    assert cgroups.Cgroups(None, tmp_path).offered() == {"cpu", "memory", "pids"}


@pytest.mark.parametrize("child", ["", "/windlass"])  # systemd makes the child with DelegateSubgroup=windlass
@pytest.mark.parametrize("controllers", ["cpu memory pids", "cpuset io"])
def test_only_a_group_in_which_systemd_starts_the_server_is_not_divided(
    unit: Path, tmp_path: Path, controllers: str, child: str
):
    (unit / "cgroup.controllers").write_text(controllers)
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(f"0::/system.slice/windlass.service{child}\n")
    (proc / "mountinfo").write_text(f"30 24 0:26 / {tmp_path}/cgroup rw - cgroup2 cgroup2 rw\n")
    assert cgroups.find(proc) == (None if "memory" in controllers and not child else unit)


@pytest.mark.parametrize("has_groups", [True, False])
async def test_an_executed_command_joins_the_control_groups_of_its_instance(tmp_path, has_groups):
    if has_groups and "memory" not in cgroups.of_machine(tmp_path).offered():
        pytest.xfail("no control group can be made on this machine")
    rig = ProcessRig(tmp_path, networks=False, has_groups=has_groups)
    async with Station(rig) as station:
        instance = await station.apply(wanted(rig.made("import time; time.sleep(1000)")))
        code, said = await station.engine.execute(instance, ["cat", "/proc/self/cgroup"], 10)
        await station.engine.remove(instance.service, grace=1)
    assert code == 0
    assert (instance.id in said) is has_groups


async def test_control_groups_that_a_killed_server_left_are_removed(tmp_path):
    groups = cgroups.of_machine(tmp_path)
    if "memory" not in groups.offered():
        pytest.xfail("no control group can be made on this machine")
    groups.prepare()
    made = [Path(group) for name in "ab" for group in groups.make(name, f"{name}-1-0", 500, 64, 64)]
    groups.tidy(lambda: {"a-1-0"})
    assert [group.name for group in made if group.exists()] == ["a-1-0"] * (len(made) // 2)
    groups.tidy(set)
    assert not any(group.parent.exists() for group in made)


def test_groups_of_installations_that_are_gone_are_removed_after_a_day_and_those_in_use_stay(
    delegated, monkeypatch
):
    now = 0.0
    monkeypatch.setattr(abandoned_cgroups, "time", SimpleNamespace(monotonic=lambda: now))
    gone = [delegated / "service.1.a/a-1-0", delegated / f"guests.1.{2**22 + 1}.0.org/environment.e"]
    used = [
        delegated / "service.1.b/b-1-0",
        delegated / "service.2.own/own-1-0",
        delegated / f"guests.1.{os.getpid()}.0.org/environment.e",
    ]
    for group in (*gone, *used):
        group.mkdir(parents=True)
    groups = abandoned_cgroups.AbandonedGroups()
    with subprocess.Popen(["sleep", "60"]) as program:
        cgroups.enter([str(used[0])], program.pid)
        for hours, there in ((0, [*gone, *used]), (23, [*gone, *used]), (24, used)):
            now = hours * 3600.0
            groups.remove([delegated], name_prefix="service.2.")
            assert [group for group in (*gone, *used) if group.parent.exists()] == there
        program.kill()


@pytest.mark.parametrize("has_groups", [True, False])
async def test_a_machine_without_control_groups_may_serve_only_one_organization(tmp_path, has_groups):
    if os.geteuid() or (has_groups and "memory" not in cgroups.of_machine(tmp_path).offered()):
        pytest.xfail("no control group can be made on this machine")
    async with Station(ProcessRig(tmp_path, has_groups=has_groups)) as station:
        why = await station.engine.why_one_organization()
    assert why.startswith("they share memory") is not has_groups


@pytest.mark.slow
@pytest.mark.parametrize("is_measured", [True, *nightly(False)])
async def test_an_instance_started_before_control_groups_existed_is_still_limited_in_memory(
    tmp_path, monkeypatch, is_measured
):
    if os.geteuid() or "memory" not in cgroups.of_machine(tmp_path).offered():
        pytest.xfail("no control group can be made on this machine")
    if not is_measured:
        monkeypatch.setattr(resource_monitor, "_without_limits", lambda records: {})
    rig = ProcessRig(tmp_path, has_groups=False)
    it = wanted(rig.made(GROWS.format(wait=2)), memory=100)
    async with Station(rig) as station:
        await station.apply(it)
        await station.hears("here")
    async with Station(ProcessRig(tmp_path)) as station:
        if is_measured:  # it may end before it says that it has grown
            assert "started before" in await station.engine.why_one_organization()
            assert "more than its memory" in (await station.ended(it.service)).reason
            while "started before" in await station.engine.why_one_organization():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        else:
            await station.hears("has grown")
            await asyncio.sleep(1)
            assert not (await station.one(it.service)).reason
        await station.engine.sweep(await station.engine.services())


async def test_a_command_is_moved_into_the_groups_of_its_instance_only_when_it_is_ready_to_run(tmp_path):
    """Busy programs of the instance would leave it no processor time to get ready, and all other starts of
    the machine wait for that. The control: a process that enters a group itself writes 0."""
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.procs").touch()
    spawner, output = Spawner(), os.open(os.devnull, os.O_WRONLY)
    try:
        request = SpawnRequest(("sleep", "100"), tmp_path, {}, tmp_path / "output", groups=(str(group),))
        started = spawner.beside(request, output, None)
        assert (group / "cgroup.procs").read_text() == str(started.pid)
        cell_entry.enter_groups([str(group)])
        assert (group / "cgroup.procs").read_text() == "0"
        launcher_client.end(started)
        launcher_client.close(started)
    finally:
        os.close(output)
        spawner.close()
