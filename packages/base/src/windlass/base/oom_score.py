"""Sets the order in which the kernel ends processes when memory runs out: first build steps and detection,
then instances, then other processes of the machine, and the server and the gateway last.

An unprivileged process may lower its score again, but only to the score of the server."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from windlass.base.isolation import calls

STEPS_SCORE: Final = 800
INSTANCES_SCORE: Final = 400
SERVER_SCORE: Final = -500


def set_oom_score(score: int, process: int | str = "self") -> None:
    """Sets the OOM score of a process, which its children inherit.

    Does nothing if the user may not lower the score; any user may raise it. For a process that is not
    dumpable, use `raise_own_score`.
    """
    with suppress(OSError), open(f"/proc/{process}/oom_score_adj", "w") as file:  # noqa: PTH123 (loads less)
        file.write(str(score))


def raise_own_score(score: int) -> None:
    """Raises this process's OOM score, even if it is a forked child that is not dumpable."""
    calls.prctl(calls.PR_SET_DUMPABLE, 1)  # otherwise this process's files in /proc belong to root
    set_oom_score(score)
    calls.prctl(calls.PR_SET_DUMPABLE, 0)
