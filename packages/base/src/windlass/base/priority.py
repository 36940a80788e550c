"""The order in which processes get the processor when it is short: the server and the gateway before
instances and build steps.

Where there are no control groups, Linux gives each session an equal share (autogroup), so a service with 150
busy sessions would have 150 shares. Priorities inside of a session matter only where autogroup is off.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_CELLS: Final = 10
_SERVER: Final = -15
"""The niceness of the session: its share is that of 28 others."""


def prefer_session() -> None:
    """Gives the session of this process a larger share. Only root may; otherwise nothing changes. Programs
    that the server starts have their own sessions."""
    with suppress(OSError), open("/proc/self/autogroup", "w") as file:  # noqa: PTH123 (as in oom_score.py)
        file.write(str(_SERVER))


def lower_priority(process: int = 0) -> None:
    """Lowers the priority of a process, by default of this one, and of what it starts from now on. Only root
    may raise it again."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, _CELLS)
