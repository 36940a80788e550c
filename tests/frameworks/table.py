"""The table of the manual: what was tried, with a column for each engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from tests.frameworks.languages import LANGUAGES
from tests.frameworks.rows import ROWS, Row

PAGE: Final = Path(__file__).parents[2] / "docs" / "frameworks.md"
BEGIN, END = "<!-- frameworks begin -->", "<!-- frameworks end -->"
ENGINES: Final = ("process", "docker")
HEAD: Final = (
    "| Application | Detected | Setting | Seconds to RUNNING, process | docker |\n|---|---|---|---|---|"
)
FOOT: Final = "Stand-ins took the place of these base images: "


class Outcome(NamedTuple):
    row: Row
    engine: str
    framework: str
    seconds: float
    problem: str
    log: str
    stand_ins: tuple[str, ...] = ()

    @property
    def cell(self) -> str:
        if not self.problem:
            return f"{self.seconds:.0f}"
        return self.problem if self.problem.startswith("not tried") else "did not run"


def write(engine: str, outcomes: list[Outcome]) -> None:
    """Rows that were tried replace those of the same name; the others stay as they are."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(old, engine, outcomes)}\n{END}{after}")


def table(old: str, engine: str, outcomes: list[Outcome]) -> str:
    known = _rows_of(old)
    for outcome in outcomes:
        cells = known.setdefault(outcome.row.name, ["-", "-", "-", "-"])
        if outcome.framework:
            cells[0] = outcome.framework
        cells[1] = ", ".join(f"`{name}`" for name in outcome.row.settings) or "as it is"
        cells[2 + ENGINES.index(engine)] = outcome.cell
    names = [row.name for row in (*ROWS, *LANGUAGES) if row.name in known]
    lines = [HEAD, *(f"| {' | '.join([name, *known[name]])} |" for name in names)]
    stand_ins = {name for outcome in outcomes for name in outcome.stand_ins} | _stand_ins_of(old)
    if stand_ins:
        lines += ["", FOOT + ", ".join(f"`{name}`" for name in sorted(stand_ins)) + "."]
    return "\n".join(lines)


def _rows_of(old: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in old.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines[1:]}


def _stand_ins_of(old: str) -> set[str]:
    line = next((line for line in old.splitlines() if line.startswith(FOOT)), "")
    return set(re.findall(r"`([^`]+)`", line))
