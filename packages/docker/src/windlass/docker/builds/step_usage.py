"""Measures what the steps of a build use, while the engine runs them.

The engine does not tell what a build used. The classic builder runs each step in a container, in the network
of this build: its counters are read several times. BuildKit runs steps in control groups of its own. Root can
read them on the machine of the engine, and they belong to one build, because BuildKit builds one service at a
time here. The last part of a second of each step is not counted. The usage is unknown where no step was seen.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.subprocesses import in_thread
from windlass.builders.usage import BuildUsage
from windlass.docker.client import Away, Docker, EngineRefused

MEASURE_INTERVAL: Final = 0.5
"""Seconds between two measurements."""
_STEP_PATTERN: Final = re.compile(r"^[0-9]+:([a-z_,=]*):(/.*/buildkit/[a-z0-9]+)$", re.MULTILINE)
"""Matches the control groups of a step: controllers and path."""
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class _StepContainer(Struct, rename="pascal"):
    id: str


class _ProcessorUse(Struct, frozen=True):
    total_usage: int = 0
    """Nanoseconds."""


class _ProcessorStats(Struct, frozen=True):
    cpu_usage: _ProcessorUse = _ProcessorUse()


class _MemoryStats(Struct, frozen=True):
    usage: int = 0
    stats: dict[str, int] = {}


class _ContainerStats(Struct, frozen=True):
    cpu_stats: _ProcessorStats = _ProcessorStats()
    memory_stats: _MemoryStats = _MemoryStats()


class _StepUse(Struct, frozen=True):
    """The usage of one step so far."""

    step: str
    cpu_ms: int
    memory: int


class _StepUses:
    """Adds up the steps of a build."""

    def __init__(self, usage: BuildUsage) -> None:
        self._usage = usage
        self._cpu: dict[str, int] = {}

    def note(self, uses: list[_StepUse]) -> None:
        for use in uses:
            grown = use.cpu_ms - self._cpu.get(use.step, 0)
            if grown > 0 or use.step not in self._cpu:
                self._usage.add_cpu(max(grown, 0))
            self._cpu[use.step] = max(use.cpu_ms, self._cpu.get(use.step, 0))
        self._usage.note_memory(sum(use.memory for use in uses))


@asynccontextmanager
async def measured(
    docker: Docker, network: str, usage: BuildUsage, *, uses_buildkit: bool
) -> AsyncIterator[None]:
    """Measures the steps of a build during the block. `network`: the network of its containers."""
    if not uses_buildkit:
        measuring = asyncio.create_task(_measure(lambda: _of_containers(docker, network), usage))
    elif os.geteuid() or not docker.host.startswith("unix:"):
        yield
        return
    else:
        measuring = asyncio.create_task(_measure(lambda: in_thread(groups_in_use), usage))
    try:
        yield
    finally:
        measuring.cancel()
        await asyncio.gather(measuring, return_exceptions=True)


async def _measure(look: Callable[[], Awaitable[list[_StepUse]]], usage: BuildUsage) -> None:
    uses = _StepUses(usage)
    while True:
        await asyncio.sleep(MEASURE_INTERVAL)
        with suppress(Away, EngineRefused):  # the build itself reports that the engine is away
            uses.note(await look())


async def _of_containers(docker: Docker, network: str) -> list[_StepUse]:
    params = {"filters": {"network": [network]}}
    found = []
    for container in await docker.read_list("/containers/json", list[_StepContainer], params=params):
        path = f"/containers/{container.id}/stats"
        stats = await docker.read_list(path, _ContainerStats, params={"stream": False, "one-shot": True})
        memory = stats.memory_stats
        files = memory.stats.get("total_inactive_file", memory.stats.get("inactive_file", 0))
        cpu_ms = stats.cpu_stats.cpu_usage.total_usage // 1_000_000
        found.append(_StepUse(container.id, cpu_ms, max(memory.usage - files, 0)))
    return found


def groups_in_use(proc: Path = _PROC, groups: Path = _GROUPS) -> list[_StepUse]:
    """Returns what the present steps of BuildKit have used."""
    steps: dict[str, dict[str, str]] = {}
    for process in proc.glob("[0-9]*"):
        with suppress(OSError):
            for names, path in _STEP_PATTERN.findall((process / "cgroup").read_text()):
                steps.setdefault(path.rpartition("/")[2], {})[names] = path
    return [
        _StepUse(step, cpu, memory)
        for step, paths in steps.items()
        if (cpu := _first(_cpu_files(paths, groups))) is not None
        if (memory := _first(_memory_files(paths, groups))) is not None
    ]


def _cpu_files(paths: dict[str, str], groups: Path) -> Iterator[int]:
    for names, path in paths.items():
        if not names:  # cgroup v2, or the unified part of v1, which counts nothing
            for line in _lines(groups, path, "cpu.stat"):
                if line.startswith("usage_usec "):
                    yield int(line.split()[1]) // 1000
        elif "cpuacct" in names.split(","):
            for controller in (names, "cpuacct"):
                for line in _lines(groups / controller, path, "cpuacct.usage"):
                    yield int(line) // 1_000_000


def _memory_files(paths: dict[str, str], groups: Path) -> Iterator[int]:
    for names, path in paths.items():
        folder, name = (
            (groups, "memory.current") if not names else (groups / "memory", "memory.usage_in_bytes")
        )
        if names not in {"", "memory"}:
            continue
        for line in _lines(folder, path, name):
            counters = dict(word.split() for word in _lines(folder, path, "memory.stat"))
            files = counters.get("total_inactive_file", counters.get("inactive_file", 0))
            yield max(int(line) - int(files), 0)


def _lines(groups: Path, path: str, name: str) -> list[str]:
    with suppress(OSError):
        return (groups / path.lstrip("/") / name).read_text().splitlines()
    return []


def _first(numbers: Iterator[int]) -> int | None:
    return next(numbers, None)
