"""Single requests while many services run and some of them deploy."""

from __future__ import annotations

from bench.backlog import AT_ONCE
from bench.measure import Bench, Line, Target
from bench.mixed import Late, Mixed, found

RUNNING, DEPLOYING = 600, 20
_START = 1.0
"""Seconds that an instance takes to start."""


def run(bench: Bench) -> list[Line]:
    paced = _late(bench, "paced", DEPLOYING, _START)
    flooded = _late(bench, "flooded", AT_ONCE, 0.0)
    return [
        *(
            Line(
                what=f"{method} while {RUNNING} services run and {DEPLOYING} deploy, 99 of 100",
                unit="ms",
                ours=waited,
                target=Target(5, "≤", "ms"),
            )
            for method, waited in paced.items()
        ),
        *(
            Line(what=f"{method} while instances start at once, likewise", unit="ms", ours=waited)
            for method, waited in flooded.items()
        ),
    ]


def _late(bench: Bench, name: str, at_once: int, start_seconds: float) -> Late:
    folder = bench.folder / f"mixed-{name}"
    folder.mkdir()
    effort = bench.effort
    seconds = 5 * effort.turns * effort.seconds
    return found(
        Mixed(str(folder), RUNNING, DEPLOYING, at_once, start_seconds, seconds=seconds, rounds=effort.rounds)
    )
