"""What is left of a cluster whose first process was killed is removed: its folder, and its control groups.

`python -m tests.kubernetes.leftovers` does it for all clusters of this machine; running ones stay."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kubernetes.keeper import NUMBER
from tests.kubernetes.node import Network, cgroup, remove_cgroup

FOLDERS: Final = Path("/var/tmp")
"""On a disk that knows overlays: what is in memory does not everywhere."""
LOCKS: Final = Path("/run/windlass-test-clusters")
PREFIX: Final = "windlass-cluster-"
SECONDS_TO_END: Final = 20
"""The kernel needs a moment to end killed processes."""


def life_of(folder: Path) -> Path:
    """The file that the first process of a cluster keeps locked."""
    LOCKS.mkdir(exist_ok=True)
    return LOCKS / f"{folder.name}.life"


@contextmanager
def dead(folder: Path) -> Iterator[int | None]:
    """Yields the locked file of a cluster that does not run, and None for one that does."""
    with life_of(folder).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file.fileno()


def remove(folder: Path) -> None:
    """Removes a cluster that does not run."""
    number = folder / NUMBER
    if number.exists():
        deadline = time.monotonic() + SECONDS_TO_END
        while True:
            try:
                remove_cgroup(cgroup(Network(int(number.read_text()))))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    for folder in FOLDERS.glob(f"{PREFIX}*"):
        with dead(folder) as file:
            if file is not None:
                remove(folder)


if __name__ == "__main__":
    main()
