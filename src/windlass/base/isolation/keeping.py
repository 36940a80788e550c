"""The process that keeps a network: it sleeps as long as its file names it.

So it ends with its installation, whatever becomes of that: its folder erased, the file lost, another process
started in its place.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Final, NoReturn

from windlass.base.isolation import calls, network

_LOOK_EVERY: Final = 2.0
_SCORE: Final = "-900"
"""The kernel ends it after nearly everything else if memory runs out."""
_STREAMS: Final = 3
_MOST_OPEN: Final = 1024
_OF_TRUNKS: Final = 1 << 12 | 1 << 21
"""NET_ADMIN, SYS_ADMIN: a trunk removes what it has on the machine."""


def keep(file: str, *, leads_out: bool) -> NoReturn:
    """Called in the network that is kept. The server, our parent, is in that of the machine. `leads_out`: it
    is a trunk."""
    os.chdir("/")
    machine = os.open(f"/proc/{os.getppid()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(machine, _STREAMS)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in range(_STREAMS):  # otherwise the log of the server stays open as long as the network
        os.dup2(null, stream)
    os.closerange(_STREAMS + 1, _MOST_OPEN)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123 (it may be refused)
        score.write(_SCORE)
    kept = _OF_TRUNKS if leads_out else 0
    calls.bound_capabilities(kept)
    calls.keep_capabilities(kept)
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
    interface = network.interface_of_trunk() if leads_out else ""
    while _names_us(file):
        time.sleep(_LOOK_EVERY)
    if interface:
        with network.inside(_STREAMS):
            network.close_trunk(interface)
    os._exit(0)


def _names_us(file: str) -> bool:
    try:
        with open(file) as named:  # noqa: PTH123
            return bool(json.load(named)["pid"] == os.getpid())
    except (OSError, ValueError):
        return False
