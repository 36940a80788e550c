"""The parts of isolation that a machine supports, the messages about the others, and users of services."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engines.processes import open_engine
from tests.needs import needs_root
from windlass.base import kernel
from windlass.base.isolation import isolation, network, pasta
from windlass.base.isolation.isolation import DEFAULT_USER_IDS, programs
from windlass.base.isolation.network import CellNetwork
from windlass.base.isolation.users import NoUserLeft, Users, change_owner, range_of
from windlass.config import BadSetting, Settings
from windlass.engines.findings import Level
from windlass.install.engines import own_settings
from windlass.operate.machine import runs
from windlass.process import doctor as machine_checks
from windlass.process.networks import Networks
from windlass.process.provider import ProcessProvider
from windlass.process.records import InstanceKey, Record, RecordStore
from windlass.process.settings import concerns
from windlass.process.settings import isolation_of as isolation_by
from windlass.process.spawn import Spawner

ALL = {
    "identity": "namespace",
    "mounts": True,
    "processes": True,
    "landlock": 6,
    "socket_filter": True,
    "network": True,
    "why": {},
}
PARTS = ("identity", "mounts", "processes", "landlock", "socket_filter", "network")
NOBODY = 65_534
NONE = {
    "identity": "none",
    "mounts": False,
    "processes": False,
    "landlock": 0,
    "socket_filter": False,
    "network": False,
    "why": dict.fromkeys(PARTS, "it is switched off"),
}


def settings(tmp_path, **given):
    return Settings(data_dir=str(tmp_path), engine="process", **given)


def isolation_of(given: Settings) -> isolation.Isolation:
    return isolation_by(own_settings(ProcessProvider(), given))


@pytest.fixture
def machine(monkeypatch):
    def gives(found):
        monkeypatch.setattr(isolation, "findings", lambda *numbers: found)

    return gives


def test_a_missing_part_that_is_required_is_refused_with_advice(tmp_path, machine):
    machine(NONE)
    with pytest.raises(BadSetting, match=r"isolation: .*user namespace.*it is switched off.*sysctl"):
        isolation_of(settings(tmp_path, isolation="required"))
    isolation_of(settings(tmp_path))
    machine(ALL)
    assert isolation_of(settings(tmp_path, isolation="required")).missing() == []


def test_with_isolation_required_builds_without_pasta_are_refused(tmp_path, machine):
    machine({**ALL, "egress": "pasta is not installed"})
    with pytest.raises(BadSetting, match=r"build steps would share .*pasta is not installed.*passt"):
        isolation_of(settings(tmp_path, isolation="required"))
    isolation_of(settings(tmp_path))  # negative control


@pytest.mark.parametrize("part", PARTS[:-1])
def test_start_and_doctor_report_each_missing_isolation_part(tmp_path, machine, part):
    machine({**ALL, "why": {part: "it is switched off"}})
    [said, *_] = concerns(isolation_of(settings(tmp_path)))
    assert "it is switched off" in said
    assert "windlass doctor" in said
    found = [one for one in asyncio.run(findings(tmp_path)) if one.what == "Isolation"]
    assert [one.level for one in found] == [Level.OK, Level.WARN]
    assert "it is switched off" in found[1].found


MEANS = [
    ("identity", 5, "as the user of Windlass, and can end Windlass"),
    ("identity", 6, "as the user of Windlass"),
    ("mounts", 5, "System V memory of others is open"),
    ("mounts", 0, "including the key and other services"),
    ("processes", 5, "sees all processes"),
    ("landlock", 0, "its view of the file system hides"),
    ("network", 5, "shares the ports of this machine with all others"),
]


@pytest.mark.parametrize(("part", "rules", "means"), MEANS)
def test_doctor_says_what_a_service_can_do_if_an_isolation_part_is_missing(
    tmp_path, machine, monkeypatch, part, rules, means
):
    machine({**ALL, "landlock": rules, "mounts": part != "mounts", "why": {part: "it is switched off"}})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = [one for one in asyncio.run(findings(tmp_path)) if one.what == "Isolation"][1].found
    assert means in said
    assert means in concerns(isolation_of(settings(tmp_path)))[0]
    assert ("can end Windlass" in said) is (part == "identity" and rules < 6)


def test_the_start_and_the_doctor_say_that_networks_need_pasta(tmp_path, machine):
    machine({**ALL, "egress": "pasta is not installed"})
    [said] = concerns(isolation_of(settings(tmp_path)))
    found = [one for one in asyncio.run(findings(tmp_path)) if one.what == "Isolation"]
    assert [one.level for one in found] == [Level.OK, Level.WARN]
    for told in (said, found[1].found + str(found[1].advice)):
        assert "no public address (pasta is not installed)" in told
        assert "install pasta (package passt)" in told


def test_without_pasta_build_steps_share_the_network_of_the_machine(tmp_path, machine):
    machine({**ALL, "egress": "pasta is not installed"})
    unstarted = Networks(tmp_path, isolation_of(settings(tmp_path)), Spawner)
    assert asyncio.run(unstarted.is_offered())
    assert asyncio.run(unstarted.of_step("acme", "shop")) is None


async def test_without_pasta_only_one_organization_may_deploy(tmp_path, machine):
    machine(ALL)
    networks = open_engine(tmp_path, isolation=isolation_of(settings(tmp_path)))
    assert await networks.shared_network() == ""
    machine({**ALL, "egress": "pasta is not installed"})
    assert "install pasta" in await networks.shared_network()


def test_an_unwritable_tun_device_is_reported_with_advice(tmp_path, machine, monkeypatch):
    monkeypatch.setattr(pasta, "find_pasta", lambda: "/bin/false")
    monkeypatch.setattr(pasta, "TUN_DEVICE", "/nowhere/tun")
    machine({**ALL, "egress": pasta.try_pasta().replace("/nowhere", "/dev/net")})
    [said] = concerns(isolation_of(settings(tmp_path)))
    assert "let its user write /dev/net/tun" in said


def test_a_hanging_pasta_is_killed_with_its_child_processes(tmp_path, monkeypatch):
    hangs = tmp_path / "pasta"
    hangs.write_text(f"#!/bin/sh\necho cannot do it >&2\nsleep 1000 & echo $! > {tmp_path}/left\nwait\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(pasta, "find_pasta", lambda: str(hangs))
    monkeypatch.setattr(pasta, "TUN_DEVICE", "/dev/null")
    monkeypatch.setattr(pasta, "_TRIED_WITHIN", 1.0)
    assert pasta.try_pasta() == "pasta fails: cannot do it"
    left = int((tmp_path / "left").read_text())
    while (present := kernel.stat(left)) and not present.dead:  # killed, and perhaps not ended yet
        time.sleep(0.01)


def test_the_start_and_the_doctor_report_that_isolation_is_off(tmp_path):
    assert "including its key" in concerns(isolation_of(settings(tmp_path, isolation="off")))[0]
    found = [one for one in asyncio.run(findings(tmp_path, isolation="off")) if one.what == "Isolation"]
    assert [one.level for one in found] == [Level.WARN]


async def findings(tmp_path, **given):
    return [finding async for finding in runs(settings(tmp_path, **given))]


@pytest.mark.parametrize(("user", "told"), [(0, 1), (1000, 0)])
def test_root_without_any_isolation_is_warned_loudly(tmp_path, machine, monkeypatch, user, told):
    machine(NONE)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    said = concerns(isolation_of(settings(tmp_path)))
    assert len([line for line in said if "EVERY SERVICE RUNS AS ROOT" in line]) == told


def test_complete_isolation_gives_no_warning(tmp_path, machine):
    machine(ALL)
    kept = isolation_of(settings(tmp_path))
    assert concerns(kept) == []
    assert kept.holds() == [
        "a user namespace of its own",
        "a view of the file system of its own",
        "a view of processes of its own",
        "Landlock rules for its files",
        "a filter for sockets",
        "a network of its own",
    ]


def test_isolation_parts_that_only_need_a_user_identity_share_one_advice(tmp_path, machine):
    machine(NONE)
    advice = {part.part: part.advice for part in isolation_of(settings(tmp_path)).missing()}
    assert advice["mounts"] == advice["processes"] != advice["landlock"]
    machine({**NONE, "identity": "user"})  # the other side of it: each has its own reason
    advice = {part.part: part.advice for part in isolation_of(settings(tmp_path)).missing()}
    assert advice["mounts"] != advice["processes"]


def test_checking_isolation_logs_nothing(tmp_path, machine, caplog):
    """Commands beside the server look, too."""
    machine(NONE)
    assert concerns(isolation_of(settings(tmp_path)))
    assert not caplog.records


def test_a_service_keeps_its_user_id_and_no_other_service_ever_gets_it(tmp_path):
    users = Users(tmp_path, range(5000, 5003))
    one, two = users.of("one"), users.of("two")
    assert (users.of("one"), users.of("two")) == (one, two)
    again = Users(tmp_path, range(5000, 5003))
    assert (again.of("two"), again.of("one")) == (two, one)
    assert {one, two, again.of("three")} == {5000, 5001, 5002}
    with pytest.raises(NoUserLeft, match="isolation_users"):
        again.of("four")
    assert [again.of(name) for name in ("one", "two")] == [one, two]


def test_two_installations_on_one_machine_use_different_user_ids(tmp_path):
    given = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        users = Users(tmp_path / name, range_of(DEFAULT_USER_IDS))
        given.append({users.of(f"service-{number}") for number in range(100)})
        assert len(given[-1]) == 100
    assert not given[0] & given[1]


def test_installations_starting_at_the_same_number_would_share_user_ids(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "randbelow", lambda most: 0)
    test = test_two_installations_on_one_machine_use_different_user_ids
    with pytest.raises(AssertionError):
        test(tmp_path)


def test_user_ids_assigned_by_an_earlier_version_are_kept_and_new_ones_begin_elsewhere(tmp_path):
    """It began with the first of the range, as every other installation of the machine did."""
    (tmp_path / "users.json").write_text(json.dumps({"one": 1_900_000_000, "two": 1_900_000_001}))
    users = Users(tmp_path, range_of(DEFAULT_USER_IDS))
    assert (users.of("one"), users.of("two")) == (1_900_000_000, 1_900_000_001)
    assert users.of("three") > 1_900_001_000
    assert users.of("four") == users.of("three") + 1


def test_user_ids_restored_from_a_backup_are_not_assigned_again(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "randbelow", lambda most: 0)
    users = Users(tmp_path, range(5000, 5010))
    assert [users.of(name) for name in ("one", "two")] == [5000, 5001]
    users.merge({"one": 5000, "two": 5004, "three": 5001, "four": 5003})
    again = Users(tmp_path, range(5000, 5010))
    assert [again.of(name) for name in ("one", "two", "four")] == [5000, 5001, 5003]
    assert [again.of(name) for name in ("three", "five")] == [5002, 5005]
    assert len(set(again.all().values())) == len(again.all())


def test_merging_user_ids_by_name_alone_would_assign_one_twice(tmp_path):
    users = Users(tmp_path, range(5000, 5010))
    one = users.of("one")
    (tmp_path / "users.json").write_text(json.dumps({**users.all(), "three": one}))
    assert Users(tmp_path, range(5000, 5010)).of("three") == users.of("one")


@pytest.mark.parametrize("content", ["", "[]", '{"one": "5000"}', "{"])
def test_a_corrupt_list_of_user_ids_assigns_none(tmp_path, content):
    (tmp_path / "users.json").write_text(content)
    with pytest.raises(OSError, match="bring back"):
        Users(tmp_path, range(5000, 5010)).of("two")
    assert (tmp_path / "users.json").read_text() == content


@needs_root
def test_a_user_id_that_owns_a_folder_is_not_assigned_after_the_list_is_lost(tmp_path):
    folder = tmp_path / "run" / "volumes" / "service" / "data"
    folder.mkdir(parents=True)
    os.chown(folder, 5003, 5003)
    users = Users(tmp_path, range(5000, 5010))
    given = {users.of(f"another-{number}") for number in range(9)}
    assert given == {*range(5000, 5010)} - {5003}


@pytest.mark.parametrize("text", ["", "5", "9000-8000", "5-6", "1000-99999999999", "a-b"])
def test_an_invalid_range_of_users_is_refused(text):
    with pytest.raises(ValueError, match="first and the last"):
        range_of(text)


@needs_root
def test_changing_the_owner_of_a_folder_follows_no_symlink(tmp_path):
    (tmp_path / "given" / "folder").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "given" / "folder" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "given" / "link").symlink_to(tmp_path / "other" / "file")
    change_owner(tmp_path / "given", 5000)
    assert (tmp_path / "given" / "folder").stat().st_uid == 5000
    assert (tmp_path / "other").stat().st_uid == (tmp_path / "other" / "file").stat().st_uid == 0


def look_as_an_ordinary_user(path: str, answer: Any) -> None:
    if not os.geteuid():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    refused = []
    for folder in path.split(os.pathsep):
        try:
            Path(folder).stat()
        except PermissionError:
            refused.append(folder)
    answer.send((refused, list(programs(path, ()))))


@pytest.fixture
def passable():
    """A folder that every user gets to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_inaccessible_folders_in_path_are_left_out(passable):
    closed, readable = passable / "closed", passable / "open" / "bin"
    for folder in (closed / "bin", closed / "lib", readable):
        folder.mkdir(parents=True)
    closed.chmod(0)
    processes = multiprocessing.get_context("forkserver")
    ours, theirs = processes.Pipe()
    asked = processes.Process(target=look_as_an_ordinary_user, args=(f"{closed / 'bin'}:{readable}", theirs))
    asked.start()
    theirs.close()
    refused, named = ours.recv()
    asked.join()
    closed.chmod(0o700)
    assert refused == [str(closed / "bin")]  # the reverse: a look into it is refused
    assert str(readable) in named
    assert not [folder for folder in named if folder.startswith(str(closed))]


def test_the_doctor_names_instances_that_began_before_there_were_networks(tmp_path, machine):
    machine(ALL)
    store = RecordStore(tmp_path / "run")
    store.prepare()
    kept = isolation_of(settings(tmp_path))
    for name, own in (("old", None), ("new", CellNetwork(kind="instance"))):
        cell = kept.cell(name, readable=(), writable=(), temporary=tmp_path, network=own)
        record = Record(
            org="", service=name, pod=f"{name}-1-0", deployment="", workdir="", memory=1, cell=cell
        )
        store.home(InstanceKey(name, 1, 0)).mkdir(parents=True)
        store.write(InstanceKey(name, 1, 0), record)
    lines = [one.found for one in asyncio.run(findings(tmp_path)) if "network of the machine" in one.found]
    assert lines == ["services that share the network of the machine: old-1-0"]


@pytest.mark.parametrize(
    ("hosts", "ports"),
    [
        (("127.0.0.1", "127.0.0.1"), ()),
        (("127.0.0.1", "0.0.0.0"), (8081,)),
        (("192.0.2.1", "::1"), (8080,)),
        (("localhost", "::"), (8081,)),
    ],
)
def test_ports_listening_only_on_loopback_are_not_opened_to_instances(tmp_path, machine, hosts, ports):
    machine(ALL)
    host, gateway_host = hosts
    given = settings(tmp_path, host=host, gateway_host=gateway_host)
    assert isolation_of(given).trunk("").get("ports") == [*ports]


def test_the_https_port_is_open_to_instances_as_the_gateway_port_is(tmp_path, machine):
    machine(ALL)
    given = settings(tmp_path, gateway_host="0.0.0.0", https_port=8443)
    assert isolation_of(given).trunk("").get("ports") == [8081, 8443]


@pytest.mark.parametrize(
    ("table", "limits"),
    [
        ("262144", (8192, 4096, 16_384, 131_072)),
        ("65536", (2048, 1024, 4096, 32_768)),
        (None, (8192, 4096, 16_384, 131_072)),
    ],
)
def test_services_leave_half_of_the_table_of_connections_to_the_machine(tmp_path, monkeypatch, table, limits):
    monkeypatch.setattr(network, "_CONNTRACK_LIMIT", str(tmp_path / "table"))
    if table:
        (tmp_path / "table").write_text(table)
    assert network.ConnectionLimits.of(8192) == limits


async def test_doctor_reports_leftover_network_tables_of_killed_networks(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_checks, "left_trunks", lambda: ["windlass7"])
    told = [one for one in await findings(tmp_path) if "windlass7" in one.found]
    assert [(one.level, "windlass stop --all" in one.advice) for one in told] == [(Level.WARN, True)]


NETWORK_TRIAL = "from windlass.base.isolation import network; print(network.try_all(as_root=True))"


@needs_root
@pytest.mark.parametrize(("options", "words"), [("ro", "/proc/sys is read-only"), ("rw", "")])
def test_instances_share_the_network_where_settings_of_networks_are_read_only(options, words):
    command = f'mount -o bind,{options} /proc/sys /proc/sys && exec "$0" -c "$1"'
    apart = ("unshare", "--mount", "--propagation", "private", "sh", "-c", command)
    done = subprocess.run([*apart, sys.executable, NETWORK_TRIAL], capture_output=True, text=True, timeout=60)
    assert words in done.stdout
    assert bool(done.stdout.strip()) is bool(words), done
