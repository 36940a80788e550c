"""The first process of a cluster with a node: `python -m tests.kubernetes.keeper FOLDER LEASE`, in network,
mount and process namespaces of its own.

It starts all other programs, and ends them when no process holds the lease. If it is killed, the kernel ends
them all, and removes their mounts and networks: the folder and control groups are left (`leftovers.py`)."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from tests.kubernetes.node import USUAL_PLACES, Network, Node, cgroup, remove_cgroup

READY: Final = "ready"
NUMBER: Final = "number"
"""A file with the number of the cluster: see `Network`."""


def main(folder: Path, lease: Path) -> None:
    number = (
        sys.stdin.readline()
    )  # once the network is linked; an empty line is the end of the process that does it
    if not number:
        sys.exit("the starting process has ended")
    network = Network(int(number))
    node = Node(folder, network)
    try:
        node.start()
        (folder / READY).touch()
        with lease.open("w") as file:
            while not is_free(file.fileno()):
                bury_orphans(node)
                time.sleep(0.2)
            end(folder, network)  # holds the lease until everything is gone
    except BaseException:
        kill_all()
        raise


def is_free(lease: int) -> bool:
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def bury_orphans(node: Node) -> None:
    """Waits for ended orphans, as the first process of a namespace has to."""
    own = {process.pid for process in node.plane.processes.values()}
    while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if ended.si_pid in own:
            end_without(node)
        os.waitpid(ended.si_pid, 0)


def end_without(node: Node) -> NoReturn:
    names = [name for name, process in node.plane.processes.items() if process.poll() is not None]
    sys.exit(f"a part of the cluster has ended: {', '.join(names)}")


def end(folder: Path, network: Network) -> None:
    kill_all()
    ours = tuple(f"{place}/" for place in (folder, *USUAL_PLACES))
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in reversed(mounts):  # the last one first
        if f"{mount}/".startswith(ours):
            subprocess.run(["umount", "--lazy", mount], check=False)
    remove_cgroup(cgroup(network))
    shutil.rmtree(folder)


def kill_all() -> None:
    """Ends all other processes of this namespace."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
