"""Nothing of a cluster is left when its last user has ended, however that ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster, shared_cluster
from tests.kubernetes.keeper import NUMBER
from tests.kubernetes.leftovers import FOLDERS, PREFIX
from tests.kubernetes.node import Network, cgroup, cgroups
from tests.kubernetes.programs import require_node
from tests.source import ROOT

pytestmark = pytest.mark.nightly

USES = """
import sys, time
from tests.kubernetes.cluster import shared_cluster
with shared_cluster(sys.argv[1]) as cluster:
    box = {"name": "box", "image": cluster.registry.box(), "command": ["sleep", "1000"]}
    pod = {"metadata": {"name": "box"}, "spec": {"containers": [box]}}
    cluster.ask("/api/v1/namespaces/default/pods", pod)
    running = lambda: cluster.ask("/api/v1/namespaces/default/pods/box")["status"]["phase"] == "Running"
    cluster.wait(running, "a pod")
    print("runs", flush=True)
    time.sleep(1000)
"""


@contextmanager
def user_of(name: str, *runner: str):
    command = [*runner, sys.executable, "-c", USES, name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "runs\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def name():
    require_node()
    return f"test-{uuid.uuid4().hex[:8]}"


def left_of(folder: Path, network: Network) -> list[str]:
    groups = [group for group in cgroups(cgroup(network)) if group.exists()]
    links = [Path("/sys/class/net", network.link)]
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    return [*mounts, *(str(each) for each in (folder, *groups, *links) if each.exists())]


def test_a_cluster_ends_when_its_only_user_is_killed(name):
    folder = FOLDERS / f"{PREFIX}{name}"
    with user_of(name) as process:
        network = Network(int((folder / NUMBER).read_text()))
        assert len(left_of(folder, network)) > 2
        process.send_signal(signal.SIGKILL)
        process.wait()
    Cluster(folder).wait(lambda: not left_of(folder, network), "the end of the cluster")


def test_an_interrupted_run_leaves_nothing_of_its_cluster(name):
    folder = FOLDERS / f"{PREFIX}{name}"
    with user_of(name, sys.executable, str(ROOT / "tests/runner.py")) as runner:
        network = Network(int((folder / NUMBER).read_text()))
        runner.send_signal(signal.SIGTERM)
        runner.wait()
    assert left_of(folder, network) == []


def test_a_killed_cluster_is_removed_by_the_next_start(name):
    folder = FOLDERS / f"{PREFIX}{name}"
    with user_of(name) as process:
        network = Network(int((folder / NUMBER).read_text()))
        process.send_signal(signal.SIGSTOP)  # it still has the lease
        keeper = keeper_of(folder)
        os.kill(keeper, signal.SIGKILL)
        Cluster(folder).wait(lambda: not Path(f"/proc/{keeper}").exists(), "the end of the first process")
        with shared_cluster(name) as cluster:
            assert cluster.ask("/api/v1/namespaces/default/pods")["items"] == []
    Cluster(folder).wait(lambda: not left_of(folder, network), "the end of the cluster")


def keeper_of(folder: Path) -> int:
    for process in Path("/proc").glob("[0-9]*"):
        words = process.joinpath("cmdline").read_bytes().split(b"\0")
        if b"tests.kubernetes.keeper" in words and words[0] != b"unshare" and bytes(folder) in words:
            return int(process.name)
    raise AssertionError("no first process")
