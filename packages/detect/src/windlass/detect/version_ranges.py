"""Version ranges in the syntax of package.json, pyproject.toml and version files: `^20.1`, `>=3.10,<4`, `18
|| 20`, `3.12.*`.

Only the three numbers of a release are compared. A range in an unknown form, such as `latest`, contains every
version.
"""

from __future__ import annotations

import re
from typing import Final

_COMPARATOR_PATTERN: Final = re.compile(
    r"(\^|~=|~>|~|===|==|!=|>=|<=|>|<|=)?[ \t]*+[vV]?(\d++)(?:\.(\d++|[xX*]))?(?:\.(\d++|[xX*]))?[\w.*+-]*+"
)
MAX_RANGE_LENGTH: Final = 200
"""Maximum characters of a range that are parsed."""
_HYPHEN_RANGE_PATTERN: Final = re.compile(r"(\S++)[ \t]++-[ \t]++(\S++)")
_NODE_CODE_NAMES: Final = {"hydrogen": "18", "iron": "20", "jod": "22", "krypton": "24"}
"""Code names of Node's long-term releases, which .nvmrc may contain: `lts/jod`."""

Numbers = tuple[int, ...]


def is_in_range(version: str, version_range: str) -> bool:
    """Returns whether a version, such as 20.11.1, is in the range."""
    present = _pad(_numbers(version))
    return any(
        _satisfies(present, alternative) for alternative in version_range[:MAX_RANGE_LENGTH].split("||")
    )


def plain_version(version_range: str) -> str:
    """Returns the numbers of a range that consists of one version or version prefix, such as `v20.11`. Empty
    for other ranges."""
    match = _COMPARATOR_PATTERN.fullmatch(without_name(version_range[:MAX_RANGE_LENGTH]))
    return (
        ".".join(map(str, _numbers_before_wildcard(match)))
        if match and match[1] in (None, "=", "==", "===")
        else ""
    )


def without_name(version_range: str) -> str:
    """Returns the number of a Node release that is given by its code name. Other texts are returned
    unchanged."""
    return _NODE_CODE_NAMES.get(version_range.strip().lower().removeprefix("lts/"), version_range.strip())


def _satisfies(version: Numbers, alternative: str) -> bool:
    text = _HYPHEN_RANGE_PATTERN.sub(r">=\1 <=\2", without_name(alternative))
    return all(_compares(version, match) for match in _COMPARATOR_PATTERN.finditer(text))


def _compares(version: Numbers, match: re.Match[str]) -> bool:
    parts = _numbers_before_wildcard(match)
    same = version[: len(parts)] == parts
    whole = _pad(parts)
    match match[1]:
        case ">=":
            return version >= whole
        case "<":
            return version < whole
        case ">":
            return version > whole and not same
        case "<=":
            return version <= whole or same
        case "!=":
            return not same
        case "^":
            kept = next((place for place, number in enumerate(parts) if number), len(parts) - 1) + 1
            return version >= whole and version[:kept] == parts[:kept]
        case "~" | "~>":
            return version >= whole and version[:2][: len(parts)] == parts[:2]
        case "~=":
            return version >= whole and version[: len(parts) - 1] == parts[:-1]
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
    match = _COMPARATOR_PATTERN.search(version)
    return _numbers_before_wildcard(match) if match else ()


def _pad(numbers: Numbers) -> Numbers:
    return (*numbers, 0, 0, 0)[:3]
