"""Single requests while many services run and some of them deploy."""

from __future__ import annotations

from bench.measure import Bench, Line, Target
from bench.mixed import Mixed, found

RUNNING, DEPLOYING = 600, 20


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "mixed"
    folder.mkdir()
    effort = bench.effort
    seconds = 5 * effort.turns * effort.seconds
    late = found(
        Mixed(folder=str(folder), running=RUNNING, deploying=DEPLOYING, seconds=seconds, rounds=effort.rounds)
    )
    return [
        Line(
            what=f"{method} while {RUNNING} services run and {DEPLOYING} deploy, 99 of 100",
            unit="ms",
            ours=waited,
            target=Target(5, "≤", "ms"),
        )
        for method, waited in late.items()
    ]
