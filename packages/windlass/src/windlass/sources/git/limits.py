"""The limits of one fetch: time, disk space and memory."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.child_process import ChildProcess
from windlass.sources.git.source import GitError

MAX_MEMORY_BYTES: Final = 2 * 1024**3  # for one git process; a small pack file can demand large amounts


class Limits(Struct, frozen=True):
    seconds: float = 300
    bytes: int = 1024**3
    """Limit for the received bytes, and separately for the bytes of the checked out files."""
    files: int = 200_000

    def check(self, size: int, files: int) -> None:
        if size > self.bytes:
            raise GitError(
                f"Take large files out of the repository: it is larger than {self.bytes / 1024**2:.0f} MiB."
            )
        if files > self.files:
            raise GitError(
                f"Take files out of the repository: it has more than {self.files} files and folders."
            )

    def too_slow(self) -> GitError:
        return GitError(
            "Check the git server, or deploy again: the repository was not fetched within "
            f"{self.seconds:.0f} seconds."
        )

    def confine(self, process: ChildProcess) -> None:
        with suppress(ProcessLookupError):  # the process may have ended already
            _lower_limit(process.pid, resource.RLIMIT_FSIZE, self.bytes + 1)  # `check` notices the extra byte
            _lower_limit(process.pid, resource.RLIMIT_DATA, MAX_MEMORY_BYTES)


def measure(root: Path) -> tuple[int, int]:
    """Returns the bytes and the number of entries below a folder, without the content of `.git`. The folder
    may change meanwhile."""
    size = entries = 0
    left = [str(root)]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as scan:
            for entry in scan:
                entries += 1
                if not entry.is_dir(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        size += entry.stat(follow_symlinks=False).st_size
                elif entry.name != ".git":
                    left.append(entry.path)
    return size, entries


def _lower_limit(pid: int, what: int, limit: int) -> None:
    _, hard = resource.prlimit(pid, what)
    soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.prlimit(pid, what, (soft, hard))
