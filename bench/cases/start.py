"""From the command to the first answer, and the memory that it takes to have answered a thousand times."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from bench.fill import fill, fill_services
from bench.machine import resident
from bench.measure import Bench, Line, Target
from bench.servers import ANY_REQUEST, Server, Windlass, bare_server

_REQUESTS = 1000
_SERVICES = 10_000


def run(bench: Bench) -> list[Line]:
    runs = _Runs(bench.folder / "start")
    for once in (runs.fresh, runs.existing, runs.services, runs.bare):
        once()  # the first run of all also reads and compiles files
    found = [
        (runs.existing(), runs.fresh(), runs.services(), runs.bare()) for _ in range(bench.effort.starts)
    ]
    existing, fresh, services, limit = zip(*found, strict=True)
    at_once, little = Target(0.45, "≤", "s"), Target(70, "≤", "MB")
    seconds, memory = ([one[at] for one in limit] for at in (0, 1))
    return [
        Line(
            what="start to first answer, with 1,000 projects there, against a bare server",
            unit="s",
            ours=[one[0] for one in existing],
            limit=seconds,
            target=at_once,
        ),
        Line(
            what="the same in a new data directory",
            unit="s",
            ours=[one[0] for one in fresh],
            limit=seconds,
            target=at_once,
        ),
        Line(
            what=f"the same with {_SERVICES:,} services",
            unit="s",
            ours=[one[0] for one in services],
            limit=seconds,
            target=Target(1.0, "≤", "s"),
        ),
        Line(
            what=f"resident memory after {_REQUESTS:,} requests, against a bare server",
            unit="MB",
            ours=[one[1] for one in existing],
            limit=memory,
            target=little,
        ),
        Line(
            what=f"the same with {_SERVICES:,} services",
            unit="MB",
            ours=[one[1] for one in services],
            limit=memory,
        ),
    ]


class _Runs:
    """Each answers seconds to the first answer, and MB after a thousand."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._numbers = itertools.count()
        self._body = folder / "body"
        self._body.write_bytes(b"{}")
        fill(folder / "existing", 1000)
        fill_services(folder / "services", _SERVICES)

    def existing(self) -> tuple[float, float]:
        return _run(lambda: _started(self._folder / "existing"))

    def services(self) -> tuple[float, float]:
        return _run(lambda: _started(self._folder / "services"))

    def fresh(self) -> tuple[float, float]:
        return _run(lambda: _started(self._folder / f"fresh-{next(self._numbers)}"))

    def bare(self) -> tuple[float, float]:
        return _run(
            lambda: (bare_server(self._folder, "--body", str(self._body), "--unmodified"), ANY_REQUEST)
        )


def _started(folder: Path) -> tuple[Server, bytes]:
    server = Windlass(folder)
    return server, server.get("/organization").encode()


def _run(started: Callable[[], tuple[Server, bytes]]) -> tuple[float, float]:
    began = time.perf_counter()
    server, request = started()
    try:
        server.answers(request)
        seconds = time.perf_counter() - began
        for _ in range(_REQUESTS):
            server.answers(request)
        return seconds, resident(server.pid)
    finally:
        server.stop()
