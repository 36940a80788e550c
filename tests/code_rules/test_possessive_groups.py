"""Patterns have no possessive group that Python matches wrongly: up to 3.11.4, the version of
Debian 12 included, such a group may match too much if there is a choice inside it (gh-106052). A guard that
reads Dockerfiles was once passed by that.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants, _parser
from types import ModuleType
from typing import Any

import windlass

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)


def has_choice(parsed: Any) -> bool:
    """True if a match of it leaves something to try again."""
    for operation, value in parsed:
        if operation is _constants.BRANCH:
            return True
        if operation in _REPEATS and (value[0] != value[1] or has_choice(value[2])):
            return True
        if operation is _constants.SUBPATTERN and has_choice(value[-1]):
            return True
    return False


def unsafe_groups(parsed: Any) -> Iterator[Any]:
    for operation, value in parsed:
        if operation is _constants.POSSESSIVE_REPEAT and has_choice(value[2]):
            yield value
        parts = value if isinstance(value, tuple | list) else [value]
        for part in parts:
            for each in part if isinstance(part, list) else [part]:
                if isinstance(each, _parser.SubPattern):
                    yield from unsafe_groups(each)


def is_safe(pattern: str | bytes, flags: int = 0) -> bool:
    return not list(unsafe_groups(_parser.parse(pattern, flags)))


def patterns(module: ModuleType) -> Iterator[tuple[str, re.Pattern[Any]]]:
    for name, value in vars(module).items():
        many = value.values() if isinstance(value, dict) else value
        for each in many if isinstance(many, list | tuple | set | frozenset) else [many]:
            if isinstance(each, re.Pattern):
                yield f"{module.__name__}.{name}", each


def test_no_pattern_has_a_possessive_group_with_a_choice_inside():
    found = {
        name
        for found in pkgutil.walk_packages(windlass.__path__, "windlass.")
        if not found.name.endswith("__main__")
        for name, pattern in patterns(importlib.import_module(found.name))
        if not is_safe(pattern.pattern, pattern.flags)
    }
    assert found == set(), "write the group without + behind its repeat: its pieces begin differently anyway"


def test_the_check_reports_possessive_groups_with_a_choice_and_no_others():
    assert not is_safe(r"(?:a|bc)*+")
    assert not is_safe(rb"x(?:(?:a\d*)?+|b)")
    assert not is_safe(r'(?:"(?:a*)")++')
    assert is_safe(r"(?:/\w++)*+[ \t]*+x{3}+(?:a|b)*")
