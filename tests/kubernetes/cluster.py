"""A real Kubernetes cluster with a node, which all tests of this machine share while they need it.

`python -m tests.kubernetes.cluster` starts it, or joins it, and keeps it until Ctrl-C (`make cluster`)."""

from __future__ import annotations

import fcntl
import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kubernetes.control_plane import SECONDS_TO_WAIT, ClusterFiles
from tests.kubernetes.keeper import NUMBER, READY
from tests.kubernetes.leftovers import FOLDERS, LOCKS, PREFIX, dead, remove
from tests.kubernetes.leftovers import main as remove_leftovers
from tests.kubernetes.node import MOST_CLUSTERS, Network, trust_registry
from tests.kubernetes.programs import CLUSTER, HELM, require_node
from tests.kubernetes.registry import ImageRegistry
from tests.source import ROOT

_NAMESPACES: Final = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class Cluster(ClusterFiles):
    @property
    def network(self) -> Network:
        return Network(int((self.folder / NUMBER).read_text()))

    @property
    def registry(self) -> ImageRegistry:
        return ImageRegistry(self.network.registry)

    def trust_registry(self, host: str, url: str) -> None:
        """Lets the node pull images of a host from a registry at this address, without TLS."""
        trust_registry(self.folder, host, url)


@contextmanager
def shared_cluster(name: str = "") -> Iterator[Cluster]:
    """Yields the cluster of this machine, which is started if there is none. It ends soon after the last
    process that uses it has left, or has ended. With a name of its own, it is another one."""
    require_node()
    name = PREFIX + (name or _version())
    LOCKS.mkdir(exist_ok=True)
    with (LOCKS / f"{name}.lease").open("w") as lease:
        fcntl.flock(lease, fcntl.LOCK_SH)  # waits for a cluster that is about to end
        with (LOCKS / f"{name}.start").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            _start(FOLDERS / name, Path(lease.name))
        yield Cluster(FOLDERS / name)


def _version() -> str:
    """Clones with other code, or other programs, have clusters of their own."""
    digest = hashlib.sha256()
    for file in (*sorted(Path(__file__).parent.glob("*.py")), *Path(__file__).parent.glob("*/go.sum")):
        if not file.name.startswith("test_"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


def _start(folder: Path, lease: Path) -> None:
    remove_leftovers()
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while time.monotonic() < deadline:
        with dead(folder) as life:
            if life is not None:
                remove(folder)
                _start_keeper(folder, lease, life)
                return
        if (folder / READY).exists() and Cluster(folder).answers():
            return
        time.sleep(0.1)  # it ends just now, or another process has begun to start it and was killed
    raise AssertionError(f"the cluster does not answer: see the logs in {folder}")


def _start_keeper(folder: Path, lease: Path, life: int) -> None:
    folder.mkdir()
    with (folder / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [*_NAMESPACES, sys.executable, "-m", "tests.kubernetes.keeper", folder, lease],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[life],
        )
    assert keeper.stdin
    # Before that, the link would be in the network of this machine.
    while Path(f"/proc/{keeper.pid}/ns/net").samefile("/proc/self/ns/net"):
        time.sleep(0.01)
    network = _link(keeper.pid)
    (folder / NUMBER).write_text(str(network.number))
    keeper.stdin.write(b"%d\n" % network.number)
    keeper.stdin.close()
    while not (folder / READY).exists():
        assert keeper.poll() is None, (folder / "keeper.log").read_text()[-4000:]
        time.sleep(0.05)
    keeper.returncode = 0  # it outlives this process


def _link(process: int) -> Network:
    """Makes a link into the namespace of a process. The kernel gives each name once."""
    for network in map(Network, range(MOST_CLUSTERS)):
        into = ("peer", "name", "eth0", "netns", str(process))
        command = ["ip", "link", "add", network.link, "type", "veth", *into]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode == 0:
            for command in (
                ["ip", "addr", "add", f"{network.machine}/24", "dev", network.link],
                ["ip", "link", "set", network.link, "up"],
                *(
                    ["ip", "route", "add", each, "via", network.node]
                    for each in (network.pods, network.services)
                ),
            ):
                subprocess.run(command, check=True)
            return network
        assert "File exists" in made.stderr, made.stderr
    raise AssertionError("all networks for clusters are in use")


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    with shared_cluster() as cluster:
        programs = cluster.folder / "bin"
        programs.mkdir(exist_ok=True)
        for name, program in (("kubectl", CLUSTER), ("helm", HELM)):
            (programs / name).unlink(missing_ok=True)
            (programs / name).symlink_to(program)
        print(
            f"The cluster is ready after {time.monotonic() - began:.1f} s. Images: {cluster.network.registry}"
        )
        print(f"export KUBECONFIG={cluster.folder}/kubeconfig PATH={programs}:$PATH")
        print("Ctrl-C ends it, unless tests use it.", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
