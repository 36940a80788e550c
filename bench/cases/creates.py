"""Durable creates of 32 clients against a bare loop that commits as many rows at a time."""

from __future__ import annotations

import itertools
import shutil
import statistics
from pathlib import Path

from bench.commits import Committing, committed
from bench.fill import seed
from bench.load import CONNECTIONS, NUMBER
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, windlass


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "creates"
    seed(folder)
    loops = [Path(shutil.copytree(folder, bench.folder / name)) for name in ("same", "full")]
    with windlass(folder) as server:
        creating = Creating(bench, server)
        found = bench.turns(
            {
                "ours": creating.rate,
                "same": lambda: _bare(bench, loops[0], creating.groups[-1]),
                "full": lambda: _bare(bench, loops[1], CONNECTIONS),
            }
        )
    group = statistics.median(creating.groups)
    return [
        Line(
            what=f"create a project, {CONNECTIONS} clients, against bare commits of {group:.1f} at a time",
            unit="/s",
            ours=found["ours"],
            limit=found["same"],
            target=Target(0.5, "≥"),
        ),
        Line(
            what=f"the same, against bare commits of {CONNECTIONS} at a time",
            unit="/s",
            ours=found["ours"],
            limit=found["full"],
        ),
    ]


def _bare(bench: Bench, folder: Path, group: float) -> float:
    return committed(Committing(str(folder), group, bench.effort.seconds))


class Creating:
    """Creates under ever new names, and how many the server committed at a time."""

    def __init__(self, bench: Bench, server: Windlass) -> None:
        self._bench = bench
        self._server = server
        self._starts = itertools.count(10_000_000, 10_000_000)
        body = {"name": f"project {NUMBER}", "description": "One of the many that a long list is made of."}
        self._request = server.post(f"/organization/{server.org}/project", body)
        self.groups: list[float] = []

    def rate(self) -> float:
        groups, writes = self._counted()
        found = self._bench.loaded(self._server, [self._request], next(self._starts))
        more_groups, more_writes = self._counted()
        self.groups.append((more_writes - writes) / (more_groups - groups))
        return found.rate

    def _counted(self) -> tuple[float, float]:
        return self._server.metric("write_groups"), self._server.metric("writes")
