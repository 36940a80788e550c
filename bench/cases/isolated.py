"""The cost of isolation when the process engine starts a program."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from pathlib import Path
from typing import Final

from bench.measure import Bench, Line, Target
from windlass.base.clock import SystemClock
from windlass.base.isolation.isolation import Isolation, Mode
from windlass.engines.workload import Artifact, Workload
from windlass.process.engine import ProcessEngine

MODES: Final[tuple[Mode, ...]] = ("off", "auto")
SERVICE: Final = "11111111-aaaa-4aaa-8aaa-000000000001"


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "isolated"
    app = folder / "built" / "app"
    app.mkdir(parents=True)
    (app / "file").write_text("of the application")
    rounds = asyncio.run(_rounds(folder, bench.effort.rounds, bench.effort.services))
    shutil.rmtree(folder)
    off, auto = ([each[mode] for each in rounds] for mode in MODES)
    return [
        Line(
            what="a start kept apart takes longer by",
            unit="ms",
            ours=[one - other for one, other in zip(auto, off, strict=True)],
            target=Target(15, "≤", "ms"),
        ),
        Line(what="a start kept apart, against one that is not", unit="ms", ours=auto, limit=off),
    ]


async def _rounds(folder: Path, rounds: int, starts: int) -> list[dict[Mode, float]]:
    engines: dict[Mode, ProcessEngine] = {}
    for mode in MODES:
        engines[mode] = ProcessEngine(folder / mode, SystemClock(), isolation=Isolation(mode, folder / mode))
        await engines[mode].start(lambda service: None, lambda service, lines: None)
        await engines[mode].run(_wanted(folder), 0)  # the launcher is there
    found = [await _taken(engines, _wanted(folder), number * starts, starts) for number in range(rounds)]
    for engine in engines.values():
        await engine.discard(SERVICE)
        await engine.stop()
    return found


async def _taken(
    engines: dict[Mode, ProcessEngine], wanted: Workload, first: int, starts: int
) -> dict[Mode, float]:
    """Milliseconds of a start, in the median; both sides take turns."""
    taken: dict[Mode, list[float]] = {mode: [] for mode in engines}
    for index in range(first + 1, first + starts + 1):
        for mode, engine in engines.items():
            before = time.perf_counter()
            await engine.run(wanted, index)
            taken[mode].append((time.perf_counter() - before) * 1000)
    for engine in engines.values():
        await engine.end(SERVICE, indexes=range(first + 1, first + starts + 1))
    return {mode: statistics.median(times) for mode, times in taken.items()}


def _wanted(folder: Path) -> Workload:
    return Workload(
        service=SERVICE,
        family="application",
        name="web",
        environment="22222222-aaaa-4aaa-8aaa-000000000002",
        org="33333333-aaaa-4aaa-8aaa-000000000003",
        generation=1,
        deployment="44444444-aaaa-4aaa-8aaa-000000000004",
        artifact=Artifact(kind="native", ref=str(folder / "built"), command=("sleep", "infinity")),
        memory=128,
    )
