"""Ports for servers of tests that have to be told their port before they listen."""

from __future__ import annotations

import random
import socket

_PORTS = range(4000, 8000)
"""Below those that Linux gives to connections, one of which could take a free port before its server does."""
_chosen: set[int] = set()


def free_port() -> int:
    """Returns a port that is free on this machine, and another one at each call."""
    dice = random.SystemRandom()  # tests that seed the usual one would all choose the same ports
    while True:
        port = dice.choice(_PORTS)
        if port not in _chosen and _is_free(port):
            _chosen.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
