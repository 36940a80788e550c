"""Unpacks an uploaded archive, with the same restrictions as for commits of repositories.

Files are regular files, links stay inside the folder, nothing is written through a link, and `.git` is
ignored. The result has an id that depends only on the content.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from windlass.builders.builder import DISK_FULL_ERROR
from windlass.sources.git.limits import Limits
from windlass.sources.git.listing import MAX_TARGET_LENGTH, LinkWalk
from windlass.sources.git.source import MAX_DEPTH, MAX_URL_LENGTH, GitError
from windlass.sources.upload.tar import ArchiveEntry, ByteSource, TarReader, UploadError, readable_path

ID_DIGITS: Final = 40
"""Number of hexadecimal digits of a content id, equal to that of a commit id."""
_MAX_PART_LENGTH: Final = 255
_IGNORED_NAME: Final = b".git"


class FolderContent(Struct, frozen=True):
    """A summary of an uploaded folder's content."""

    id: str
    files: int
    bytes: int


class UploadedFile(Struct, frozen=True):
    digest: bytes
    size: int
    is_executable: bool


def examine(archive: Path, limits: Limits) -> FolderContent:
    """Reads a whole archive and checks it. Raises UploadError if it is invalid or exceeds a limit."""
    return _read(archive, limits, None)


def unpack(archive: Path, destination: Path, limits: Limits) -> FolderContent:
    """Unpacks an archive into a new folder. Raises UploadError if it is invalid or exceeds a limit."""
    destination.mkdir(mode=0o700, parents=True)
    return _read(archive, limits, destination)


def _read(archive: Path, limits: Limits, destination: Path | None) -> FolderContent:
    try:
        with archive.open("rb") as file:
            return _ArchiveFolder(file, limits, destination).read()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UploadError(DISK_FULL_ERROR) from error
        raise


class _ArchiveFolder:
    """The content of an archive while it is read, and written if `into` is given."""

    def __init__(self, file: BinaryIO, limits: Limits, destination: Path | None) -> None:
        # The limits are doubled, because they include headers, padding and ignored entries.
        self._tar = TarReader(ByteSource(file, 2 * limits.bytes), 2 * limits.files)
        self._limits = limits
        self._top = os.fsencode(destination) if destination else None
        self._folders: set[bytes] = {b""}
        self._files: dict[bytes, UploadedFile] = {}
        self._links: dict[bytes, bytes] = {}
        self._size = 0

    def read(self) -> FolderContent:
        for entry in self._tar:
            if (path := _clean(entry.path)) and _IGNORED_NAME not in path.split(b"/"):
                self._extract_entry(entry, path)
                self._check_limits()
        if not self._files:
            raise UploadError("Send a folder with files: the archive has none")
        self._make_links()
        return FolderContent(self._digest(), len(self._files), self._size)

    def _extract_entry(self, entry: ArchiveEntry, path: bytes) -> None:
        folder, _, _ = path.rpartition(b"/")
        if entry.kind == "folder":
            self._make_folder(path)
            return
        self._make_folder(folder)
        if path in self._files or path in self._folders or path in self._links:
            raise UploadError(f"{readable_path(path)} is in the archive twice")
        if entry.kind == "link":
            if not 0 < len(entry.target) <= MAX_TARGET_LENGTH or b"\0" in entry.target:
                raise UploadError(f"{readable_path(path)} is not a symbolic link that can be made")
            self._links[path] = entry.target
        elif entry.kind == "twin":
            self._copy(path, _clean(entry.target))
        else:
            self._write(path, self._tar.content(), is_executable=entry.is_executable)

    def _make_folder(self, path: bytes) -> None:
        folder = b""
        for part in path.split(b"/") if path else ():
            folder = folder + b"/" + part if folder else part
            if folder in self._files or folder in self._links:
                raise UploadError(f"{readable_path(folder)} is a folder and something else at once")
            if folder not in self._folders:
                self._folders.add(folder)
                if self._top is not None:
                    os.mkdir(self._top + b"/" + folder, 0o755)  # noqa: PTH102 (names may be of any bytes)

    def _write(self, path: bytes, chunks: Iterator[bytes], *, is_executable: bool) -> None:
        digest, size, descriptor = hashlib.sha256(), 0, None
        if self._top is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._top + b"/" + path, flags, 0o755 if is_executable else 0o644)
        try:
            for piece in chunks:
                digest.update(piece)
                size += len(piece)
                self._size += len(piece)
                self._check_limits()
                while piece and descriptor is not None:
                    piece = piece[os.write(descriptor, piece) :]
        finally:
            if descriptor is not None:
                os.close(descriptor)
        self._files[path] = UploadedFile(digest.digest(), size, is_executable)

    def _copy(self, path: bytes, original: bytes) -> None:
        if original not in self._files:
            raise UploadError(
                f"{readable_path(path)} is a link to a file that is not in the archive before it"
            )
        file = self._files[original]
        if self._top is None:
            self._files[path] = file
            self._size += file.size
            return
        with open(self._top + b"/" + original, "rb") as source:  # noqa: PTH123 (as above)
            pieces = iter(lambda: source.read(65536), b"")
            self._write(path, pieces, is_executable=file.is_executable)

    def _make_links(self) -> None:
        try:
            escaping = LinkWalk(self._links).find_escaping()
        except GitError as error:
            raise UploadError(str(error).rstrip(".")) from error
        if escaping is not None:
            raise UploadError(
                f"Remove the symbolic link {readable_path(escaping)}: it leads out of the folder"
            )
        if self._top is not None:
            for path, target in self._links.items():
                os.symlink(target, self._top + b"/" + path)  # noqa: PTH211 (as above)

    def _check_limits(self) -> None:
        if self._size > self._limits.bytes:
            raise UploadError(f"Send less: the folder is larger than {self._limits.bytes >> 20} MiB")
        if len(self._files) + len(self._links) + len(self._folders) > self._limits.files:
            raise UploadError(f"Send fewer files: the folder has more than {self._limits.files}")

    def _digest(self) -> str:
        whole = hashlib.sha256()
        entries = [
            (path, b"x" if file.is_executable else b"f", file.digest) for path, file in self._files.items()
        ]
        entries += [(path, b"l", hashlib.sha256(target).digest()) for path, target in self._links.items()]
        for path, kind, digest in sorted(entries):
            whole.update(b"%b %b\0%b" % (kind, path, digest))
        return whole.hexdigest()[:ID_DIGITS]


def _clean(path: bytes) -> bytes:
    """Returns an entry's path relative to the folder; empty for the folder itself. Raises UploadError if the
    path leads outside."""
    if path.startswith(b"/") or b"\0" in path:
        raise UploadError(f"{readable_path(path)} is not a path below the folder")
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise UploadError(f"{readable_path(path)} leaves the folder")
    if (
        len(path) > MAX_URL_LENGTH
        or len(parts) > MAX_DEPTH
        or any(len(part) > _MAX_PART_LENGTH for part in parts)
    ):
        raise UploadError(f"{readable_path(path)} is too long a path")
    return b"/".join(parts)
