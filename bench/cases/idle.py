"""Measures the cost of a server without requests."""

from __future__ import annotations

import time

from bench.machine import computed
from bench.measure import Bench, Line
from bench.servers import windlass

_SETTLING = 2.0


def run(bench: Bench) -> list[Line]:
    with windlass(bench.folder / "idle") as server:
        time.sleep(_SETTLING)
        before = computed(server.pid)
        time.sleep(bench.effort.idle)
        share = (computed(server.pid) - before) / bench.effort.idle
    return [
        Line(what=f"a server without requests, over {bench.effort.idle:g} s", unit="%", ours=[share * 100])
    ]
