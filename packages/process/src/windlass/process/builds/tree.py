"""Copies, moves and digests folders of code. Links that lead out of a folder are not followed."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from windlass.builders.builder import BuildError
from windlass.process.tree_copy import copy_data


def remove_escaping_links(root: Path, write_line: Callable[[str], None]) -> None:
    """Removes symbolic links that lead out of the folder, and special files such as pipes and sockets."""
    links: list[Path] = []
    for entry in list(_entries(root)):
        if entry.is_symlink():
            links.append(Path(entry.path))
        elif not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
            Path(entry.path).unlink()
    # Absolute links are removed first, because a relative link could lead out of the folder through one.
    links = [link for link in links if not _absolute(root, link, write_line)]
    real = os.path.realpath(root)
    for link in links:
        if not _is_within(os.path.realpath(link), real):
            _remove_outside_link(root, link, write_line)


def walk(root: Path) -> Iterator[Path]:
    """Yields everything below a folder. A folder comes before its content. Links are not followed."""
    return (Path(entry.path) for entry in _entries(root))


def resolve_inside(root: Path, path: Path) -> Path | None:
    """Returns the resolved path if it exists and lies in the folder after all links are resolved, or else
    None."""
    real = os.path.realpath(path)
    return Path(real) if _is_within(real, os.path.realpath(root)) and os.path.lexists(real) else None


def fresh(path: Path) -> Path:
    """Removes everything but a folder from a path that Windlass is about to write, and returns the path. A
    build step may have put a link there, which the write would follow, or a pipe, which would block it."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    return path


def move(source: Path, target: Path) -> None:
    """Moves a file or folder by renaming it or, on another file system, by copying."""
    fresh(target)
    try:
        source.rename(target)
    except OSError:
        copy(source, target)


def copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)


def _copy_file(source: str | Path, target: str | Path) -> None:
    """Copies a file with its holes. A build step can make a file of terabytes that is one hole."""
    about = os.stat(source)  # noqa: PTH116
    if not stat.S_ISREG(about.st_mode) or about.st_blocks * _BLOCK_BYTES >= about.st_size:
        shutil.copy2(source, target)
        return
    with open(source, "rb") as old, open(target, "wb") as new:  # noqa: PTH123
        copy_data(old.fileno(), new.fileno(), about.st_size)
    shutil.copystat(source, target)


def replace_file(source: Path, target: Path, *, needs_copy: bool = False) -> None:
    """Replaces a file or link with another one. The result is a hard link to `source` unless `needs_copy` is
    set."""
    if target.is_symlink() or target.exists():
        target.unlink()
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    try:
        if not needs_copy:
            os.link(source, target)
            return
    except OSError:
        pass  # the file system has no hard links, or the file has too many
    _copy_file(source, target)


def link(source: Path, target: Path) -> None:
    """Copies a folder with hard links to its files. The files of both folders must not be changed later."""
    shutil.copytree(
        source, target, symlinks=True, copy_function=lambda old, new: replace_file(Path(old), Path(new))
    )


_BLOCK_BYTES: Final = 512
MAX_DIGEST_BYTES: Final = 4 << 30
"""Maximum size of the files of a digest, including holes: a step can make a file of terabytes in no time."""


def digest(root: Path, only_paths: Iterable[Path] | None = None) -> str:
    """Returns a digest of the names, contents and modes of all files, or of the files and folders in
    `only_paths`. Raises BuildError if they are too large."""
    total, left = hashlib.sha256(), MAX_DIGEST_BYTES
    for start in [root] if only_paths is None else sorted(only_paths):
        for path in [start, *walk(start)] if start.is_dir() and not start.is_symlink() else [start]:
            left -= path.lstat().st_size
            if left < 0:
                raise BuildError(f"Make {path.name} smaller: with the others, it is larger than 4 GiB.")
            total.update(os.fsencode(os.path.relpath(path, root)) + b"\0" + _facts(path) + b"\0")
    return total.hexdigest()


def _entries(root: Path | str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(root) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path)


def _facts(path: Path) -> bytes:
    if path.is_symlink():
        return b"link " + os.fsencode(path.readlink())
    if path.is_dir():
        return b"folder"
    if not path.is_file():  # a build step may have put a pipe there, and reading from it would block
        raise BuildError(f"Make {path.name} a file: it is something else.")
    with path.open("rb") as file:
        return f"{path.stat().st_mode & 0o111:o} ".encode() + hashlib.file_digest(file, "sha256").digest()


def within(root: Path, base: Path, path: str, field: str) -> Path:
    """Resolves a path in a file of the repository relative to `base`. Raises BuildError if it leaves the
    folder `root`."""
    target = base / path
    if not _is_within(os.path.realpath(target), os.path.realpath(root)):
        raise BuildError(f"Take {path} out of {field}: it is outside of the folder that is deployed.")
    return target


def _absolute(root: Path, link: Path, write_line: Callable[[str], None]) -> bool:
    if link.readlink().is_absolute():
        _remove_outside_link(root, link, write_line)
        return True
    return False


def _remove_outside_link(root: Path, link: Path, write_line: Callable[[str], None]) -> None:
    write_line(f"{link.relative_to(root)} is a symbolic link that leads out of the folder: it is left out.")
    link.unlink()


def _is_within(real: str, root: str) -> bool:
    return real == root or real.startswith(root.rstrip("/") + "/")
