"""Tags of images as versions: their order, and which are newer than another. Pure.

A tag such as `v1.4.2-alpine` has numbers and a variant. Only tags of the same form are compared:
`1.5.0-alpine` is no newer version of `1.4.2`, and `1.5` none either, because it is moved to each 1.5.x.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

_VERSION: Final = re.compile(
    r"(?P<before>v?)(?P<numbers>[0-9]{1,12}(\.[0-9]{1,12}){0,5})(?P<after>[-_+.].*)?\Z", re.ASCII
)
_UNSTABLE: Final = re.compile(
    r"(^|[-_+.0-9])(a|alpha|b|beta|rc|pre|preview|dev|canary|nightly|snapshot)([-_+.0-9]|\Z)", re.IGNORECASE
)


class TagVersion(Struct, frozen=True):
    numbers: tuple[int, ...]
    before: str
    after: str

    def has_form_of(self, other: TagVersion) -> bool:
        forms = [(len(tag.numbers), tag.before, tag.after) for tag in (self, other)]
        return forms[0] == forms[1]


def version_in(tag: str) -> TagVersion | None:
    match = _VERSION.match(tag)
    if match is None:
        return None
    numbers = tuple(int(part) for part in match["numbers"].split("."))
    return TagVersion(numbers, match["before"], match["after"] or "")


def newest_first(tags: Iterable[str]) -> list[str]:
    """Returns tags in an order for people: versions, the highest first, a release before what led to it; then
    all other tags by name."""
    versions = {tag: version_in(tag) for tag in dict.fromkeys(tags)}
    numbered = [(version, tag) for tag, version in versions.items() if version]
    numbered.sort(key=lambda entry: entry[1])
    numbered.sort(key=lambda entry: (entry[0].numbers, not _UNSTABLE.search(entry[0].after)), reverse=True)
    return [tag for _, tag in numbered] + sorted(tag for tag, version in versions.items() if version is None)


def newer_than(present: str, tags: Iterable[str]) -> list[str]:
    """Returns the tags of the same form with higher numbers, the highest first."""
    own = version_in(present)
    if own is None:
        return []
    return [
        tag
        for tag in newest_first(tags)
        if (version := version_in(tag)) and version.has_form_of(own) and version.numbers > own.numbers
    ]
