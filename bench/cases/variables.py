"""Lists and statuses of a service with ten thousand variables against those of one with ten."""

from __future__ import annotations

from bench.fill import fill_variables
from bench.measure import Bench, Line, Target
from bench.servers import windlass

FEW, MANY = 10, 10_000


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "variables"
    few, many = fill_variables(folder, (FEW, MANY))
    reads = {
        "the status of a service": "/application/{}/status",
        "a page of the variables of a service": "/application/{}/environmentVariable?page=1&page_size=10",
    }
    with windlass(folder) as server:
        sides = {
            f"{side} {name}": (server, [server.get(path.format(application))])
            for name, path in reads.items()
            for side, application in (("few", few), ("many", many))
        }
        found = bench.saturated(sides)
    return [
        Line(
            what=f"{name} with {MANY:,} variables, against {FEW}",
            unit="µs",
            ours=[one.cost for one in found[f"many {name}"]],
            limit=[one.cost for one in found[f"few {name}"]],
            target=Target(1.3, "≤"),
        )
        for name in reads
    ]
