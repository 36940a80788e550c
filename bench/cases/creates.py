"""Durable creates of 32 clients against a bare loop that commits as many rows at a time."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from pathlib import Path

from bench.commits import Looping
from bench.fill import seed
from bench.load import CONNECTIONS, NUMBER, Loaded
from bench.measure import Bench, Line, Target, loading, rates
from bench.servers import Windlass, windlass


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "creates"
    seed(folder)
    loops = [
        Path(shutil.copytree(folder, bench.folder / name, ignore=shutil.ignore_patterns("gateway")))
        for name in ("same", "full")
    ]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(windlass(folder))
        creating = stack.enter_context(contextlib.closing(Creating(bench, server)))
        same, full = (stack.enter_context(contextlib.closing(Looping(loop))) for loop in loops)
        found = bench.turns(
            {
                "ours": creating.turn,
                "same": lambda seconds: same.turn(creating.groups[-1], seconds),
                "full": lambda seconds: full.turn(CONNECTIONS, seconds),
            }
        )
    group = statistics.median(creating.groups)
    return [
        Line(
            what=f"create a project, {CONNECTIONS} clients, against bare commits of {group:.1f} at a time",
            unit="/s",
            ours=rates(found["ours"]),
            limit=rates(found["same"]),
            target=Target(0.5, "≥"),
        ),
        Line(
            what=f"the same, against bare commits of {CONNECTIONS} at a time",
            unit="/s",
            ours=rates(found["ours"]),
            limit=rates(found["full"]),
        ),
    ]


class Creating:
    """Creates under ever new names, and how many the server committed at a time."""

    def __init__(self, bench: Bench, server: Windlass) -> None:
        body = {"name": f"project {NUMBER}", "description": "One of the many that a long list is made of."}
        self._bench = bench
        self._server = server
        self._load = loading(server, [server.post(f"/organization/{server.org}/project", body)])
        self.close = self._load.close
        self._before = server.counted()
        self.groups: list[float] = []

    def turn(self, seconds: float) -> Loaded:
        loaded = self._load.turn(seconds)
        self.groups.append(self._mean_group())
        self._bench.busy.append(loaded.busy)
        return loaded

    def _mean_group(self) -> float:
        while (counted := self._server.counted()) == self._before:
            time.sleep(0.1)
        (writes, groups), (writes_before, groups_before) = counted, self._before
        return (writes - writes_before) / (groups - groups_before)
