"""The order in which the kernel ends processes when memory runs out: build steps and detection, then
instances, then all others of the machine, and the server and the gateway last.

A process of a user who is not root may lower its own score again, to that of the server."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

STEPS: Final = 800
INSTANCES: Final = 400
SERVER: Final = -500


def set_oom_score(score: int, process: int | str = "self") -> None:
    """Sets the OOM score of a process. Every user may raise it; for a user who may not lower it, nothing
    changes. Children inherit it. A process that is not dumpable must set it before, unless it is root."""
    with suppress(OSError), open(f"/proc/{process}/oom_score_adj", "w") as file:  # noqa: PTH123 (loads less)
        file.write(str(score))
