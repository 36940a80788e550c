"""Handles SIGHUP, which often means to reload settings. Windlass reads settings only at its start."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from windlass.base.log import log

_log = log("main")


def handle_hang_ups(stop: Callable[[], None] | None = None) -> None:
    """Makes SIGHUP write a line to the log, and do nothing else.

    If the program has a terminal, SIGHUP means that the terminal was closed, and the handler calls `stop`.
    Under `nohup`, the program continues to run.
    """
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handler = stop if stop and not is_ignored and _has_terminal() else _warn_about_restart
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, handler)


def _warn_about_restart() -> None:
    _log.warning("restart to read changed settings: SIGHUP does nothing")


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True
