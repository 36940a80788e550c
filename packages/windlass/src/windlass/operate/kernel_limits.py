"""Checks limits of the kernel that all services of a machine share, and one can use up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.operate.findings import Finding, ok, warn

PROC: Final = Path("/proc/sys")
_WHAT: Final = "Kernel limits"


class KernelLimit(Struct, frozen=True):
    name: str
    enough: int
    engines: tuple[str, ...]

    @property
    def file(self) -> str:
        return self.name.replace(".", "/")


LIMITS: Final = (
    KernelLimit("fs.aio-max-nr", 1_048_576, ("docker", "process")),
    # One for each user number, and the numbers of containers are those of the machine.
    KernelLimit("fs.inotify.max_user_instances", 1024, ("docker",)),
)


def kernel_limits(engine: str, proc: Path = PROC) -> Iterator[Finding]:
    small = []
    for limit in LIMITS:
        with suppress(OSError, ValueError):
            if engine in limit.engines and int((proc / limit.file).read_text()) < limit.enough:
                small.append(limit)
    if not small:
        yield ok(_WHAT, "asynchronous I/O and inotify have room for many services")
        return
    state = f"{', '.join(limit.name for limit in small)}: one service can use it up for all others"
    lines = " ".join(f"{limit.name}={limit.enough}" for limit in small)
    yield warn(_WHAT, state, f"`sysctl -w {lines}`, and the same in /etc/sysctl.d for the next boot")
