"""Sets which processes get the processor first when it is busy: the server and the gateway come before
instances and build steps.

Without control groups, Linux gives each session an equal share (autogroup), so a service with 150 busy
sessions would get 150 shares. A priority inside a session affects other sessions only if autogroup is off.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_CELL_NICENESS: Final = 10
_SERVER_NICENESS: Final = -15
"""The niceness of the server's session, which gives it the share of 28 other sessions."""


def prefer_session() -> None:
    """Gives this process's session a larger share of the processor. Does nothing without root.

    Programs that the server starts have their own sessions.
    """
    with suppress(OSError), open("/proc/self/autogroup", "w") as file:  # noqa: PTH123 (as in oom_score.py)
        file.write(str(_SERVER_NICENESS))


def lower_priority(process: int = 0) -> None:
    """Lowers the priority of a process and its future children, by default of this process. Only root can
    raise the priority again."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, _CELL_NICENESS)
