"""How long, how often, and what came of it: rounds in which all take turns, and the lines of a report."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from bench.load import Load, Loaded, measured
from bench.servers import Server


class Effort(Struct, frozen=True, kw_only=True):
    """How much of everything."""

    rounds: int
    seconds: float
    many: int
    """Projects in the long list."""
    starts: int
    calls: int
    """Of a microbenchmark, in each round."""
    idle: float
    log: int
    """Bytes of the long log."""


FULL = Effort(rounds=7, seconds=2.0, many=1_000_000, starts=10, calls=100_000, idle=10.0, log=1 << 30)
QUICK = Effort(rounds=3, seconds=0.7, many=100_000, starts=3, calls=20_000, idle=3.0, log=100 << 20)


class Target(Struct, frozen=True):
    bound: float
    sign: str
    unit: str = ""
    """Without a unit, the bound is one of the ratio."""

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.sign == "≥" else value <= self.bound


class Line(Struct, frozen=True, kw_only=True):
    """One line of the report: ours and the limit, round by round."""

    what: str
    unit: str
    ours: Sequence[float]
    limit: Sequence[float] = ()
    target: Target | None = None

    @property
    def ratios(self) -> list[float]:
        """Of each round by itself: what disturbs the machine for a while disturbs both sides."""
        return [ours / limit for ours, limit in zip(self.ours, self.limit, strict=bool(self.limit))]

    @property
    def judged(self) -> Sequence[float]:
        """What the target speaks of, and the rounds are shown of."""
        absolute = not self.limit or (self.target is not None and self.target.unit)
        return self.ours if absolute else self.ratios

    @property
    def is_met(self) -> bool | None:
        return self.target.is_met(statistics.median(self.judged)) if self.target else None


class Bench:
    """One run: its effort, its folder, and whether its numbers can be trusted."""

    def __init__(self, effort: Effort, folder: Path) -> None:
        self.effort = effort
        self.folder = folder
        self.busy: list[float] = []
        """Which part of the time the load generator was computing, of each load."""
        self.served: list[float] = []
        """Which part of the time the server was computing, of each load that let it wait for nothing."""

    def turns(self, subjects: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
        """A, B, A, B, …"""
        found: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(self.effort.rounds):
            for name, measure in subjects.items():
                found[name].append(measure())
        return found

    def rate(self, server: Server, requests: Sequence[str]) -> float:
        """Answers per second of a server that has nothing to wait for."""
        return self._saturated(server, requests).rate

    def cost(self, server: Server, requests: Sequence[str]) -> float:
        """What an answer costs such a server, in µs of its core."""
        return self._saturated(server, requests).cost

    def _saturated(self, server: Server, requests: Sequence[str]) -> Loaded:
        found = self.loaded(server, requests)
        self.served.append(found.served)
        return found

    def loaded(self, server: Server, requests: Sequence[str], first: int = 0) -> Loaded:
        """A load on a server, which may wait for a disk or a database."""
        seconds = self.effort.seconds
        found = measured(
            Load(port=server.port, pid=server.pid, requests=requests, seconds=seconds, first=first)
        )
        self.busy.append(found.busy)
        return found
