"""Compares a long queue with a short one: claims, deployments, and reads beside them."""

from __future__ import annotations

import shutil

from bench.backlog import Waiting, found
from bench.measure import Bench, Line, Target
from bench.postgres import running_postgres

COUNTS = (30, 1_000, 10_000)
FEW, MANY = 30, 3_000


def run(bench: Bench) -> list[Line]:
    folder, effort = bench.folder / "backlog", bench.effort
    folder.mkdir()
    slice = 2 * effort.services
    with running_postgres(folder / "postgres") as url:
        result = found(
            Waiting(
                folder=str(folder),
                postgres=url,
                counts=COUNTS,
                claims=effort.services,
                few=FEW,
                many=MANY,
                slice=slice,
                rounds=effort.rounds,
            )
        )
    shutil.rmtree(folder)
    lines = [
        Line(
            what=f"{database}: a claim of 4 out of {count:,} waiting pieces, against out of {COUNTS[0]}",
            unit="ms",
            ours=claims[str(count)],
            limit=claims[str(COUNTS[0])],
            target=Target(1, "≤", "ms"),
        )
        for database, claims in result.claims.items()
        for count in COUNTS[1:]
    ]
    return [
        *lines,
        Line(
            what=f"deployments of {MANY:,} services at once, against of {FEW}",
            unit="/s",
            ours=result.rates["many"],
            limit=result.rates["few"],
            target=Target(0.8, "≥"),
        ),
        Line(
            what="reads meanwhile, 95 of 100, likewise",
            unit="ms",
            ours=result.reads["many"],
            limit=result.reads["few"],
            target=Target(1.5, "≤"),
        ),
    ]
