"""An archive of a chart writes nothing outside of its folder, and is bounded."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from windlass.helm import archives
from windlass.helm.archives import unpack
from windlass.helm.chart_error import ChartError

Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"x") -> Entry:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, len(content) if kind == tarfile.REGTYPE else 0
    return member, content


def packed(*entries: Entry) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def test_the_files_of_a_chart_are_unpacked_without_the_top_folder(tmp_path: Path):
    unpack(packed(entry("shop/Chart.yaml"), entry("shop/templates/a.yaml")), tmp_path / "chart")
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.yaml")} == {
        "chart/Chart.yaml",
        "chart/templates/a.yaml",
    }


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../evil")],
        [entry("/etc/evil")],
        [entry("shop/../../evil")],
        [entry("shop/a", tarfile.SYMTYPE, "/etc"), entry("shop/a/evil")],
        [entry("shop/a", tarfile.LNKTYPE, "../../evil")],
        [entry("shop/a", tarfile.CHRTYPE)],
        [entry("shop/a", tarfile.FIFOTYPE)],
        [entry("shop/a"), entry("shop/a")],
        [entry("shop/a"), entry("shop/a/b")],
        [entry("shop/a"), entry("other/b")],
        [entry("shop/" + "a/" * 40 + "b")],
        [],
    ],
)
def test_a_hostile_archive_is_refused_and_writes_nothing_outside(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]
):
    with pytest.raises(ChartError):
        unpack(packed(*entries), tmp_path / "inner" / "chart")
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["chart"]


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 10_000)
    with pytest.raises(ChartError, match="Choose a smaller chart: it has more than"):
        unpack(packed(entry("shop/zeros", content=bytes(1_000_000))), tmp_path / "chart")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    with pytest.raises(ChartError, match="more than 3 files"):
        unpack(packed(*(entry(f"shop/{number}") for number in range(4))), tmp_path / "chart")


@pytest.mark.parametrize("content", [b"", b"no archive", gzip.compress(b"no archive" * 100, mtime=0)])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes):
    with pytest.raises(ChartError):
        unpack(content, tmp_path / "chart")


def test_an_archive_that_ends_too_early_is_refused(tmp_path: Path):
    whole = packed(*(entry(f"shop/{number}", content=bytes(range(256)) * 40) for number in range(20)))
    with pytest.raises(ChartError):
        unpack(whole[: len(whole) // 2], tmp_path / "chart")


@pytest.mark.parametrize("version", ["0.1", "1.0", "old"])
def test_a_sparse_file_is_refused_because_a_small_archive_would_fill_the_disk(tmp_path: Path, version: str):
    size = 1024 * 1024
    member, content = entry("shop/Chart.yaml", content=b"")
    if version == "old":
        member.type = tarfile.GNUTYPE_SPARSE
    else:
        fields = {
            "major": version[0],
            "minor": version[2],
            "name": "shop/big",
            "numblocks": "1",
            "map": "0,0",
        }
        fields |= {"size": str(size), "realsize": str(size)}
        member.pax_headers = {f"GNU.sparse.{name}": value for name, value in fields.items()}
        content = b"0\n".ljust(512, b"\0") if version == "1.0" else b""
        member.size = len(content)
    with pytest.raises(ChartError, match="without sparse files"):
        unpack(packed((member, content)), tmp_path / "chart")
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
