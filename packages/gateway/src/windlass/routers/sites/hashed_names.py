"""Recognizes files whose name contains a digest of their content, so that they never change.

A mistake makes browsers keep an old file for a year, so that only what is certain counts: folders that build
tools reserve for such files, and digests that are neither a word, nor a number, nor a date.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from windlass.routers.sites.media_types import is_asset, suffix_of

_RESERVED: Final = ("_next/static/", "_astro/", "_app/immutable/")
"""Folders of Next, Astro and SvelteKit in which everything has a digest or an id of its build."""
_CODE: Final = frozenset({"js", "mjs", "cjs", "css", "wasm", "map", "woff", "woff2", "ttf"})
_DATA: Final = frozenset({"json", "xml", "txt", "csv", "rss", "atom", "webmanifest", "pdf", "zip"})
"""Types that people download, publish and name by themselves."""
_HEX: Final = re.compile(r"[0-9a-f]{8,64}")
_MIXED: Final = re.compile(r"[A-Za-z0-9_]{8,32}")
_SEPARATORS: Final = re.compile(r"[.~-]")
_CHANGES_OF_HEX, _CHANGES_OF_CODE, _CHANGES = 2, 3, 4
"""The least number of changes between digits and letters, and between these and capitals."""


def has_content_hash(path: str) -> bool:
    """True if the content at this path never changes. `path` is relative to the site."""
    suffix = suffix_of(path)
    if not is_asset(path) or suffix in _DATA:
        return False
    if path.startswith(_RESERVED):
        return True
    _, *tokens = _SEPARATORS.split(path.rpartition("/")[2].removesuffix(f".{suffix}").removesuffix(".js"))
    return any(_is_digest(token, is_code=suffix in _CODE) for token in tokens)


def _is_digest(token: str, *, is_code: bool) -> bool:
    changes = _changes(token)
    if _HEX.fullmatch(token):
        return changes >= _CHANGES_OF_HEX
    has_all = any(map(str.isupper, token)) and any(map(str.isdigit, token))
    least = _CHANGES_OF_CODE if is_code else _CHANGES
    return bool(_MIXED.fullmatch(token)) and has_all and changes >= least


def _changes(token: str) -> int:
    """Returns how often a small letter, a capital or a digit follows one of another kind."""
    kinds = [letter.isdigit() + 2 * letter.isupper() for letter in token]
    return sum(before != after for before, after in pairwise(kinds))
