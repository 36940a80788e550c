"""Measures a thousand jobs of the same minute."""

from __future__ import annotations

from bench.cron import Minutes, started
from bench.measure import Bench, Line, Target

JOBS = 1000
_SECONDS = 60.0


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "cron"
    folder.mkdir()
    result = started(Minutes(folder=str(folder), jobs=JOBS, rounds=bench.effort.rounds))
    return [
        Line(
            what=f"{JOBS:,} jobs of the same minute: the start of the 99th of a hundred after its due time",
            unit="s",
            ours=result.late,
            target=Target(2, "≤", "s"),
        ),
        Line(
            what=f"{JOBS:,} jobs of every minute, without their runs: part of a core",
            unit="%",
            ours=[seconds / _SECONDS * 100 for seconds in result.computed],
            target=Target(15, "≤", "%"),
        ),
    ]
