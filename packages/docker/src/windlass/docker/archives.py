"""Reads the archives (tar) in which a Docker engine sends files. An organization may control the engine.

`tarfile` reads an extended header of any size into memory, and searches it in a time that grows with the
square of its size, while no other thread runs. Here, headers are short, and each byte is read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

from msgspec import Struct

BLOCK: Final = 512
MAX_HEADER_BYTES: Final = 64 * 1024
"""Maximum size of an extended header. One with two paths, the longest that Linux has, has 8 KiB."""
FILE, HARD_LINK, SYMBOLIC_LINK, FOLDER = b"0", b"1", b"2", b"5"
_OLD_FILE: Final = b"\0"
_NAME_OF_NEXT, _LINK_OF_NEXT, _NEXT, _ALL_NEXT = b"L", b"K", b"x", b"g"
_WITHOUT_CONTENT: Final = (HARD_LINK, SYMBOLIC_LINK, FOLDER, b"3", b"4", b"6")
"""Links, folders, devices and FIFOs."""
_MAX_HEADERS: Final = 8
"""Maximum number of extended headers of one entry."""
_NAMES: Final = ("path", "linkpath", "size")
"""What is read of extended headers."""
_IS_BINARY: Final = 0x80
_MAX_NUMBER: Final = 1 << 62


class BadEngineArchive(ValueError):
    """Raised for an archive that no Docker engine sends."""


class EngineArchiveEntry(Struct, frozen=True):
    name: str
    kind: bytes
    """One of `FILE`, `HARD_LINK`, `SYMBOLIC_LINK` and `FOLDER`, or another type of tar."""
    size: int
    """Number of bytes of its content, which begins where the archive stands."""
    modified: int
    link: str
    """The path to which a link leads."""


def read_entries(archive: IO[bytes]) -> Iterator[EngineArchiveEntry]:
    """Yields the entries. The caller may read the content of one before the next. Raises BadEngineArchive."""
    at, count, further = 0, 0, dict[str, bytes]()
    while True:
        archive.seek(at)
        head = archive.read(BLOCK)
        if not head.strip(b"\0"):
            return
        _check(head)
        kind, size = (
            head[156:157].replace(_OLD_FILE, FILE),
            _header_number(further.get("size"), head[124:136]),
        )
        size = 0 if kind in _WITHOUT_CONTENT else size
        at += BLOCK + size + -size % BLOCK
        if kind in (_NAME_OF_NEXT, _LINK_OF_NEXT, _NEXT, _ALL_NEXT):
            count += 1
            if size > MAX_HEADER_BYTES or count > _MAX_HEADERS:
                raise BadEngineArchive("the extended headers of an entry are too long")
            further |= _extended_values(kind, archive.read(size))
            continue
        yield EngineArchiveEntry(
            name=_path_text(further.get("path", _entry_path(head))),
            kind=kind,
            size=size,
            modified=_header_number(None, head[136:148]),
            link=_path_text(further.get("linkpath", _until_nul(head[157:257]))),
        )
        count, further = 0, {}


def _check(head: bytes) -> None:
    sent = head[148:156]
    if len(head) < BLOCK or _header_number(None, sent) != sum(head) - sum(sent) + len(sent) * ord(" "):
        raise BadEngineArchive("a header is damaged")


def _header_number(written: bytes | None, field: bytes) -> int:
    """Returns the number in a field of a header, or that of an extended header."""
    try:
        if written is not None:
            number = int(written[:20])
        elif field[0] & _IS_BINARY:
            number = int.from_bytes(field) - (_IS_BINARY << 8 * (len(field) - 1))
        else:
            number = int(_until_nul(field).strip() or b"0", 8)
    except ValueError as error:
        raise BadEngineArchive("a number is not valid") from error
    if not 0 <= number < _MAX_NUMBER:
        raise BadEngineArchive("a number is not valid")
    return number


def _entry_path(head: bytes) -> bytes:
    name, prefix = _until_nul(head[:100]), _until_nul(head[345:500])
    return prefix + b"/" + name if prefix and head[257:263] == b"ustar\0" else name


def _extended_values(kind: bytes, content: bytes) -> dict[str, bytes]:
    """Returns what an extended header says of the next entry."""
    match kind:
        case b"L":
            return {"path": _until_nul(content)}
        case b"K":
            return {"linkpath": _until_nul(content)}
        case b"x":
            return {name: value for name, value in _extended_records(content) if name in _NAMES}
    return {}


def _extended_records(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields the records `LENGTH NAME=VALUE` of an extended header, each with a line break at its end."""
    at = 0
    while at < len(content):
        length, _, _ = content[at : at + 8].partition(b" ")
        if (
            not length.isdigit()
            or not (end := at + int(length)) <= len(content)
            or int(length) < len(length) + 3
        ):
            raise BadEngineArchive("an extended header is damaged")
        name, _, value = content[at + len(length) + 1 : end - 1].partition(b"=")
        yield name.decode(errors="replace"), value
        at = end


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _path_text(path: bytes) -> str:
    return path.decode(errors="surrogateescape")
