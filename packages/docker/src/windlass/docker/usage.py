"""Reads the usage of an instance from the engine's measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.docker.client import Docker, EngineRefused
from windlass.docker.descriptions import ContainerSummary, container_name
from windlass.engines.workload import Usage

_MOST: Final = 2**63


async def read_usage(docker: Docker, container: ContainerSummary) -> tuple[str, Usage] | None:
    """Returns the name of a container and what it uses; None for one that has ended, or is about to."""
    path = f"/containers/{container['Id']}/stats"
    try:
        stats = await docker.json("GET", path, params={"stream": False, "one-shot": True})
    except EngineRefused as refused:
        if refused.status in (404, 409):
            return None
        raise
    return (container_name(container), usage_of(stats)) if stats else None


def usage_of(stats: Mapping[str, Any]) -> Usage:
    memory = stats.get("memory_stats") or {}
    details = memory.get("stats") or {}
    # Page cache that the kernel reclaims first, by its names in either version of cgroups.
    spare = details.get("total_inactive_file", details.get("inactive_file", 0))
    processor = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    return Usage(
        cpu_ms=_amount(processor.get("total_usage", 0)) // 1_000_000,
        memory=max(0, _amount(memory.get("usage", 0)) - _amount(spare)),
    )


def _amount(figure: object) -> int:
    """Raises ValueError for a number that is not a plausible measurement. The engine is not trusted."""
    if not isinstance(figure, int) or not 0 <= figure < _MOST:
        raise ValueError("not a measurement")
    return figure
