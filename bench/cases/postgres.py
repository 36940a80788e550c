"""The same on PostgreSQL: reads against a bare pool, creates for the record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.cases.creates import Creating
from bench.load import CONNECTIONS
from bench.measure import Bench, Line, Target, rates
from bench.postgres import running_postgres
from bench.servers import Server, bare_server, windlass

_SOME = 100


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "postgres"
    with running_postgres(folder) as url, windlass(folder / "windlass", url) as ours:
        for number in range(_SOME):
            ours.ask("POST", f"/organization/{ours.org}/project", {"name": f"some {number:08}"})
        projects = ours.project_requests(_SOME)
        with _looking_up(folder, url, projects[0]) as limit:
            found = bench.loaded({"ours": (ours, projects), "limit": (limit, projects)})
        with contextlib.closing(Creating(bench, ours)) as creating:
            created = bench.turns({"ours": creating.turn})
    return [
        Line(
            what="one project, against a bare `fetchrow` behind the same server",
            unit="/s",
            ours=rates(found["ours"]),
            limit=rates(found["limit"]),
            target=Target(0.5, "≥"),
        ),
        Line(what=f"create a project, {CONNECTIONS} clients", unit="/s", ours=rates(created["ours"])),
    ]


@contextlib.contextmanager
def _looking_up(folder: Path, url: str, request: str) -> Iterator[Server]:
    server = bare_server(folder, "--database-url", url)
    try:
        server.answers(request.encode())
        yield server
    finally:
        server.stop()
