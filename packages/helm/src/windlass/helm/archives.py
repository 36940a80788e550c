"""Unpacks the archive of a chart. An archive is hostile input: nothing in it is written outside of the
folder, and it has limits of size and number."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Final

from windlass.helm.chart_error import ChartError

MAX_ARCHIVE_BYTES: Final = 16 * 1024 * 1024
MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
MAX_MEMBERS: Final = 10_000
MAX_DEPTH: Final = 32
_CHUNK: Final = 64 * 1024


def unpack(archive: bytes, into: Path) -> None:
    """Writes the files of a chart into a new folder, without the archive's top folder. Raises ChartError."""
    if len(archive) > MAX_ARCHIVE_BYTES:
        raise ChartError(f"Choose a smaller chart: its archive has more than {MAX_ARCHIVE_BYTES >> 20} MiB")
    into.mkdir(mode=0o700, parents=True)
    try:
        _unpack(io.BytesIO(_decompress(archive)), into)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise ChartError(f"Publish the chart again: its archive is broken ({error})") from error


def _decompress(archive: bytes) -> bytes:
    """Returns the content of a gzip file. Stops at the largest allowed size, so that a small archive cannot
    fill the memory."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        content = inflate.decompress(archive, MAX_UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise ChartError(f"Publish the chart again: its archive is not a gzip file ({error})") from error
    if len(content) > MAX_UNPACKED_BYTES or inflate.unconsumed_tail:
        raise ChartError(f"Choose a smaller chart: it has more than {MAX_UNPACKED_BYTES >> 20} MiB unpacked")
    if not inflate.eof:
        raise ChartError("Publish the chart again: its archive ends too early")
    return content


def _unpack(content: io.BytesIO, into: Path) -> None:
    top = ""
    with tarfile.open(fileobj=content, mode="r:") as archive:
        for count, member in enumerate(archive, 1):
            if count > MAX_MEMBERS:
                raise ChartError(f"Choose a smaller chart: it has more than {MAX_MEMBERS} files")
            parts = _safe_parts(member)
            top = top or parts[0]
            if parts[0] != top:
                raise ChartError(
                    f"Publish the chart again: its archive has {parts[0]} beside the folder {top}"
                )
            if len(parts) > 1:
                _write(archive, member, into.joinpath(*parts[1:]))
    if not top:
        raise ChartError("Publish the chart again: its archive is empty")


def _safe_parts(member: tarfile.TarInfo) -> tuple[str, ...]:
    name = member.name
    parts = tuple(part for part in PurePosixPath(name).parts if part != ".")
    is_bad = name.startswith("/") or ".." in parts or "\\" in name or "\0" in name
    if is_bad or not parts or len(parts) > MAX_DEPTH:
        raise ChartError(
            f"Publish the chart again: its archive has a path that leads outside ({name[:200]!r})"
        )
    if not (member.isreg() or member.isdir()):
        raise ChartError(
            f"Publish the chart again without links and devices: {name[:200]!r} is neither a file nor a "
            "folder"
        )
    if member.issparse():  # 300 bytes of an archive can stand for a file of any size
        raise ChartError(f"Publish the chart again without sparse files: {name[:200]!r} is one")
    return parts


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    try:
        if member.isdir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        source = archive.extractfile(member)
        assert source is not None  # a regular file has content
        with path.open("xb") as file:
            while piece := source.read(_CHUNK):
                file.write(piece)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ChartError(f"Publish the chart again: its archive has {member.name[:200]!r} twice") from error
