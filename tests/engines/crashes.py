"""A Windlass of its own process that begins and removes instances until somebody kills it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import msgspec

from tests.engines.stations import Opener
from windlass.core.deploy.workload import Workload
from windlass.engines.by_hand.engine import EngineByHand
from windlass.engines.engine import EngineError


def live_until_killed(opener: Opener, it: Workload, generation: int, seed: int, ready: Any) -> None:
    asyncio.run(_live(opener, it, generation, random.Random(generation + seed), ready))


async def _live(opener: Opener, it: Workload, generation: int, dice: random.Random, ready: Any) -> None:
    engine = opener()
    await engine.start(lambda service: None, lambda service, lines: None)
    ready.release()
    while True:
        generation += 1
        release = msgspec.structs.replace(it, generation=generation)
        deeds = [_run(engine, release, index) for index in (0, 0, 1)]
        deeds += [_remove(engine, it.service, generation - 1, dice.choice([None, [0]]))]
        dice.shuffle(deeds)
        await asyncio.gather(*deeds)
        await asyncio.sleep(dice.random() * 0.02)


def run_once_until_killed(opener: Opener, it: Workload, ready: Any) -> None:
    asyncio.run(_run_once(opener, it, ready))


async def _run_once(opener: Opener, it: Workload, ready: Any) -> None:
    engine = opener()
    await engine.start(lambda service: None, lambda service, lines: None)
    ready.release()
    await engine.once(it)
    await asyncio.Event().wait()


async def _run(engine: EngineByHand, it: Workload, index: int) -> None:
    with contextlib.suppress(EngineError):  # the other one has removed this generation already
        await engine.run(it, index)


async def _remove(engine: EngineByHand, service: str, generation: int, indexes: list[int] | None) -> None:
    await engine.end(service, generation=generation, indexes=indexes, grace=0.05)
