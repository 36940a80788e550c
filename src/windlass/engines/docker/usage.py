"""Reads the usage of an instance from the engine's measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.core.deploy.workload import Usage

_MOST: Final = 2**63


def usage_of(stats: Mapping[str, Any]) -> Usage:
    memory = stats.get("memory_stats") or {}
    details = memory.get("stats") or {}
    # Pages of files that the kernel lets go of first, by their names in either version of cgroups.
    spare = details.get("total_inactive_file", details.get("inactive_file", 0))
    processor = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    return Usage(
        cpu_ms=_amount(processor.get("total_usage", 0)) // 1_000_000,
        memory=max(0, _amount(memory.get("usage", 0)) - _amount(spare)),
    )


def _amount(figure: object) -> int:
    """Raises ValueError for what can be no measurement: an engine may answer any number."""
    if not isinstance(figure, int) or not 0 <= figure < _MOST:
        raise ValueError("not a measurement")
    return figure
