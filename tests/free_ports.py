"""Ports for servers of tests that have to be told their port before they listen."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_REFUSED_BY_BROWSERS = {4045, 4190, 5060, 5061, 6000, 6566, *range(6665, 6670), 6679, 6697}
"""Ports of other protocols: Chromium calls them unsafe."""
_PORTS = [port for port in range(4000, 8000) if port not in _REFUSED_BY_BROWSERS]
"""Below those that Linux gives to connections, one of which could take a free port before its server does."""
_LOCKS = Path(tempfile.gettempdir(), f"windlass-test-ports-{os.geteuid()}")
"""A file for each port, locked by the test process that has chosen it: no other one chooses it until that one
has ended, also while nothing listens there."""
_locked: list[int] = []


def free_port() -> int:
    """Returns a port that is free on this machine, and another one at each call."""
    _LOCKS.mkdir(exist_ok=True)
    dice = random.SystemRandom()  # tests that seed the usual one would all choose the same ports
    while True:
        port = dice.choice(_PORTS)
        if _is_locked_by_us(port) and _is_free(port):
            return port


def _is_locked_by_us(port: int) -> bool:
    file = os.open(_LOCKS / str(port), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _locked.append(file)  # until the process ends
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
