"""Marks of tests decide which run in `make test`, in CI and at night (docs/tests.md). A pytest plugin.

A promise is proved once, at the cheapest place that can prove it. Everything that proves it again has a mark:

- no mark: `make test`, and the two others;
- `@pytest.mark.slow`: `.ci/run` and `make nightly`. It needs a real part (Docker, a browser, killed servers,
  the other database) or takes many seconds, and no quick test keeps its promise;
- `@pytest.mark.nightly`: `make nightly` only. It keeps a promise that another test keeps too, in another
  place or in a larger size; or it is a negative control that takes seconds: it shows that the test beside it
  would notice, and changes with that test alone.

Rows are marked as tests are: `params=["sqlite", *nightly("postgres")]`. A test has the last of the marks of
its rows, itself, its class and its module. `@pytest.mark.essential` stands at a test whose neighbours are
nightly, although each place keeps this promise with code of its own: it is slow instead.

`either(usual, nightly)` chooses the size of a test, and properties try ten times the examples in the nightly
run, others each time. A test that is named by its id, such as `pytest tests/test_x.py::test_y`, always runs.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")

RUN = os.environ.get("WINDLASS_TESTS", "quick")
"""`quick`, `ci` or `nightly`: each runs all tests of those before it."""
LEVELS = {"quick": 0, "ci": 1, "nightly": 2}
SLOW_SECONDS = 400
"""The limit of a slow or nightly test that has none of its own."""
FACTOR = 10
"""A property tries so many times as many examples in the nightly run, unless it says otherwise."""

# A machine under load draws examples slowly, which says nothing about the property.
_ALWAYS: Any = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("usual", max_examples=50, derandomize=True, **_ALWAYS)
settings.register_profile("nightly", max_examples=50 * FACTOR, print_blob=True, **_ALWAYS)
settings.load_profile("nightly" if RUN == "nightly" else "usual")


def either(usual: T, nightly: T) -> T:
    """Chooses the size of a test."""
    return nightly if RUN == "nightly" else usual


def examples(usual: int, nightly: int = 0, **more: Any) -> settings:
    """The settings of a property that needs more examples than others, or that can afford fewer."""
    return settings(max_examples=either(usual, nightly or FACTOR * usual), **more)


def slow(*rows: Any) -> list[Any]:
    """Marks rows of a fixture or a test. A tuple is a row of several values."""
    return _marked(pytest.mark.slow, rows)


def nightly(*rows: Any) -> list[Any]:
    """See slow()."""
    return _marked(pytest.mark.nightly, rows)


def _marked(mark: Any, rows: tuple[Any, ...]) -> list[Any]:
    return [pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=mark) for row in rows]


def pytest_itemcollected(item):
    """Gives slow tests more time: on a busy machine they take several times as long as on a quiet one."""
    if level(item) and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


def pytest_report_header(config):
    return f"tests: {RUN}"


def pytest_collection_modifyitems(config, items):
    """Leaves out tests of a longer run instead of skipping them."""
    named = [arg for arg in config.args if "::" in arg]
    kept = [item for item in items if named or level(item) <= LEVELS[RUN]]
    left_out = {*items} - {*kept}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


def level(item) -> int:
    if item.get_closest_marker("nightly"):
        return LEVELS["ci" if item.get_closest_marker("essential") else "nightly"]
    return LEVELS["ci" if item.get_closest_marker("slow") else "quick"]
