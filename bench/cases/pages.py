"""A page of a long list against the same page of a short one."""

from __future__ import annotations

from bench.fill import fill, punch
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, windlass

FEW = 1000
_HOLES = 0.01


def run(bench: Bench) -> list[Line]:
    fill(bench.folder / "few", FEW)
    fill(bench.folder / "many", bench.effort.many)
    whole = _compared(bench, f"of {bench.effort.many:,}")
    punch(bench.folder / "many", _HOLES)
    return whole + _compared(bench, f"of {bench.effort.many:,} less 1 % here and there")


def _compared(bench: Bench, said: str) -> list[Line]:
    with windlass(bench.folder / "few") as few, windlass(bench.folder / "many") as many:
        of_few, of_many = _places(few), _places(many)
        sides = {f"few {name}": (few, [few.get(path)]) for name, path in of_few.items()} | {
            f"many {name}": (many, [many.get(path)]) for name, path in of_many.items()
        }
        found = bench.saturated(sides)
    return [
        Line(
            what=f"{name} page of 20 {said}, against {FEW:,}",
            unit="µs",
            ours=[one.cost for one in found[f"many {name}"]],
            limit=[one.cost for one in found[f"few {name}"]],
            target=Target(1.3, "≤"),
        )
        for name in of_many
    ]


def _places(server: Windlass) -> dict[str, str]:
    pages = server.ask("GET", server.page(1))["pagination"]["total_pages"]
    return {"first": server.page(1), "middle": server.page(pages // 2), "last": server.page(pages)}
