"""The page of the manual with the coverage of the full interface, and the table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.interface.coverage import Count, all_listed, count, listed, missing_but_used
from windlass.core.words.not_offered import NOT_OFFERED

COLUMNS = ("Exist", "Act", "Refused", "Walked", "Own test", "Used", "of these missing")

_OPENING = """# Coverage of the full interface

Windlass serves a part of the interface of a hosted product, called *the full interface* here: programs that
were written for it can call Windlass. This page says which part. The interface has {all} operations, which
`tests/interface/operations.toml` lists. `make coverage` counts them, and writes this page.

| Column | Operations |
|---|---|
| Exist | known to the server: they act, or are refused |
| Act | in the OpenAPI document of the server, under `/`, `/api/v1` and `/compat` |
| Refused | answered with 501 and the reason for which Windlass has none |
| Walked | called by the derived tests: with each scope, limit and organization, and with wrong bodies |
| Own test | with a test of its own in which they succeed, named in `tests/interface/tests.txt` |
| Used | called by the contract, the Terraform provider or the command line of the full interface |
"""


def lines() -> Iterator[tuple[str, Count]]:
    for family in listed():
        yield f"{family.number}. {family.name}", count(family.operations)
    yield "All", count(all_listed())


def cells(counted: Count) -> Sequence[int]:
    return counted[1:]


def table() -> str:
    """The table for a terminal."""
    rows = [(name, [str(cell) for cell in (counted.all, *cells(counted))]) for name, counted in lines()]
    head = ("All", *COLUMNS)
    wide = max(len(name) for name, _ in rows)

    def row(name: str, values: Sequence[str]) -> str:
        return "  ".join(
            [
                f"{name:<{wide}}",
                *(f"{value:>{len(title)}}" for title, value in zip(head, values, strict=True)),
            ]
        )

    return "\n".join([row("Family", head), *(row(*line) for line in rows)])


def page() -> str:
    parts = [_OPENING.format(all=count(all_listed()).all), *_main_table(), *_reasons(), *_missing()]
    return "\n".join(parts) + "\n"


def _main_table() -> Iterator[str]:
    yield "| Family | All | " + " | ".join(COLUMNS) + " |"
    yield "|---" * (len(COLUMNS) + 2) + "|"
    for name, counted in lines():
        yield f"| {name} | {counted.all} | " + " | ".join(map(str, cells(counted))) + " |"


def _reasons() -> Iterator[str]:
    yield "\n## Refused, with the reason\n"
    for reason, operations in NOT_OFFERED.items():
        noun = "operation" if len(operations) == 1 else "operations"
        yield f"- {reason}: {len(operations)} {noun}."


def _missing() -> Iterator[str]:
    yield "\n## Used by a client, and missing\n"
    yield from (f"- `{operation.method} {operation.path}`" for operation in missing_but_used())
