"""Version ranges in the syntax of package.json, pyproject.toml and version files: `^20.1`, `>=3.10,<4`, `18
|| 20`, `3.12.*`.

Only the three numbers of a release are compared. A range in an unknown form, such as `latest`, contains every
version.
"""

from __future__ import annotations

import re
from typing import Final

_COMPARATOR: Final = re.compile(
    r"(\^|~=|~>|~|===|==|!=|>=|<=|>|<|=)?[ \t]*+[vV]?(\d++)(?:\.(\d++|[xX*]))?(?:\.(\d++|[xX*]))?[\w.*+-]*+"
)
MAX_RANGE_LENGTH: Final = 200
"""Maximum characters of a range that are parsed."""
_BETWEEN: Final = re.compile(r"(\S++)[ \t]++-[ \t]++(\S++)")
_NAMES: Final = {"hydrogen": "18", "iron": "20", "jod": "22", "krypton": "24"}
"""Code names of Node's long-term releases, which .nvmrc may contain: `lts/jod`."""

Numbers = tuple[int, ...]


def is_in_range(version: str, wanted: str) -> bool:
    """Returns whether a version, such as 20.11.1, is in the range."""
    present = _pad(_numbers(version))
    return any(_satisfies(present, alternative) for alternative in wanted[:MAX_RANGE_LENGTH].split("||"))


def plain_version(wanted: str) -> str:
    """Returns the numbers of a range that consists of one version or version prefix, such as `v20.11`. Empty
    for other ranges."""
    match = _COMPARATOR.fullmatch(without_name(wanted[:MAX_RANGE_LENGTH]))
    return (
        ".".join(map(str, _numbers_before_wildcard(match)))
        if match and match[1] in (None, "=", "==", "===")
        else ""
    )


def without_name(wanted: str) -> str:
    """Returns the number of a Node release that is given by its code name. Other texts are returned
    unchanged."""
    return _NAMES.get(wanted.strip().lower().removeprefix("lts/"), wanted.strip())


def _satisfies(present: Numbers, alternative: str) -> bool:
    text = _BETWEEN.sub(r">=\1 <=\2", without_name(alternative))
    return all(_compares(present, match) for match in _COMPARATOR.finditer(text))


def _compares(present: Numbers, match: re.Match[str]) -> bool:
    parts = _numbers_before_wildcard(match)
    same = present[: len(parts)] == parts
    whole = _pad(parts)
    match match[1]:
        case ">=":
            return present >= whole
        case "<":
            return present < whole
        case ">":
            return present > whole and not same
        case "<=":
            return present <= whole or same
        case "!=":
            return not same
        case "^":
            kept = next((place for place, number in enumerate(parts) if number), len(parts) - 1) + 1
            return present >= whole and present[:kept] == parts[:kept]
        case "~" | "~>":
            return present >= whole and present[:2][: len(parts)] == parts[:2]
        case "~=":
            return present >= whole and present[: len(parts) - 1] == parts[:-1]
        case _:
            return same


def _numbers_before_wildcard(match: re.Match[str]) -> Numbers:
    """Returns the version numbers up to the first wildcard."""
    parts: list[int] = []
    for text in (match[2], match[3], match[4]):
        if text is None or not text.isdigit():
            break
        parts.append(int(text[:9]))
    return tuple(parts)


def _numbers(version: str) -> Numbers:
    match = _COMPARATOR.search(version)
    return _numbers_before_wildcard(match) if match else ()


def _pad(numbers: Numbers) -> Numbers:
    return (*numbers, 0, 0, 0)[:3]
