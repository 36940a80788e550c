"""The two forms of a test: quick in `make test`, long in `make test-long`. A pytest plugin.

`WINDLASS_TEST_FORM=long` chooses the long form, and runs nothing but tests that have one:

- `@pytest.mark.long`: the test exists in the long form only; a quick test keeps its promise too;
- `@pytest.mark.sized`: the test has both forms, and `either(quick, long)` chooses its size;
- `@pytest.mark.repeatable`, beside `sized`: CI runs the long form too, for it does not depend on the machine;
- every property test: it tries more examples (`examples`), and others in each run, but the same ones
  in CI, which runs the long form of all properties.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

from hypothesis import settings

T = TypeVar("T")

FORM = os.environ.get("WINDLASS_TEST_FORM", "quick")
LONG = FORM == "long"
FACTOR = 10
"""The long form of a property tries so many times as many examples, unless it says otherwise."""

settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "long", max_examples=500, deadline=None, print_blob=True, database=None, derandomize="CI" in os.environ
)
settings.load_profile(FORM)


def either(quick: T, long: T) -> T:
    return long if LONG else quick


def examples(quick: int, long: int = 0, **more: Any) -> settings:
    """The settings of a property that needs more examples than others, or that can afford fewer."""
    return settings(max_examples=either(quick, long or FACTOR * quick), **more)


def pytest_report_header(config):
    return f"form: {FORM}"


def pytest_collection_modifyitems(config, items):
    """What is of the other form is left out, not skipped."""
    kept = (
        [item for item in items if has_long_form(item)]
        if LONG
        else [item for item in items if not item.get_closest_marker("long")]
    )
    left_out = {*items} - {*kept}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


def has_long_form(item) -> bool:
    is_property = hasattr(getattr(item, "obj", None), "hypothesis")
    return is_property or any(item.get_closest_marker(name) for name in ("long", "sized"))
