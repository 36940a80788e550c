"""How long, how often, and what came of it: rounds in which all take turns, and the lines of a report."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from bench.load import Load, Loaded, Loading, together
from bench.servers import Server

Side = Callable[[float], Loaded]
"""Goes on for that many seconds."""

_WARM_UP = 0.3


class Effort(Struct, frozen=True, kw_only=True):
    """How much of everything."""

    rounds: int
    turns: int
    """Of each side, in each round."""
    seconds: float
    """Of each turn."""
    many: int
    """Projects in the long list."""
    starts: int
    calls: int
    """Of a microbenchmark, in each round."""
    idle: float
    log: int
    """Bytes of the long log."""
    services: int
    """How many are deployed at once."""
    settling: float
    """Seconds of rest before an idle server is measured."""
    projects: int
    """How many projects are built."""
    patience: int
    """Seconds after which a case is given up."""


FULL = Effort(
    rounds=7,
    turns=10,
    seconds=0.2,
    many=1_000_000,
    starts=10,
    calls=100_000,
    idle=10.0,
    log=1 << 30,
    services=100,
    settling=15.0,
    projects=4,
    patience=1800,
)
QUICK = Effort(
    rounds=3,
    turns=4,
    seconds=0.2,
    many=100_000,
    starts=3,
    calls=20_000,
    idle=3.0,
    log=100 << 20,
    services=4,
    settling=1.0,
    projects=1,
    patience=100,
)


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

    def turns(self, sides: Mapping[str, Side]) -> dict[str, list[Loaded]]:
        """A, B, A, B, … What came of each side, round by round."""
        for side in sides.values():
            side(_WARM_UP)
        return _by_side([self._round(sides) for _ in range(self.effort.rounds)])

    def timed(self, deeds: Mapping[str, Callable[[], float]], rounds: int = 0) -> dict[str, list[float]]:
        """The same for what takes as long as it takes: each deed answers its seconds."""
        found: dict[str, list[float]] = {name: [] for name in deeds}
        for _ in range(rounds or self.effort.rounds):
            for name, deed in deeds.items():
                found[name].append(deed())
        return found

    def _round(self, sides: Mapping[str, Side]) -> dict[str, Loaded]:
        found = _by_side(
            [
                {name: side(self.effort.seconds) for name, side in sides.items()}
                for _ in range(self.effort.turns)
            ]
        )
        return {name: together(parts) for name, parts in found.items()}

    def loaded(self, sides: Mapping[str, tuple[Server, Sequence[str]]]) -> dict[str, list[Loaded]]:
        """Each server with the requests that are put on it."""
        with contextlib.ExitStack() as stack:
            loads = {
                name: stack.enter_context(contextlib.closing(loading(*side))) for name, side in sides.items()
            }
            found = self.turns({name: load.turn for name, load in loads.items()})
        self.busy += [one.busy for one in itertools.chain(*found.values())]
        return found

    def saturated(self, sides: Mapping[str, tuple[Server, Sequence[str]]]) -> dict[str, list[Loaded]]:
        """The same with servers that have nothing to wait for."""
        found = self.loaded(sides)
        self.served += [one.held for one in itertools.chain(*found.values())]
        return found


def loading(server: Server, requests: Sequence[str]) -> Loading:
    return Loading(Load(port=server.port, pid=server.pid, requests=requests))


def _by_side(found: Sequence[Mapping[str, Loaded]]) -> dict[str, list[Loaded]]:
    return {name: [one[name] for one in found] for name in found[0]}


def rates(found: Sequence[Loaded]) -> list[float]:
    return [one.rate for one in found]
