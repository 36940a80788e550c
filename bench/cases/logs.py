"""Lines taken in by one core; and the end of a long log against that of a short one."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.intake import BATCH, SECRETS, Taking, batch, taken
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, windlass
from windlass.base.segments import Segments

_SHORT = 1 << 20
_RETENTION = 1 << 40


def run(bench: Bench) -> list[Line]:
    return [_intake(bench), _tail(bench)]


def _intake(bench: Bench) -> Line:
    folder = bench.folder / "intake"
    found = taken(Taking(str(folder), bench.effort.calls * 5, bench.effort.rounds))
    shutil.rmtree(folder)
    return Line(
        what=f"log lines of {found.mean:.0f} bytes taken in, {BATCH} at once, {len(SECRETS)} secrets hidden, "
        "against bare writes",
        unit="/s",
        ours=found.ours,
        limit=found.bare,
        target=Target(100_000, "≥", "/s"),
    )


def _tail(bench: Bench) -> Line:
    folder = bench.folder / "logs-served"
    with windlass(folder) as server:
        short, long = _application(server, "short"), _application(server, "long")
        _fill(folder / "logs", short, _SHORT)
        _fill(folder / "logs", long, bench.effort.log)
        tails = {"short": _last_lines(server, short), "long": _last_lines(server, long)}
        found = bench.saturated({name: (server, requests) for name, requests in tails.items()})
    shutil.rmtree(folder)
    return Line(
        what=f"the last 100 lines of a log of {bench.effort.log >> 20:,} MB, against 1 MB",
        unit="µs",
        ours=[one.cost for one in found["long"]],
        limit=[one.cost for one in found["short"]],
        target=Target(1.2, "≤"),
    )


def _application(server: Windlass, name: str) -> str:
    project = server.ask("POST", f"/organization/{server.org}/project", {"name": name})["id"]
    environment = server.ask("POST", f"/project/{project}/environment", {"name": name})["id"]
    repository = {"url": "https://git.example/acme/shop.git", "branch": "main"}
    body = {"name": name, "git_repository": repository}
    return str(server.ask("POST", f"/environment/{environment}/application", body)["id"])


def _last_lines(server: Windlass, application: str) -> list[str]:
    return [server.get(f"/application/{application}/log?tail=100")]


def _fill(folder: Path, stream: str, size: int) -> None:
    """As a server with so much room would have: in sixteen parts."""
    log = Segments(folder, _RETENTION, size=size // 16)
    lines, written = batch(0) * 100, 0
    while written < size:
        log.append(stream, lines)
        written = log.size(stream)
    log.close()
