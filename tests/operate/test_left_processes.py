"""After `windlass stop --all`, nothing of an installation runs on the machine once its server has ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.said import say
from tests.hostile.test_whole_server import serving
from tests.marks import nightly
from tests.needs import needs, needs_root, ordinary_user
from windlass.base.isolation import netlink, network
from windlass.base.isolation.namespace_holder import CHECK_INTERVAL
from windlass.base.isolation.network import NamespaceHolder

pytestmark = [pytest.mark.slow, needs_root]
WITHIN = 20.0


class FoundProcess(NamedTuple):
    pid: int
    start: int
    command: str


def running(folder: Path) -> set[FoundProcess]:
    """Returns all processes that the installation in this folder has started, and their children."""
    commands, parents, ours = {}, {}, set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pid, command = int(process.name), (process / "cmdline").read_bytes()
            commands[pid] = command.replace(b"\0", b" ").decode(errors="replace")[-200:]
            parents[pid] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if str(folder).encode() in command + (process / "environ").read_bytes():
                ours.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {FoundProcess(pid, start, commands[pid]) for pid in ours if (start := network.start_of(pid))}


def left(folder: Path, before: set[FoundProcess]) -> set[FoundProcess]:
    """`before`: processes of it that were found earlier, and may have no parent of it any more."""
    found = running(folder) | {each for each in before if network.start_of(each.pid) == each.start}
    return {each for each in found if " Z " not in Path(f"/proc/{each.pid}/stat").read_text()}


def holders(folder: Path) -> dict[str, NamespaceHolder]:
    networks = folder / "data" / "run" / "networks"
    files = [*networks.glob("*.hub"), networks / "trunk", *networks.glob("exit")]
    notes = {file.name: json.loads(file.read_text()) for file in files}
    return {name: NamespaceHolder(note["pid"], note["start"]) for name, note in notes.items()}


def interface_of(trunk: NamespaceHolder) -> str:
    network_of_trunk = trunk.open()
    try:
        with network.inside(network_of_trunk):
            return network.interface_of_trunk()
    finally:
        os.close(network_of_trunk)  # otherwise it stays


def number_of(interface: str) -> int:
    """Returns the number of an interface, which no later one gets; 0 if there is none of this name."""
    with suppress(OSError):
        return socket.if_nametoindex(interface)
    return 0


@contextmanager
def empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="windlass-left-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        try:
            yield folder
        finally:
            for process in running(folder):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)


def stop_all(folder: Path, as_user: tuple[str, ...]) -> None:
    command = [*as_user, sys.executable, "-m", "windlass", "stop", "--all", "-y", "--data-dir"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    done = subprocess.run(
        [*command, f"{folder}/data"],
        env=environment | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout[:11]) == (0, "2 services "), done.stderr


@pytest.mark.parametrize(
    ("user", "server"),
    [
        ("root", "ended"),
        *nightly(("root", "killed"), ("root", "running")),
        *(
            pytest.param("ordinary", server, marks=[needs("pasta"), pytest.mark.nightly])
            for server in ("ended", "killed", "running")
        ),
    ],
)
def test_stop_all_leaves_no_process_network_or_gateway_of_the_installation(user, server):
    as_user = ordinary_user() if user == "ordinary" else ()
    with empty_folder() as folder:
        with serving(folder, 4096, as_user) as served:
            assert say("demo", url=served.url).code == 0
            before, held = running(folder), holders(folder)
            interface = interface_of(held["trunk"])
            number = number_of(interface) if user == "root" else -1
            assert number
            if server == "running":
                assert say("stop", "--all", url=served.url).code == 0
            elif server == "killed":
                os.kill(served.pid, signal.SIGKILL)
        if server != "running":
            time.sleep(CHECK_INTERVAL + 0.5)
            assert {holder.pid for holder in held.values()} < {each.pid for each in left(folder, before)}
            stop_all(folder, as_user)
        until = time.monotonic() + WITHIN
        while (found := left(folder, before)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not found
        while number_of(interface) == number and time.monotonic() < until:
            time.sleep(0.1)
        assert number_of(interface) != number
        is_there = interface in netlink.tables()
        assert not is_there or number_of(interface), "only with the interface of another installation"
