"""Modules that are loaded at their first use, and patterns that are compiled then: what few processes need
must not slow down the start of all, nor take memory there.

A type checker reads the usual import beside it:

    if TYPE_CHECKING:
        from cryptography import x509
    else:
        x509 = lazy_module("cryptography.x509")
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, AnyStr, cast


class _UnloadedModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def lazy_module(name: str) -> Any:
    """Returns a stand-in for a module, which imports it when an attribute is read."""
    return _UnloadedModule(name)


class _UncompiledPattern:
    def __init__(self, text: Any, flags: int) -> None:
        self._source = (text, flags)

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(re.compile(*self._source), attribute)
        setattr(self, attribute, value)
        return value


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Returns a stand-in for a pattern, which compiles it at first use. Only the methods of patterns work:
    the functions of `re` do not take it."""
    return cast("re.Pattern[AnyStr]", _UncompiledPattern(text, flags))
