"""The order in which the kernel ends processes when memory runs out: build steps and detection, then
instances, then all others of the machine, and the server and the gateway last.

A process of a user who is not root may lower its own score again, to that of the server."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from windlass.base.isolation import calls

STEPS: Final = 800
INSTANCES: Final = 400
SERVER: Final = -500


def set_oom_score(score: int, process: int | str = "self") -> None:
    """Sets the OOM score of a process. Every user may raise it; for a user who may not lower it, nothing
    changes. Children inherit it. For a process that is not dumpable, see `raise_own_score`."""
    with suppress(OSError), open(f"/proc/{process}/oom_score_adj", "w") as file:  # noqa: PTH123 (loads less)
        file.write(str(score))


def raise_own_score(score: int) -> None:
    """Raises the score of a child that is not dumpable. The process that forked it keeps its own."""
    calls.prctl(calls.PR_SET_DUMPABLE, 1)  # otherwise our own files in /proc belong to root
    set_oom_score(score)
    calls.prctl(calls.PR_SET_DUMPABLE, 0)
