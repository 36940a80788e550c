"""The index of a site's release: its files by path, and the rules for its answers.

The index is one file beside the content files, which are named by their digests. A router serves only files
that the index lists: a request path is never a path in the file system. The index is searched in its stored
form, so that even a large index needs neither parsing nor additional memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.routers.sites.rules import HeaderRule, Redirect

INDEX_FILE: Final = "index"
GZIP_SUFFIX: Final = ".gz"
INDEX_FORMAT: Final = 1
"""Version of the index format. It is part of a release's name, so that a Windlass version with another format
publishes the files again."""


class SiteFile(Struct, frozen=True, array_like=True, gc=False):
    digest: str
    """Digest of the content, which is also the name of the stored file."""
    size: int
    type: str
    modified: int
    """Seconds since 1970."""
    gzip: int = 0
    """Size of the compressed copy; 0 if there is none."""
    is_immutable: bool = False
    """Whether the path contains a digest, so that the content never changes."""


class SiteRules(Struct, frozen=True, array_like=True):
    fallback: str = ""
    """File for requests for pages that do not exist; empty for none."""
    redirects: tuple[Redirect, ...] = ()
    headers: tuple[HeaderRule, ...] = ()
    """Header rules. Later rules override earlier rules."""


class StoredIndex(Struct, frozen=True, array_like=True):
    format: int
    rules: SiteRules
    offsets: bytes
    """Offset of each entry in `entries`."""
    entries: bytes
    """Concatenated entries, sorted by path: each is a path, a NUL, and a SiteFile."""


_decode_file: Final = msgspec.msgpack.Decoder(SiteFile).decode
_decode: Final = msgspec.msgpack.Decoder(StoredIndex).decode


class SiteIndex:
    __slots__ = ("_entries", "_offsets", "rules", "size")

    def __init__(self, content: bytes) -> None:
        stored = _decode(content)
        if stored.format != INDEX_FORMAT:
            raise ValueError("another version of Windlass has written this index")
        self.rules = stored.rules
        self._entries = stored.entries
        self._offsets = array("Q", stored.offsets)
        self.size = len(content)

    def __len__(self) -> int:
        return len(self._offsets)

    def find(self, path: str) -> SiteFile | None:
        """Returns the file of a path, relative to the site's root; None if it does not exist. Uses binary
        search."""
        key = path.encode() + b"\0"
        entries, offsets, length = self._entries, self._offsets, len(key)
        low, high = 0, len(offsets)
        while low < high:
            middle = (low + high) // 2
            if entries[offsets[middle] : offsets[middle] + length] < key:
                low = middle + 1
            else:
                high = middle
        if low == len(offsets) or not entries.startswith(key, offsets[low]):
            return None
        begin = offsets[low] + length
        end = offsets[low + 1] if low + 1 < len(offsets) else len(entries)
        return _decode_file(entries[begin:end])


def encode_index(files: Mapping[str, SiteFile], rules: SiteRules) -> bytes:
    offsets, entries, at = array("Q"), list[bytes](), 0
    for path, file in sorted((path.encode() + b"\0", file) for path, file in files.items()):
        offsets.append(at)
        entries.append(path + msgspec.msgpack.encode(file))
        at += len(entries[-1])
    return msgspec.msgpack.encode(StoredIndex(INDEX_FORMAT, rules, offsets.tobytes(), b"".join(entries)))


def read_index(folder: Path) -> SiteIndex:
    return SiteIndex((folder / INDEX_FILE).read_bytes())
