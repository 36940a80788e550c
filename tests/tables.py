"""Table tests: one promise, tried with many rows inside one test; a pytest plugin counts the rows.

    @table("operation", registry().operations, lambda operation: operation.id)
    async def test_every_operation_has_a_summary(stage, operation): ...

Hundreds of operations share one world and one test this way. No row is lost by it: all rows run, whatever the
rows before them did, and the failure names each row that failed, with its traceback. `ROW` runs a row alone:

    ROW=deleteProject pytest tests/derived/test_access.py

Rows of several values are written as for pytest.mark.parametrize. Each is named by its id, if it has one,
or by its number and its beginning:

    @rows(("text", "port"), [("EXPOSE 80", 80), ("EXPOSE 81/tcp", 81)])
    def test_a_port_is_read(text, port): ...

Use pytest.mark.parametrize only where each row needs a world of its own, or a mark.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

TABLE_SECONDS = 900
"""The limit of a whole table. The longest tests come first in a run (tests/patience.py), so tables do."""
ROW_SECONDS = 90
"""The limit of one row of an asynchronous table."""
CHOSEN = os.environ.get("ROW", "").split()


def table(parameter: str, rows: Iterable[Any], name: Callable[[Any], str]) -> Callable[[Any], Any]:
    """Calls the test once for each row, in one test; the parameter receives the row. There must be rows."""
    every = list(rows)
    named = {name(row): row for row in every}
    assert named, "a table without rows promises nothing"
    assert len(named) == len(every), "two rows of one name: only one of them would run"

    def decorate(test: Any) -> Any:
        values = {name: {parameter: row} for name, row in named.items()}
        return pytest.mark.timeout(TABLE_SECONDS)(_with_rows(test, values))

    return decorate


def rows(
    parameters: str | Sequence[str],
    values: Iterable[Any],
    *,
    ids: Callable[[Any], str | None] | Iterable[str] | None = None,
) -> Callable[[Any], Any]:
    """Calls the test once for each row of values, in one test: the form of pytest.mark.parametrize."""
    names = re.findall(r"\w+", parameters) if isinstance(parameters, str) else [*parameters]
    every = [value if isinstance(value, _PARAM) else _param(value, len(names)) for value in values]
    assert every, "a table without rows promises nothing"
    assert not any(value.marks for value in every), "a row with a mark is a test: use pytest.mark.parametrize"
    named: dict[str, dict[str, Any]] = {}
    given = ids if ids is None or callable(ids) else [*ids]
    for number, value in enumerate(every):
        if callable(given):
            chosen: str | None = "-".join(str(given(each)) for each in value.values)
        else:
            chosen = given[number] if given else value.id if isinstance(value.id, str) else None
        name = re.sub(r"\s+", "-", chosen) if chosen else f"{number}-{_beginning(value.values)}"
        if name in named:
            name = f"{name}-{number}"
        named[name] = dict(zip(names, value.values, strict=True))
    return lambda test: pytest.mark.timeout(TABLE_SECONDS)(_with_rows(test, named))


_PARAM = type(pytest.param())


def _param(value: Any, count: int) -> Any:
    return pytest.param(value) if count == 1 else pytest.param(*value)


def _beginning(values: Iterable[Any]) -> str:
    """The beginning of a row, as a word."""
    return "-".join(re.findall(r"\w+", " ".join(str(value)[:80] for value in values)))[:40]


def _with_rows(test: Any, rows: Mapping[str, Mapping[str, Any]]) -> Any:
    parameters = {parameter for row in rows.values() for parameter in row}
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def tabled(*arguments: Any, **fixtures: Any) -> None:
            outcome = Outcome(rows)
            for row in outcome.chosen():
                with outcome.row(row):
                    async with asyncio.timeout(ROW_SECONDS):
                        await test(*arguments, **fixtures, **rows[row])
            outcome.judge()

    else:

        @functools.wraps(test)
        def tabled(*arguments: Any, **fixtures: Any) -> None:
            outcome = Outcome(rows)
            for row in outcome.chosen():
                with outcome.row(row):
                    test(*arguments, **fixtures, **rows[row])
            outcome.judge()

    signature = inspect.signature(test)
    fixtures = [found for found in signature.parameters.values() if found.name not in parameters]
    missing = parameters - signature.parameters.keys()
    assert not missing, f"the test has no parameter {' '.join(sorted(missing))}"
    tabled.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
    tabled.rows = tuple(rows)  # type: ignore[attr-defined]
    return tabled


class Outcome:
    """The rows of one run of a table, and those that failed."""

    def __init__(self, rows: Iterable[str]) -> None:
        self._rows = tuple(rows)
        self._failed: dict[str, Exception] = {}

    def chosen(self) -> Iterator[str]:
        rows = [row for row in self._rows if not CHOSEN or row in CHOSEN]
        if not rows:
            pytest.skip(f"the table has no row {' '.join(CHOSEN)}")
        yield from rows

    @contextmanager
    def row(self, name: str) -> Iterator[None]:
        """Keeps a failure. Anything else, such as the end of the test's time, passes with the row's name."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (raised again with all others)
            error.add_note(f"row: {name}")
            self._failed[name] = error
        except BaseException as error:
            error.add_note(f"row: {name}")
            raise

    def judge(self) -> None:
        if self._failed:
            names = ", ".join(self._failed)
            test = os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)")
            raise ExceptionGroup(
                f"{len(self._failed)} of {len(self._rows)} rows failed: {names}. "
                f"One row alone: ROW={next(iter(self._failed))} pytest '{test}'",
                list(self._failed.values()),
            )


# The plugin: how many rows a run has tried


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        report.rows = len(getattr(getattr(item, "obj", None), "rows", ()))
    return report


def pytest_terminal_summary(terminalreporter):
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    rows = [one.rows for one in reports if getattr(one, "rows", 0)]
    if rows and not CHOSEN:
        terminalreporter.line(f"{len(rows)} of these tests are tables, with {sum(rows)} rows")
