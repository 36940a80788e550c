"""Copies the files of a folder into another folder, which a program may change at the same time.

The launcher runs this module in the control groups of an instance. The kernel counts cached file pages as
memory of the process that writes them, and a program can keep such pages in pipes. Only the standard library
is imported.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from windlass.process import open_folders
from windlass.process.open_folders import NEW_FILE_FLAGS, UNCHANGED, open_below

CopyContent = Callable[[Path, Path, int | None], None]
"""Copies the content of a folder into another folder. The third argument is the new owner of the files, or
None."""

_FICLONE: Final = 0x40049409  # FICLONE: the copy shares its blocks with the original until a block is written
_CHUNK_BYTES: Final = 64 << 20
_CHECKED_FILES: Final = 100
"""The number of files after which the free space is checked again."""


def main(source: str, target: str, owner: str, least_free: str) -> None:
    """Copies a folder. `owner` is empty if the files belong to the user of this process."""
    copy_content(Path(source), Path(target), int(owner) if owner else None, int(least_free))


def copy_content(source: Path, target: Path, owner: int | None, least_free: int = 0) -> None:
    """Copies the content of a folder into an existing folder. Does not replace existing files.

    `least_free`: the bytes that the copy must leave free on the disk. Raises an OSError (ENOSPC) if it would
    not: nobody ends a copy that uses up the reserve of the disk.
    """
    try:
        with open_below(target) as at:
            _TreeCopy(source, target, owner, least_free).content(source, at)
    except RecursionError as error:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)) from error


def adorn(source: Path, folder_fd: int, owner: int | None) -> None:
    """Gives an open folder the mode of another folder, and an owner unless it is None."""
    own = UNCHANGED if owner is None else owner
    os.fchmod(folder_fd, stat.S_IMODE(source.stat().st_mode) | 0o700)
    os.fchown(folder_fd, own, own)


class _TreeCopy:
    """Copies a folder with its symbolic links.

    A relative link that leads out of the folder, to files that instances share, becomes absolute. An absolute
    link into the folder leads into the copy.
    """

    def __init__(self, source: Path, target: Path, owner: int | None, least_free: int) -> None:
        self._least_free, self._files = least_free, 0
        self._source, self._target = str(source), str(target)
        self._user = owner
        self._owner = UNCHANGED if owner is None else owner
        self._clones = True

    def content(self, source: Path, folder_fd: int) -> None:
        """Copies the content of a folder into an open folder. Does not replace existing files."""
        with os.scandir(source) as entries:
            for entry in entries:
                if entry.is_symlink():
                    os.symlink(
                        self._link_target(str(Path(entry.path).readlink()), str(source)),
                        entry.name,
                        dir_fd=folder_fd,
                    )
                    os.chown(entry.name, self._owner, self._owner, dir_fd=folder_fd, follow_symlinks=False)
                elif entry.is_dir(follow_symlinks=False):
                    self._folder(source / entry.name, entry.name, folder_fd)
                elif entry.is_file(follow_symlinks=False):
                    self._file(entry.path, entry.name, folder_fd)

    def _folder(self, source: Path, name: str, folder_fd: int) -> None:
        below = open_folders.folder(name, folder_fd)
        try:
            self.content(source, below)
            adorn(source, below, self._user)
        finally:
            os.close(below)

    def _link_target(self, link: str, folder: str) -> str:
        whole = os.path.normpath(os.path.join(folder, link))  # noqa: PTH118 (it must not be resolved)
        inside = whole == self._source or whole.startswith(self._source + "/")
        if inside:
            return self._target + whole[len(self._source) :] if link.startswith("/") else link
        return whole

    def _file(self, source: str, name: str, folder_fd: int) -> None:
        if self._files % _CHECKED_FILES == 0:
            self._check_room(folder_fd)
        self._files += 1
        old = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            about = os.fstat(old)
            new = os.open(name, NEW_FILE_FLAGS, 0o600, dir_fd=folder_fd)
            try:
                self._content(old, new, about.st_size)
                os.fchown(new, self._owner, self._owner)
                os.fchmod(new, stat.S_IMODE(about.st_mode) & 0o777)
                # Python's compiled files are only valid if the modification time of their source is
                # unchanged.
                os.utime(new, ns=(about.st_atime_ns, about.st_mtime_ns))
            finally:
                os.close(new)
        finally:
            os.close(old)

    def _content(self, source_fd: int, target_fd: int, size: int) -> None:
        if self._clones and size:
            try:
                fcntl.ioctl(target_fd, _FICLONE, source_fd)
                return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL):
                    raise
                self._clones = False
        copy_data(source_fd, target_fd, size, self._check_room)

    def _check_room(self, folder_fd: int) -> None:
        if self._least_free:
            disk = os.fstatvfs(folder_fd)
            if disk.f_bavail * disk.f_frsize < self._least_free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def copy_data(
    source_fd: int, target_fd: int, size: int, check: Callable[[int], None] = lambda new: None
) -> None:
    """Copies the content of an open file with its holes. A build step can make a file of terabytes that is
    one hole, and a copy without holes would fill the disk. `check` is called after each chunk."""
    for begin, end in _data_of(source_fd, size):
        at = begin
        os.lseek(target_fd, begin, os.SEEK_SET)
        while at < end and (sent := os.sendfile(target_fd, source_fd, at, min(_CHUNK_BYTES, end - at))):
            at += sent
            check(target_fd)
    os.ftruncate(target_fd, size)


def _data_of(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the parts of a file between its holes."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(file, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # the rest is a hole
        at = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, at
