"""Forms of a test: quick (`make test`), fixed (`make test-all`), long (`make test-long`). A pytest plugin.

**The rule.** `make test` proves every promise once, in the place where it is most likely to break, unless
that takes many seconds. The same promise in another place (the second database, the second engine, a browser,
whole servers that are killed) and in a larger size runs in the fixed form. CI runs both forms. What is
elsewhere in two ways, such as a story of whole servers on the second database, runs in the long form only.

A test says in which form it runs:

- `elsewhere(…)` around rows, or `@pytest.mark.elsewhere` at a test, a class or a module: the promise in
  another place, for `make test-all`. `params=["sqlite", *elsewhere("postgres")]` is the usual use. A row so
  marked, of a test so marked, is for `make test-long`;
- `@pytest.mark.essential`: this one runs in every place where its neighbours run in one, because each place
  keeps the promise with code of its own;
- `@pytest.mark.alike`: other places keep the promise with the same code, so that `make test-long` tries them;
- `@pytest.mark.long`: the test exists in the long form only; a quick test keeps its promise too;
- `@pytest.mark.sized`: the test has both forms, and `either(quick, long)` chooses its size;
- every property test: it tries more examples (`examples`) in the long form, and others in each run.

`WINDLASS_TEST_FORM=long` chooses the long form: every test above that `make test` leaves out or runs in a
smaller size. `WINDLASS_TEST_FORM=fixed` chooses those of them that do the same in each run, on any machine:
promises in another place, every property test, with the same examples each time, and
`@pytest.mark.repeatable`, which stands beside `sized` or `long`, with `either(…, repeatable=True)`.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")

FORM = os.environ.get("WINDLASS_TEST_FORM", "quick")
FACTOR = 10
"""The long form of a property tries so many times as many examples, unless it says otherwise."""
FIXED_FACTOR = 3
"""The same for the fixed form."""

# A machine under load draws examples slowly, which says nothing about the property.
_ALWAYS: Any = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=50, derandomize=True, **_ALWAYS)
settings.register_profile("long", max_examples=500, print_blob=True, **_ALWAYS)
settings.register_profile("fixed", max_examples=150, derandomize=True, **_ALWAYS)
settings.load_profile(FORM)


def either(quick: T, long: T, *, repeatable: bool = False) -> T:
    """Chooses the size of a test. In the fixed form a test has its long size only if it is repeatable: there,
    any other one is the promise of another place, in the size of `make test`."""
    return long if FORM == "long" or (repeatable and FORM == "fixed") else quick


def varying(quick: T, long: T) -> T:
    """The size of a sized test that is not repeatable: long in the long form only. The fixed form has it in
    other places, in the quick size."""
    return long if FORM == "long" else quick


def elsewhere(*rows: Any) -> list[Any]:
    """Marks rows of a fixture or a test as other places of a promise that the first row proves. A tuple is a
    row of several values."""
    return [
        pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.elsewhere)
        for row in rows
    ]


def examples(quick: int, long: int = 0, **more: Any) -> settings:
    """The settings of a property that needs more examples than others, or that can afford fewer."""
    long = long or FACTOR * quick
    number = min(long, FIXED_FACTOR * quick) if FORM == "fixed" else either(quick, long)
    return settings(max_examples=number, **more)


def pytest_report_header(config):
    return f"form: {FORM}"


def pytest_collection_modifyitems(config, items):
    """Leaves out tests of another form instead of skipping them."""
    kept = [item for item in items if IS_IN_FORM[FORM](item)]
    left_out = {*items} - {*kept}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


def is_property(item) -> bool:
    return hasattr(getattr(item, "obj", None), "hypothesis")


def is_marked(item, *markers: str) -> bool:
    return any(item.get_closest_marker(marker) for marker in markers)


def ways_elsewhere(item) -> int:
    """The number of ways in which it is elsewhere; an essential test may be so in one without leaving."""
    return len([*item.iter_markers("elsewhere")]) - is_marked(item, "essential")


def is_elsewhere(item) -> bool:
    return ways_elsewhere(item) > 0


def is_in_quick(item) -> bool:
    return not (is_marked(item, "long") or is_elsewhere(item))


def is_in_long(item) -> bool:
    return is_property(item) or is_marked(item, "sized") or not is_in_quick(item)


def is_in_fixed(item) -> bool:
    if ways_elsewhere(item) > 1 or (is_elsewhere(item) and is_marked(item, "alike")):
        return False
    if is_marked(item, "repeatable"):
        return is_in_long(item)
    if is_elsewhere(item):
        return not is_marked(item, "long")
    return is_property(item) and not is_marked(item, "long", "sized")


IS_IN_FORM = {"quick": is_in_quick, "long": is_in_long, "fixed": is_in_fixed}
