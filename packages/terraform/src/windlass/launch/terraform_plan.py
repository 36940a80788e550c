"""Reads the text of a plan: how many resources it adds, changes and destroys, and which. Pure."""

from __future__ import annotations

import re
from typing import Final

_COUNTS: Final = re.compile(
    r"^Plan:(?: (\d+) to import,)? (\d+) to add, (\d+) to change, (\d+) to destroy", re.MULTILINE
)
_ACTIONS: Final = (
    ("must be replaced", "replace"),
    ("will be replaced", "replace"),
    ("will be created", "create"),
    ("will be updated in-place", "update"),
    ("will be destroyed", "destroy"),
    ("will be read during apply", "read"),
    ("will no longer be managed", "forget"),
)
_PLANNED: Final = re.compile(r"^  # (\S.*?) (?:\(deposed object \S+\) )?((?:must|will) .*)$", re.MULTILINE)


def counts_in(text: str) -> dict[str, int]:
    """Returns how many resources a plan adds, changes and destroys."""
    match = _COUNTS.search(text)
    added, changed, destroyed = (int(number) for number in match.groups()[1:]) if match else (0, 0, 0)
    return {"added": added, "changed": changed, "destroyed": destroyed}


def planned_in(text: str) -> list[dict[str, str]]:
    """Returns what a plan does with each resource."""
    return [
        {"address": address, "action": action}
        for address, words in _PLANNED.findall(text)
        for phrase, action in _ACTIONS
        if phrase in words
    ]
