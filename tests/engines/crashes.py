"""A Windlass in a process of its own that starts and removes instances until a test kills it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import msgspec

from tests.engines.stations import Opener
from windlass.engines.engine import Engine, EngineError
from windlass.engines.workload import Workload


def live_until_killed(opener: Opener, it: Workload, generation: int, seed: int, ready: Any) -> None:
    asyncio.run(_live(opener, it, generation, random.Random(generation + seed), ready))


async def _live(opener: Opener, it: Workload, generation: int, dice: random.Random, ready: Any) -> None:
    engine = opener()
    await engine.start(lambda service: None, lambda service, lines: None)
    ready.release()
    while True:
        generation += 1
        release = msgspec.structs.replace(it, generation=generation)
        before = msgspec.structs.replace(it, generation=generation - 1)
        deeds = [_apply(engine, release, count) for count in (1, 1, 2)]
        deeds += [dice.choice([_remove, _shrink])(engine, before)]
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


async def _apply(engine: Engine, it: Workload, count: int) -> None:
    with contextlib.suppress(EngineError):  # the other one has removed this generation already
        await engine.apply(it, count)


async def _shrink(engine: Engine, it: Workload) -> None:
    await _apply(engine, it, 1)


async def _remove(engine: Engine, it: Workload) -> None:
    await engine.remove(it.service, generation=it.generation, grace=0.05)
