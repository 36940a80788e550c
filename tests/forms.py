"""Forms of a test: quick (`make test`), long (`make test-long`), fixed (`make test-all`). A pytest plugin.

`WINDLASS_TEST_FORM=long` chooses the long form, and runs nothing but tests that have one:

- `@pytest.mark.long`: the test exists in the long form only; a quick test keeps its promise too;
- `@pytest.mark.sized`: the test has both forms, and `either(quick, long)` chooses its size;
- every property test: it tries more examples (`examples`), and others in each run.

`WINDLASS_TEST_FORM=fixed` is the long form of what does the same in each run, on any machine: every property
test, with the same examples each time, and `@pytest.mark.repeatable`, which stands beside `sized` or `long`.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

FORM = os.environ.get("WINDLASS_TEST_FORM", "quick")
LONG = FORM != "quick"
FACTOR = 10
"""The long form of a property tries so many times as many examples, unless it says otherwise."""

# A machine under load draws examples slowly, which says nothing about the property.
_ALWAYS: Any = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=50, derandomize=True, **_ALWAYS)
settings.register_profile("long", max_examples=500, print_blob=True, **_ALWAYS)
settings.register_profile("fixed", max_examples=500, derandomize=True, **_ALWAYS)
settings.load_profile(FORM)


def either(quick: T, long: T) -> T:
    return long if LONG else quick


def examples(quick: int, long: int = 0, **more: Any) -> settings:
    """The settings of a property that needs more examples than others, or that can afford fewer."""
    return settings(max_examples=either(quick, long or FACTOR * quick), **more)


def pytest_report_header(config):
    return f"form: {FORM}"


def pytest_collection_modifyitems(config, items):
    """What is of another form is left out, not skipped."""
    kept = [item for item in items if IS_IN_FORM[FORM](item)]
    left_out = {*items} - {*kept}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


def is_property(item) -> bool:
    return hasattr(getattr(item, "obj", None), "hypothesis")


def is_marked(item, *markers: str) -> bool:
    return any(item.get_closest_marker(marker) for marker in markers)


IS_IN_FORM = {
    "quick": lambda item: not is_marked(item, "long"),
    "long": lambda item: is_property(item) or is_marked(item, "long", "sized"),
    "fixed": lambda item: (
        is_marked(item, "repeatable") if is_marked(item, "long", "sized") else is_property(item)
    ),
}
