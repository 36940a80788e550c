"""The rules of the manual that keep registries from sending the Docker engine to programs of its machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.needs import needs
from tests.source import ROOT

pytestmark = [pytest.mark.nightly, needs("iptables", "unshare")]

RULE = re.compile(
    r"^(ExecStartPost=|ExecStopPost=-)/usr/sbin/iptables (-[ID]) (.+ -d 127\.0\.0\.0/8 .+)$", re.M
)
ENGINE = "system.slice/docker.service"
# Runs with a network and mounts of its own, and with control groups of version 2.
PROGRAM = """
import json, os, socket, subprocess, sys, tempfile
from pathlib import Path

rule, groups = sys.argv[1].split(), Path(tempfile.mkdtemp())
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["mount", "-t", "cgroup2", "none", str(groups)], check=True)
made = not (groups / "system.slice").exists()
engine = groups / "system.slice" / "docker.service"
assert not engine.exists(), "a Docker engine of systemd runs here"

def connects(group, port):
    child = os.fork()
    if not child:
        if group:
            (group / "cgroup.procs").write_text("0")
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
        except OSError:
            os._exit(1)
        os._exit(0)
    return not os.waitpid(child, 0)[1]

def answers():
    # A program of the group that listens, as for the published port of a container.
    read, write = os.pipe()
    child = os.fork()
    if not child:
        (engine / "cgroup.procs").write_text("0")
        listening = socket.create_server(("127.0.0.1", 0))
        os.write(write, str(listening.getsockname()[1]).encode())
        listening.accept()[0].sendall(b"published")
        os._exit(0)
    with socket.create_connection(("127.0.0.1", int(os.read(read, 9))), 10) as visitor:
        visitor.settimeout(10)
        got = visitor.recv(99).decode()
    os.waitpid(child, 0)
    return got

def iptables(verb):
    return subprocess.run(["iptables", verb, *rule], check=False).returncode

machine = socket.create_server(("127.0.0.1", 0))
port = machine.getsockname()[1]
engine.mkdir(parents=True)
try:
    seen = {"before": connects(engine, port)}
    iptables("-I")
    seen |= {"engine": connects(engine, port), "others": connects(None, port), "published": answers()}
    engine.rmdir()
    engine.mkdir()
    seen["started again"] = connects(engine, port)
    seen["removed"] = iptables("-D")
    iptables("-I")
    seen["with its rule"] = connects(engine, port)
finally:
    engine.rmdir()
    if made:
        engine.parent.rmdir()
print(json.dumps(seen))
"""


def documented_rules() -> list[tuple[str, str, str]]:
    return RULE.findall((ROOT / "docs" / "engines.md").read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes packet filters")
def test_the_rule_of_the_manual_keeps_the_engine_from_programs_of_its_machine():
    """The engine reaches them before. A rule concerns one start of the engine, so the unit makes it again."""
    (start, add, rule), (stop, delete, same) = documented_rules()
    assert (start, add, stop, delete, same) == ("ExecStartPost=", "-I", "ExecStopPost=-", "-D", rule)
    assert f"--path {ENGINE} " in rule
    ran = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, "-c", PROGRAM, rule],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "before": True,
        "engine": False,
        "others": True,
        "published": "published",
        "started again": True,
        "removed": 0,
        "with its rule": False,
    }
