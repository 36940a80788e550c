"""The values that a server gives to an engine that it opens."""

from __future__ import annotations

from pathlib import Path

from windlass.base.clock import SystemClock
from windlass.builders.detecting import bounded_detection
from windlass.engines.provider import Server


def server(folder: Path, installation: str = "installation") -> Server:
    return Server(folder=folder, clock=SystemClock(), installation=installation, calls=bounded_detection())
