"""Reads a tar archive, plain or compressed with gzip, which may be malicious.

The reader supports files, folders and links in the formats ustar, GNU and pax, and keeps one block in memory.
Other kinds of entries are refused. Python's `tarfile` reads headers of any length into memory, and supports
kinds of entries that applications do not need.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, Literal

from msgspec import Struct

from windlass.builders.builder import BuildError

BLOCK_BYTES: Final = 512
_PIECE: Final = 64 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_NAME_BYTES: Final = 64 * 1024
"""Limit for the bytes of the headers with an entry's long names, which stay in memory until the entry is
read."""
_MAX_RECORDS: Final = 100
"""Limit for the number of records in a pax header. Usual headers have only a few, such as names and times."""
_KINDS: Final[dict[bytes, Literal["file", "folder", "link", "twin"]]] = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"5": "folder",
    b"2": "link",
    b"1": "twin",
}
_NAMES: Final = {
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a pipe",
    b"S": "a sparse file",
    b"M": "a part of a file",
    b"V": "a volume header",
}


class UploadError(BuildError):
    """Raised if an archive is invalid. The message is for the person who uploaded it."""


class ArchiveEntry(Struct, frozen=True):
    """A file, folder or link of an archive."""

    kind: Literal["file", "folder", "link", "twin"]
    """"link" is a symbolic link; "twin" is a hard link, with the content of an earlier file."""
    path: bytes
    size: int = 0
    target: bytes = b""
    is_executable: bool = False


class ByteSource:
    """The decompressed bytes of an archive. Raises UploadError for more than `most` bytes."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._most, self._left = file, limit, limit
        self._held, self._at = b"", 0
        first = file.read(len(_GZIP_MAGIC))
        file.seek(0)
        self._zip = zlib.decompressobj(31) if first == _GZIP_MAGIC else None
        self._packed = b""

    def read(self, size: int) -> bytes:
        """Returns `size` bytes, or fewer at the end."""
        while len(self._held) - self._at < size and (piece := self._next()):
            self._left -= len(piece)
            if self._left < 0:
                raise UploadError(f"Send less: the folder is larger than {self._most >> 20} MiB")
            self._held, self._at = self._held[self._at :] + piece, 0
        taken = self._held[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yields `size` bytes in pieces. Raises UploadError if the archive has fewer."""
        while size:
            piece = self.read(min(size, _PIECE))
            if not piece:
                raise _cut_off()
            size -= len(piece)
            yield piece

    def _next(self) -> bytes:
        if self._zip is None:
            return self._file.read(_PIECE)
        try:
            return self._inflate()
        except zlib.error as error:
            raise UploadError(
                "Send a tar archive, plain or compressed with gzip: this gzip is broken"
            ) from error

    def _inflate(self) -> bytes:
        assert self._zip is not None
        while True:
            if self._zip.eof:  # a gzip file may consist of several members
                self._packed = self._zip.unused_data or self._packed
                if not (self._packed or self._refill()):
                    return b""
                if not self._packed.startswith(_GZIP_MAGIC[:1]):
                    return b""  # padding at the end of the archive
                self._zip = zlib.decompressobj(31)
            if not self._packed and not self._refill():
                raise _cut_off()
            piece = self._zip.decompress(self._packed, _PIECE)
            self._packed = self._zip.unconsumed_tail
            if piece:
                return piece

    def _refill(self) -> bool:
        self._packed = self._file.read(_PIECE)
        return bool(self._packed)


class TarReader:
    """Iterates over the entries of an archive. The content of a file must be read before the next entry."""

    def __init__(self, unpacked: ByteSource, limit: int) -> None:
        """`limit`: the maximum number of entries, including headers."""
        self._unpacked = unpacked
        self._most, self._count = limit, 0
        self._unread = self._named = 0

    def content(self) -> Iterator[bytes]:
        """Yields the content of the file that the iterator has returned last."""
        for piece in self._unpacked.pieces(self._unread):
            self._unread -= len(piece)
            yield piece

    def __iter__(self) -> Iterator[ArchiveEntry]:
        names: dict[str, bytes] = {}
        while block := self._header():
            kind, size = block[156:157], _number(block[124:136])
            if kind in (b"L", b"K"):
                names["path" if kind == b"L" else "linkpath"] = self._text(size).rstrip(b"\0")
            elif kind == b"x":
                names |= _parse_pax(self._text(size))
            elif kind == b"g":
                self._text(size)
            else:
                entry, padding = self._entry(block, kind, size, names), -size % BLOCK_BYTES
                names, self._named = {}, 0
                self._unread = entry.size
                yield entry
                for _ in self.content():
                    pass
                for _ in self._unpacked.pieces(padding if entry.kind == "file" else 0):
                    pass

    def _header(self) -> bytes:
        """Returns the next header block; empty at the end of the archive."""
        self._count += 1
        if self._count > self._most:
            raise UploadError(f"Send fewer files: the folder has more than {self._most}")
        block = self._unpacked.read(BLOCK_BYTES)
        if len(block) < BLOCK_BYTES:
            raise _cut_off() if block or self._count == 1 else _without_end()
        if not any(block):
            return b""
        if _number(block[148:156]) != sum(block[:148]) + 8 * 32 + sum(block[156:]):
            raise UploadError(
                "Send a tar archive, plain or compressed with gzip: this is not one, or it is damaged"
            )
        return block

    def _entry(self, block: bytes, kind: bytes, size: int, pax_names: dict[str, bytes]) -> ArchiveEntry:
        path = pax_names.get("path") or _path(block)
        if (sort := _KINDS.get(kind)) is None:
            name = _NAMES.get(kind, "an entry of an unknown kind")
            raise UploadError(f"{readable_path(path)} is {name}: send only files, folders and links")
        if any(name.startswith("GNU.sparse") for name in pax_names):
            raise UploadError(f"{readable_path(path)} is a sparse file: send only files, folders and links")
        if sort == "file" and path.endswith(b"/"):  # old archives mark folders with a trailing slash
            sort = "folder"
        if sort == "file" and pax_names.get("size", b"%d" % size) != b"%d" % size:
            raise UploadError(f"{readable_path(path)} is too large")
        return ArchiveEntry(
            sort,
            path,
            size if sort == "file" else 0,
            pax_names.get("linkpath") or block[157:257].rstrip(b"\0"),
            bool(_number(block[100:108]) & 0o111),
        )

    def _text(self, size: int) -> bytes:
        self._named += size
        if self._named > _MAX_NAME_BYTES:
            raise UploadError("Use shorter names: the archive has one that is too long")
        text = b"".join(self._unpacked.pieces(size))
        for _ in self._unpacked.pieces(-size % BLOCK_BYTES):
            pass
        return text


def readable_path(path: bytes) -> str:
    """Returns a path as printable text."""
    text = path[:200].decode(errors="replace")
    return "".join(sign if sign.isprintable() else "?" for sign in text) or "(an empty name)"


def _path(block: bytes) -> bytes:
    name, prefix = block[:100].split(b"\0")[0], block[345:500].split(b"\0")[0]
    # GNU archives have other fields in place of the prefix, and another magic value.
    return prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        number = int.from_bytes(field[1:], "big")
        if field[0] != 0x80:
            raise UploadError("Send a tar archive: this one has a negative number")
        return number
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError as error:
        raise UploadError(
            "Send a tar archive, plain or compressed with gzip: this is not one, or it is damaged"
        ) from error


def _parse_pax(text: bytes) -> dict[str, bytes]:
    """Parses pax records of the form `27 path=a/long/name`. Sizes in pax records are not supported."""
    records: dict[str, bytes] = {}
    count = 0
    while text.strip(b"\0"):
        count += 1
        if count > _MAX_RECORDS:
            raise UploadError(f"Send fewer attributes: a file has more than {_MAX_RECORDS}")
        length, blank, _ = text.partition(b" ")
        if not (
            blank and length.isdigit() and len(length) < 8 and len(length) + 1 < int(length) <= len(text)
        ):
            raise UploadError("Send a tar archive: a header of this one is damaged")
        record, text = text[len(length) + 1 : int(length)], text[int(length) :]
        name, _, value = record.rstrip(b"\n").partition(b"=")
        records[name.decode(errors="replace")] = value
    return records


def _cut_off() -> UploadError:
    return UploadError("Send the archive again: it ends in the middle")


def _without_end() -> UploadError:
    return UploadError("Send the archive again: its end is missing")
