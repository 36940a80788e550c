"""How many log lines one core takes in: what engines call, against bare writes of the same bytes.

In one process, in batches as a busy service fills them, to a file on the disk of the benchmarks. Neither side
waits for the disk: a log is as durable as the page cache.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.machine import SERVER_CORE, run_module
from windlass.control.context.log_store import Logs
from windlass.engines.workload import OutputLine

BATCH = 100
SECRETS = [f"{number:02}-hidden-{number * 7919:010x}" for number in range(20)]
"""Of the deployment that writes; none of them is in its lines."""
NOON = 1_790_000_000_000
ROOM = 64 * 1024 * 1024


class Taking(Struct, frozen=True):
    folder: str
    lines: int
    rounds: int


class Taken(Struct, frozen=True):
    """Lines per second, round by round."""

    ours: Sequence[float]
    bare: Sequence[float]
    mean: float
    """Bytes of a line as it is stored."""


def taken(given: Taking) -> Taken:
    """By a process of its own on the core of servers."""
    return msgspec.json.decode(
        run_module("bench.intake", msgspec.json.encode(given), SERVER_CORE), type=Taken
    )


def batch(number: int) -> list[OutputLine]:
    """What an application says of its requests."""
    return [
        OutputLine(
            NOON + number + each // 10, f"10.1.2.3 GET /orders/{number + each} 200 512 14 ms", "shop-0", "41"
        )
        for each in range(BATCH)
    ]


def measure(given: Taking) -> Taken:
    folder = Path(given.folder)
    folder.mkdir(exist_ok=True)
    batches = [batch(number) for number in range(0, given.lines, BATCH)]
    logs = Logs(folder / "logs", ROOM)
    logs.masks.add("41", SECRETS)
    logs.take("whole", batches[0])
    stored = b"\n".join([*logs.tail("whole", BATCH), b""])
    ours, bare = [], []
    for each in range(given.rounds):
        ours.append(given.lines / _took(logs, f"round-{each}", batches))
        bare.append(given.lines / _wrote(folder / f"bare-{each}", stored, len(batches)))
    return Taken(ours, bare, len(stored) / BATCH)


def _took(logs: Logs, stream: str, batches: Sequence[Sequence[OutputLine]]) -> float:
    began = time.perf_counter()
    for lines in batches:
        logs.take(stream, lines)
    took = time.perf_counter() - began
    logs.forget(stream)
    return took


def _wrote(file: Path, block: bytes, times: int) -> float:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began = time.perf_counter()
    for _ in range(times):
        os.write(fd, block)
    took = time.perf_counter() - began
    os.close(fd)
    file.unlink()
    return took


if __name__ == "__main__":
    sys.stdout.buffer.write(
        msgspec.json.encode(measure(msgspec.json.decode(sys.stdin.buffer.read(), type=Taking)))
    )
