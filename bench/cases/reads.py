"""Authenticated reads against answers that were ready beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.fill import fill
from bench.measure import Bench, Line, Target, rates
from bench.servers import Windlass, bare, windlass


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "reads"
    fill(folder, 1000)
    with windlass(folder) as ours:
        projects = ours.project_requests(1000)
        page = ours.page(1)
        return [
            *_compared(bench, folder, ours, "one project", projects, Target(0.50, "≥")),
            *_compared(bench, folder, ours, "a page of 20 projects", [ours.get(page)], Target(0.30, "≥")),
        ]


def _compared(
    bench: Bench, folder: Path, ours: Windlass, what: str, requests: Sequence[str], target: Target
) -> list[Line]:
    body = ours.raw("GET", requests[0].split()[1])
    with bare(folder, body) as limit, bare(folder, body, "--unmodified") as unmodified:
        sides = {"ours": ours, "limit": limit, "unmodified": unmodified}
        found = bench.saturated({name: (server, requests) for name, server in sides.items()})
    return [
        Line(
            what=f"{what} ({len(body):,} bytes), against a bare answer",
            unit="/s",
            ours=rates(found["ours"]),
            limit=rates(found["limit"]),
            target=target,
        ),
        Line(
            what=f"{what}, against the bare answer of an unmodified uvicorn",
            unit="/s",
            ours=rates(found["ours"]),
            limit=rates(found["unmodified"]),
        ),
    ]
