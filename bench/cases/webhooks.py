"""News on its way: how much of it one core delivers, and how soon it is there."""

from __future__ import annotations

import shutil

from bench.couriers import Calling, called
from bench.measure import Bench, Line, Target


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "webhooks"
    effort = bench.effort
    found = called(Calling(str(folder), effort.calls // 10, effort.calls // 50, effort.rounds))
    shutil.rmtree(folder)
    return [
        Line(
            what="signed deliveries, written down, against a bare loop of the same client",
            unit="/s",
            ours=found.ours,
            limit=found.bare,
            target=Target(0.7, "≥"),
        ),
        Line(
            what="from before an event is written to its first byte at a receiver, median",
            unit="ms",
            ours=found.soon,
            target=Target(10, "≤", "ms"),
        ),
        Line(
            what="the same at nine of ten receivers, 99 of 100: the tenth is mute, against it answers",
            unit="ms",
            ours=found.late_with_one_dead,
            limit=found.late,
            target=Target(1.1, "≤"),
        ),
    ]
