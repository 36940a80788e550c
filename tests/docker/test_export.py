"""A folder of an image is copied to this machine, without the image being run."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.dockers import BOX, build
from windlass.docker import export
from windlass.docker.export import unpack
from windlass.engines.engine import ArtifactLost, EngineError
from windlass.engines.workload import Artifact

REF = "windlass-test/site:1"
DOCKERFILE = f"""FROM {BOX}
RUN mkdir -p /made/docs && echo hello > /made/index.html && ln -s index.html /made/link.html \\
    && ln /made/index.html /made/twin.html && ln -s /etc/passwd /made/out && mkfifo /made/fifo
FROM scratch
COPY --from=0 /made /site
LABEL windlass.installation=x windlass.pod=shop windlass.service=shop
"""


async def test_a_folder_of_an_image_is_copied_and_no_container_stays(engine, raw, tmp_path):
    await build(raw, REF, {"Dockerfile": DOCKERFILE})
    into = tmp_path / "into"
    into.mkdir()
    try:
        folder = await engine.export(Artifact(kind="image", ref=REF, workdir="/site"), ".", into)
        made = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        assert made == {"docs", "index.html", "link.html", "twin.html"}
        assert (folder / "link.html").read_bytes() == b"hello\n"
        with pytest.raises(EngineError, match="Change static_folder, or the build: the image has no folder"):
            await engine.export(Artifact(kind="image", ref=REF, workdir="/site"), "none", into)
        params = {"all": True, "filters": {"label": ["windlass.export"]}}
        listed = await raw.json("GET", "/containers/json", params=params)
        assert [container for container in listed if container["Image"] == REF] == []
    finally:
        await raw.raw("DELETE", f"/images/{REF}", params={"force": True})


async def test_exporting_a_missing_image_raises_artifact_lost(engine, tmp_path):
    with pytest.raises(ArtifactLost):
        await engine.export(Artifact(kind="image", ref="windlass/none:1"), "site", tmp_path)


# Archives of a hostile engine or image


def archive(folder: Path, *entries: tuple[str, Callable[[tarfile.TarInfo], bytes | None]]) -> Path:
    path = folder / "archive.tar"
    with tarfile.open(path, "w") as tar:
        for name, fill in entries:
            entry = tarfile.TarInfo(name)
            content = fill(entry) or b""
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def file(entry: tarfile.TarInfo) -> bytes:
    return b"hello"


def linked(kind: bytes, target: str) -> Callable[[tarfile.TarInfo], None]:
    def fill(entry: tarfile.TarInfo) -> None:
        entry.type, entry.linkname = kind, target

    return fill


@pytest.mark.parametrize(
    "entries",
    [
        [("../out", file)],
        [("site/../../out", file)],
        [("/site/../../out", file)],
        [("site/./../../out", file)],
        [("site/link", linked(tarfile.SYMTYPE, "..")), ("site/link/out", file)],
        [("site/link", linked(tarfile.SYMTYPE, "../..")), ("site/link/out", file)],
        [("site/link", linked(tarfile.LNKTYPE, "site/../../secret"))],
        [("site/link", linked(tarfile.LNKTYPE, "/etc/passwd"))],
        [("site/link", linked(tarfile.SYMTYPE, "/etc/passwd"))],
        [("site/device", linked(tarfile.CHRTYPE, ""))],
        [("site/fifo", linked(tarfile.FIFOTYPE, ""))],
        [("site/a", linked(tarfile.SYMTYPE, "../secret")), ("site/b", linked(tarfile.LNKTYPE, "site/a"))],
    ],
)
def test_a_hostile_archive_writes_no_file_outside_the_target_folder(tmp_path, entries):
    (tmp_path / "secret").write_bytes(b"SECRET")
    into = tmp_path / "into"
    into.mkdir()
    unpack(archive(tmp_path, *entries, ("site/index.html", file)), into)
    assert {path.name for path in tmp_path.iterdir()} == {"archive.tar", "into", "secret"}
    assert (into / "index.html").read_bytes() == b"hello"
    for path in into.rglob("*"):
        assert path.is_symlink() or path.is_dir() or path.read_bytes() == b"hello"


def test_a_duplicate_archive_entry_is_refused(tmp_path):
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        unpack(archive(tmp_path, ("site/a", file), ("site/a", file)), into)


def test_archives_are_limited_in_number_and_size(tmp_path, monkeypatch):
    into = tmp_path / "into"
    into.mkdir()
    many = archive(tmp_path, *((f"site/{number}", file) for number in range(5)))
    monkeypatch.setattr(export, "MAX_ENTRIES", 3)
    with pytest.raises(EngineError, match="Keep the static folder below 3 files"):
        unpack(many, into)
    monkeypatch.setattr(export, "MAX_ENTRIES", 10)
    monkeypatch.setattr(export, "MAX_SITE_BYTES", 12)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(EngineError, match="Make the static folder smaller"):
        unpack(many, other)
    assert len(os.listdir(other)) == 2  # noqa: PTH208


def test_an_export_leaves_the_reserve_of_the_disk(tmp_path, monkeypatch):
    """A file of an image may be a hole of gigabytes."""
    packed = archive(tmp_path, ("site/a", file), ("site/b", file), ("site/c", file))
    monkeypatch.setattr(export, "is_short", lambda folder, reserve: (folder / "b").exists())
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
    unpack(packed, tmp_path / "small")
    monkeypatch.setattr(export, "_BYTES_PER_CHECK", 1)
    with pytest.raises(EngineError, match="ask the operator to free disk space"):
        unpack(packed, tmp_path / "large")
    assert sorted(path.name for path in (tmp_path / "large").iterdir()) == ["a", "b"]


class Endless:
    """A Docker engine that sends a file without end."""

    def stream(self, *_, **__):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    async def chunks(self):
        while True:
            yield b"x" * 100


async def test_a_download_ends_when_the_disk_has_only_its_reserve(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_BYTES_PER_CHECK", 1000)
    monkeypatch.setattr(export, "is_short", lambda folder, reserve: (folder / "tar").stat().st_size >= 2000)
    with pytest.raises(EngineError, match="ask the operator to free disk space"):
        await export._fetch(Endless(), "id", "site", tmp_path / "tar")  # type: ignore[arg-type]


async def test_an_endless_export_from_the_docker_engine_is_aborted_at_a_size_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "MAX_SITE_BYTES", 1000)
    with pytest.raises(EngineError, match="Keep the static folder below"):
        await export._fetch(Endless(), "id", "site", tmp_path / "tar")  # type: ignore[arg-type]
    assert (tmp_path / "tar").stat().st_size <= 1000
