"""Metrics of a world, read as Prometheus reads them, and judged by its tool."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from tests.needs import needs
from tests.world import World

needs_promtool = needs("promtool")


async def scraped(world: World) -> str:
    answer = await world.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; ")
    return answer.body.decode()


def value(text: str, name: str, labels: Mapping[str, str] | None = None) -> float | None:
    """Returns the one sample with these labels, among others; None if there is none."""
    wanted = (labels or {}).items()
    found = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"windlass_{name}" and wanted <= sample.labels.items()
    ]
    assert len(found) <= 1, found
    return found[0] if found else None


async def measured(world: World, name: str, **labels: str) -> float | None:
    return value(await scraped(world), name, labels)


def promtool(*arguments: str, text: str = "") -> tuple[int, str]:
    """Runs the tool; returns its exit code and all that it says."""
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
