"""Archives of a Docker engine are read like `tarfile` does, and hostile ones cost neither memory nor time."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest

from windlass.docker.archives import (
    FILE,
    FOLDER,
    HARD_LINK,
    MAX_HEADER_BYTES,
    SYMBOLIC_LINK,
    BadEngineArchive,
    EngineArchiveEntry,
    read_entries,
)

LONG = "/".join(["folder-with-a-long-name"] * 12)
SHOWN = [
    EngineArchiveEntry("site/", FOLDER, 0, 7, ""),
    EngineArchiveEntry("site/a", FILE, 5, 7, ""),
    EngineArchiveEntry(f"site/{LONG}/é", FILE, 700, 7, ""),
    EngineArchiveEntry("site/link", SYMBOLIC_LINK, 0, 7, LONG),
    EngineArchiveEntry("site/twin", HARD_LINK, 0, 7, "site/a"),
    EngineArchiveEntry("site/pipe", tarfile.FIFOTYPE, 0, 7, ""),
]


def packed(*entries: EngineArchiveEntry, form: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for one in entries:
            entry = tarfile.TarInfo(one.name)
            entry.type, entry.size, entry.mtime, entry.linkname = one.kind, one.size, one.modified, one.link
            tar.addfile(entry, io.BytesIO(b"x" * one.size))
    return file.getvalue()


def read(archive: bytes) -> list[EngineArchiveEntry]:
    return list(read_entries(io.BytesIO(archive)))


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_entries_with_long_names_and_links_are_read(form):
    file = io.BytesIO(packed(*SHOWN, form=form))
    found = [(entry, file.read(entry.size)) for entry in read_entries(file)]
    assert [entry for entry, _ in found] == SHOWN
    assert [len(content) for _, content in found] == [entry.size for entry in SHOWN]


def test_names_that_are_split_in_two_fields_are_read():
    entry = EngineArchiveEntry("f" * 90 + "/" + "n" * 90, FILE, 3, 0, "")
    assert read(packed(entry, form=tarfile.USTAR_FORMAT)) == [entry]


def header(kind: bytes, size: int, content: bytes = b"") -> bytes:
    entry = tarfile.TarInfo("x")
    entry.type = kind
    block = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"%011o\0" % size if size >= 0 else b"\xff" * 10 + (65536 + size).to_bytes(2)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + content + b"\0" * (-len(content) % 512)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_an_extended_header_without_end_is_refused_before_it_is_read(kind):
    size = 16 << 20
    archive = header(kind, size, b"9" * size)
    with pytest.raises(BadEngineArchive, match="too long"):
        read(archive)
    assert peak(read, archive) < size / 8
    record = b"%d path=" % size  # digits alone would take hours
    control = archive[:512] + record + b"a" * (size - len(record) - 1) + b"\n"
    assert peak(read_by_tarfile, control) > size / 2


def read_by_tarfile(archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.next()


def peak(act: Callable[[bytes], object], archive: bytes) -> int:
    """Returns the bytes of memory that it takes to read an archive that is refused."""
    tracemalloc.start()
    try:
        with suppress(BadEngineArchive, tarfile.TarError):
            act(archive)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_header_of_digits_is_read_in_one_pass():
    # An expression that searches for digits begins anew at each of them.
    record = b"65000 path=" + b"9" * (65000 - 12) + b"\n"
    [entry] = read(header(b"x", len(record), record) + header(b"0", 0))
    assert len(entry.name) == 65000 - 12


@pytest.mark.parametrize(
    "archive",
    [
        header(b"0", -1024),
        header(b"x", 3, b"4 a") + header(b"0", 0),
        header(b"x", 6, b"0 a=b\n") + header(b"0", 0),
        header(b"x", 6, b"99 a=b") + header(b"0", 0),
        header(b"x", 13, b"13 size=-512\n") + header(b"0", 0),
        header(b"x", 11, b"11 path=ab\n") * 9 + header(b"0", 0),
        b"\1" * 512,
        header(b"0", 5)[:300],
    ],
)
def test_a_damaged_archive_is_refused(archive):
    with pytest.raises(BadEngineArchive):
        read(archive)


def test_headers_without_names_are_ignored():
    comment = b"20 comment=whatever\n"
    archive = header(b"g", len(comment), comment) + header(b"x", len(comment), comment) + header(b"0", 0)
    assert [entry.name for entry in read(archive)] == ["x"]
    assert MAX_HEADER_BYTES >= 2 * 4096
