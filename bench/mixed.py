"""Single requests beside deployments: how late is the slowest of a hundred?

One process, on engines that do nothing, with all background work of a server: what is measured is whether
anything holds up the event loop. A request counts from when it should have begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop
from msgspec import Struct

from bench.backlog import Deployer, deployer, waits
from bench.machine import SERVER_CORE, run_module
from windlass.serve.server import tune_interpreter

_BETWEEN = 0.02
"""Seconds from one request to the next of its kind."""
_REST = 2.0
"""Seconds without deployments before each round."""


class Mixed(Struct, frozen=True):
    folder: str
    running: int
    """Services that run."""
    deploying: int
    """Services that are deployed, again and again."""
    at_once: int
    """As many of them as deploy at the same time."""
    start_seconds: float
    """Seconds that an instance takes to start."""
    seconds: float
    """Of each round."""
    rounds: int


Late = Mapping[str, Sequence[float]]
"""The milliseconds within which 99 of 100 requests are answered, by method, round by round."""


def found(given: Mixed) -> Late:
    answer = run_module("bench.mixed", msgspec.json.encode(given), SERVER_CORE)
    return msgspec.json.decode(answer, type=dict[str, list[float]])


async def _measure(given: Mixed) -> dict[str, list[float]]:
    tune_interpreter()
    late: dict[str, list[float]] = {"GET": [], "PUT": []}
    async with deployer(Path(given.folder), given.running, given.at_once) as server:
        await server.installation.start()
        await server.ask_for_more()
        while await waits(server.installation):  # noqa: ASYNC110 (as a client would)
            await asyncio.sleep(0.1)
        server.engine.start_seconds = given.start_seconds
        for number in range(given.rounds + 1):
            await asyncio.sleep(_REST)
            taken = await _round(server, given)
            if number:  # the first warms up
                for method, waited in taken.items():
                    late[method].append(statistics.quantiles(waited, n=100)[-1])
    return late


async def _round(server: Deployer, given: Mixed) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {"GET": [], "PUT": []}
    path, numbers = f"/project/{server.project}", itertools.count()
    bodies: dict[str, Callable[[], object]] = {
        "GET": lambda: None,
        "PUT": lambda: {"name": "bench", "description": f"number {next(numbers)}"},
    }
    tasks = [
        asyncio.create_task(_ask(server, method, path, bodies[method], taken[method])) for method in taken
    ]
    tasks.append(asyncio.create_task(_deploy(server, given.deploying)))
    await asyncio.sleep(given.seconds)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    return taken


async def _ask(
    server: Deployer, method: str, path: str, body: Callable[[], object], taken: list[float]
) -> None:
    due = time.perf_counter()
    while True:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await server.ask(method, path, body())
        taken.append((time.perf_counter() - due) * 1000)
        due += _BETWEEN


async def _deploy(server: Deployer, count: int) -> None:
    """Deploys the same services again as soon as nothing waits."""
    listed = await server.ask("GET", f"/environment/{server.environments[0]}/application")
    chosen = [service["id"] for service in listed["results"]][:count]
    while True:
        for service in chosen:
            await server.ask("POST", f"/application/{service}/deploy")
        while await waits(server.installation):  # noqa: ASYNC110 (as a client would)
            await asyncio.sleep(0.005)


def main() -> None:
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Mixed)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(_measure(given))))


if __name__ == "__main__":
    main()
