"""Token check, limit and headers together, in µs of each request."""

from __future__ import annotations

from bench.edge import Edging, spent
from bench.measure import Bench, Line, Target


def run(bench: Bench) -> list[Line]:
    effort = bench.effort
    found = spent(Edging(str(bench.folder / "edge"), effort.calls, effort.rounds))
    together = [sum(parts) for parts in zip(found["check"], found["headers"], strict=True)]
    return [
        Line(
            what="token check, limit and headers together",
            unit="µs",
            ours=together,
            target=Target(15, "≤", "µs"),
        ),
        Line(what="of it: who is calling, and what is left", unit="µs", ours=found["check"]),
        Line(
            what="of that: the verdict on a token that was here a moment ago", unit="µs", ours=found["known"]
        ),
        Line(what="of that: one request taken from the grant at hand", unit="µs", ours=found["quickly"]),
        Line(what="of it: the headers of the answer", unit="µs", ours=found["headers"]),
    ]
