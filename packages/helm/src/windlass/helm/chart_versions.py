"""The order of versions of charts, by the rules of semantic versioning."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_VERSION_PATTERN: Final = re.compile(
    r"v?(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]+))?(?:\+.*)?\Z"
)
_Key = tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]


def newest_version_first(versions: Iterable[str]) -> list[str]:
    """Returns the versions without duplicates. Texts that are not versions come last."""
    known = {version: key for version in versions if (key := _key(version)) is not None}
    others = sorted({version for version in versions if version not in known})
    return [*sorted(known, key=lambda version: known[version], reverse=True), *others]


def is_release(version: str) -> bool:
    """Returns whether a version is a release, not a pre-release."""
    key = _key(version)
    return key is not None and key[1]


def _key(version: str) -> _Key | None:
    match = _VERSION_PATTERN.match(version)
    if match is None:
        return None
    numbers = tuple(int(number or 0) for number in match.groups()[:3])
    parts = (match[4] or "").split(".") if match[4] else []
    # Numeric parts are lower than texts.
    before = tuple(
        (0, int(part), "") if part.isdigit() and len(part) < 19 else (1, 0, part) for part in parts
    )
    return numbers, not parts, before
