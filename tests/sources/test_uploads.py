"""Archives of folders are unpacked like commits, and hostile ones are refused with the reason."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.sources.git import Limits
from windlass.sources.upload import FolderContent, UploadError, examine, unpack

LIMITS = Limits(bytes=1024 * 1024, files=100)


def entry(name: str, content: bytes = b"", **facts: Any) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for fact, value in facts.items():
        setattr(made, fact, value)
    return made, content


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def packed(*entries: tuple[tarfile.TarInfo, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as tar:
        for facts, content in entries:
            tar.addfile(facts, io.BytesIO(content))
    return file.getvalue()


def written(folder: Path, data: bytes) -> Path:
    archive = folder / "archive"
    archive.write_bytes(data)
    return archive


def taken(folder: Path, data: bytes, limits: Limits = LIMITS) -> FolderContent:
    return unpack(written(folder, data), folder / "into", limits)


def in_two_parts(data: bytes) -> bytes:
    return gzip.compress(data[:600]) + gzip.compress(data[600:])


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, in_two_parts])
def test_files_folders_and_links_are_unpacked_in_every_form(tmp_path, format, pack: Callable[[bytes], bytes]):
    long = "/".join(["a-folder-with-a-name"] * 4) + "/file"
    data = packed(
        entry("./", type=tarfile.DIRTYPE),
        entry("./main.py", b"print()", mode=0o600),
        entry("bin/run", b"#!/bin/sh\n" * 5000, mode=0o4755),
        entry(long, b"long"),
        entry("empty", type=tarfile.DIRTYPE, mode=0o777),
        link("bin/main", "../main.py"),
        entry("twin", type=tarfile.LNKTYPE, linkname="main.py"),
        format=format,
    )
    content = taken(tmp_path, pack(data))
    top = tmp_path / "into"
    assert (top / "main.py").read_bytes() == (top / "twin").read_bytes() == b"print()"
    assert (top / "bin/run").stat().st_mode & 0o7777 == 0o755
    assert (top / "main.py").stat().st_mode & 0o7777 == 0o644
    assert (top / long).read_text() == "long"
    assert (top / "bin/main").readlink() == Path("../main.py")
    assert (top / "empty").is_dir()
    assert content.files == 4


def test_the_id_of_an_upload_depends_only_on_paths_modes_and_contents(tmp_path):
    first = [entry("a", b"1", mtime=1), entry("b", b"2")]
    data = packed(*first)
    id = examine(written(tmp_path, data), LIMITS).id
    assert len(id) == 40
    assert examine(written(tmp_path, gzip.compress(packed(*first[::-1]))), LIMITS).id == id
    others = [
        [entry("a", b"1"), entry("b", b"3")],
        [entry("a", b"1"), entry("c", b"2")],
        [entry("a", b"1", mode=0o755), entry("b", b"2")],
        [entry("a", b"1"), link("b", "2")],
    ]
    ids = {examine(written(tmp_path, packed(*other)), LIMITS).id for other in others}
    assert len(ids | {id}) == 5


def test_checking_and_unpacking_an_archive_yield_the_same_id(tmp_path):
    data = packed(entry("a", b"1"), entry("t", type=tarfile.LNKTYPE, linkname="a"), link("l", "a"))
    assert taken(tmp_path, data) == examine(tmp_path / "archive", LIMITS)


def test_git_folders_in_an_upload_are_not_unpacked(tmp_path):
    data = packed(entry(".git/config", b"x"), entry("lib/.git", b"gitdir: /etc"), entry("a", b""))
    assert taken(tmp_path, data).files == 1
    assert [path.name for path in (tmp_path / "into").iterdir() if path.is_file()] == ["a"]


GOOD = packed(entry("a", b"x" * 5000), entry("b", b"y"))


HOSTILE = {
    "an absolute path": ([entry("/etc/passwd", b"")], "below the folder"),
    "a path that leaves": ([entry("a/../../b", b"")], "leaves the folder"),
    "a link that leaves": ([entry("a", b""), link("l", "../../etc")], "leads out of the folder"),
    "an absolute link": ([entry("a", b""), link("l", "/etc")], "leads out of the folder"),
    "links that leave together": (
        [entry("d/a", b""), link("d/up", ".."), link("l", "d/up/../x")],
        "leads out of the folder",
    ),
    "a chain of links": (
        [entry("l42", b""), *(link(f"l{number}", f"l{number + 1}") for number in range(42))],
        "Remove the symbolic link l0: it leads through more than 40 others",
    ),
    "a chain behind another link": (
        [
            *(entry("d/a", b""), link("e", "d"), entry("l30", b"")),
            *(link(f"l{number}", f"e/../e/../l{number + 1}") for number in range(30)),
        ],
        "through more than 40 others",
    ),
    "a file below a link": ([link("l", "d"), entry("l/a", b"")], "something else at once"),
    "a file below a file": ([entry("l", b""), entry("l/a", b"")], "something else at once"),
    "a file twice": ([entry("a", b""), entry("./a", b"")], "twice"),
    "a link in the place of a file": ([entry("a", b""), link("a", "b")], "twice"),
    "a twin of nothing": ([entry("a", type=tarfile.LNKTYPE, linkname="/etc/passwd")], "below the folder"),
    "a twin of a later file": (
        [entry("a", type=tarfile.LNKTYPE, linkname="b"), entry("b", b"")],
        "not in the archive",
    ),
    "a device": ([entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], "a character device"),
    "a pipe": ([entry("p", type=tarfile.FIFOTYPE)], "a pipe"),
    "a sparse file": ([entry("s", type=tarfile.GNUTYPE_SPARSE)], "a sparse file"),
    "a sparse file of pax": ([entry("s", b"", pax_headers={"GNU.sparse.major": "1"})], "a sparse file"),
    "a size in another header": ([entry("s", b"1", pax_headers={"size": "999"})], "too large"),
    "too many files": ([entry(f"f{number}", b"") for number in range(101)], "more than 100"),
    "too many bytes": ([entry("a", b"0" * (1024 * 1024 + 1))], "larger than 1 MiB"),
    "a long name": ([entry("a" * 300, b"")], "too long a path"),
    "a deep name": ([entry("a/" * 101 + "b", b"")], "too long a path"),
    "nothing": ([], "none"),
    "only folders": ([entry("a", type=tarfile.DIRTYPE)], "none"),
}


def in_circles(count: int) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Links that lead round through each other and deep paths which are not there."""
    far = "a/" * 700 + "../" * 700
    return [
        entry("file", b""),
        *(link(f"l{number}", f"{far}l{(number + 1) % 39}") for number in range(39)),
        *(link(f"m{number}", f"{far}l0") for number in range(count)),
    ]


@pytest.mark.timeout(60)
def test_links_that_take_long_to_follow_are_refused(tmp_path):
    """The limit of time is the negative control: to follow all of them takes hours."""
    limits = Limits(bytes=1 << 30, files=100_000)
    with pytest.raises(UploadError, match="to follow them takes too long"):
        examine(written(tmp_path, packed(*in_circles(5_000))), limits)


def test_symlink_cycles_and_chains_of_40_symlinks_are_unpacked(tmp_path):
    chain = [link(f"l{number}", f"l{number + 1}") for number in range(40)]
    data = packed(entry("l40", b"end"), *chain, link("loop", "loop"), link("a", "b"), link("b", "a/x"))
    assert taken(tmp_path, data).files == 1
    assert (tmp_path / "into" / "l0").read_bytes() == b"end"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_with_the_reason(tmp_path, name):
    entries, reason = HOSTILE[name]
    data = packed(*entries)
    with pytest.raises(UploadError, match=reason):
        examine(written(tmp_path, data), LIMITS)
    with pytest.raises(UploadError, match=reason):
        taken(tmp_path, data)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "into"]


@pytest.mark.parametrize("name", ["bytes", "names", "entries"])
def test_a_decompression_bomb_is_refused_before_unpacking(tmp_path, name):
    block = tarfile.TarInfo("a").tobuf()
    bombs = {
        "bytes": packed(entry("a", b"0" * 8 * 1024 * 1024)),
        "names": tarfile.TarInfo("a").tobuf()[:0] + _header(b"x", 8**10),
        "entries": _header(b"g", 0) * 1000 + block,
    }
    with pytest.raises(UploadError):
        examine(written(tmp_path, gzip.compress(bombs[name])), LIMITS)


def _header(kind: bytes, size: int) -> bytes:
    facts = tarfile.TarInfo("././@PaxHeader")
    facts.type, facts.size = kind, size
    return facts.tobuf(tarfile.GNU_FORMAT)


def _records(count: int) -> bytes:
    text = b"".join(b"12 k%05d=v\n" % number for number in range(count))
    return _header(b"x", len(text)) + text + b"\0" * (-len(text) % tarfile.BLOCKSIZE)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (_records(101), "more than 100"),
        (_records(100) * 60, "shorter names"),
    ],
)
def test_oversized_archive_headers_are_refused(tmp_path, headers, reason):
    with pytest.raises(UploadError, match=reason):
        examine(written(tmp_path, gzip.compress(headers + GOOD)), LIMITS)


def test_each_archive_entry_may_have_extended_headers_up_to_the_limit(tmp_path):
    attributes = _records(100)
    data = b"".join(attributes + packed(entry(f"f{n}", b""))[: tarfile.BLOCKSIZE] for n in range(60))
    assert taken(tmp_path, data + b"\0" * 1024).files == 60


DAMAGED = {
    "nothing": b"",
    "a word": b"hello",
    "the beginning of gzip": b"\x1f\x8b",
    "no gzip": b"\x1f\x8bhello",
    "any bytes": bytes(range(256)) * 4,
    "a file cut off": GOOD[:700],
    "no end": GOOD[: 512 + 5120 + 512 + 512],
    "gzip cut off": gzip.compress(GOOD, mtime=0)[:60],
    "a wrong sum": GOOD[:512].replace(b"a", b"b", 1) + GOOD[512:],
    "a negative number": b"\xff" * 512,
    "a record that is too long": _header(b"x", 11) + b"999 path=a\n".ljust(512, b"\0"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_archive_is_refused(tmp_path, name):
    with pytest.raises(UploadError):
        examine(written(tmp_path, DAMAGED[name]), LIMITS)
