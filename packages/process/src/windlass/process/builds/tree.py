"""Copies, moves and digests folders of code. Nothing is read through a link that leads out of them."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from windlass.builders.builder import BuildError


def remove_escaping_links(top: Path, say: Callable[[str], None]) -> None:
    """Removes symbolic links that lead out of the folder, and all but files, folders and links."""
    links: list[Path] = []
    for entry in list(_entries(top)):
        if entry.is_symlink():
            links.append(Path(entry.path))
        elif not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
            Path(entry.path).unlink()
    # Links to absolute paths first: afterwards a relative one cannot lead out through them.
    links = [link for link in links if not _absolute(top, link, say)]
    real = os.path.realpath(top)
    for link in links:
        if not _is_within(os.path.realpath(link), real):
            _leave_out(top, link, say)


def walk(top: Path) -> Iterator[Path]:
    """Yields everything below, each folder before its content. Links are not followed."""
    return (Path(entry.path) for entry in _entries(top))


def resolve_inside(top: Path, path: Path) -> Path | None:
    """Returns the path, if it exists and is in the folder after all links are resolved."""
    real = os.path.realpath(path)
    return Path(real) if _is_within(real, os.path.realpath(top)) and os.path.lexists(real) else None


def fresh(path: Path) -> Path:
    """Returns a path that we are about to write, without the link, or file, that a step of the build may have
    put there: it would be followed."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    return path


def move(source: Path, to: Path) -> None:
    """Moves by renaming if that is possible, and else by copying."""
    fresh(to)
    try:
        source.rename(to)
    except OSError:
        copy(source, to)


def copy(source: Path, to: Path) -> None:
    shutil.copytree(source, to, symlinks=True, dirs_exist_ok=True)


def replace_file(source: Path, to: Path, *, own: bool = False) -> None:
    """Replaces a file or link by another one. A file is hard-linked unless it has to be a copy."""
    if to.is_symlink() or to.exists():
        to.unlink()
    if source.is_symlink():
        to.symlink_to(source.readlink())
        return
    try:
        if not own:
            os.link(source, to)
            return
    except OSError:
        pass  # not on this file system, or too many already
    shutil.copy2(source, to)


def link(source: Path, to: Path) -> None:
    """Copies a folder by hard links. The files of both may not be changed later."""
    shutil.copytree(
        source, to, symlinks=True, copy_function=lambda old, new: replace_file(Path(old), Path(new))
    )


def digest(top: Path, only: Iterable[Path] | None = None) -> str:
    """Returns a digest of names, contents and modes of all files, or of these files and folders."""
    total = hashlib.sha256()
    for start in [top] if only is None else sorted(only):
        for path in [start, *walk(start)] if start.is_dir() and not start.is_symlink() else [start]:
            total.update(os.fsencode(os.path.relpath(path, top)) + b"\0" + _facts(path) + b"\0")
    return total.hexdigest()


def _entries(top: Path | str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(top) as scan:
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
    if not path.is_file():  # a step of a build may have put a pipe there, for which we would wait for ever
        raise BuildError(f"Make {path.name} a file: it is something else.")
    with path.open("rb") as file:
        return f"{path.stat().st_mode & 0o111:o} ".encode() + hashlib.file_digest(file, "sha256").digest()


def within(top: Path, base: Path, path: str, what: str) -> Path:
    """Resolves a path in a file of the repository from `base`. Refuses one that leaves the folder."""
    target = base / path
    if not _is_within(os.path.realpath(target), os.path.realpath(top)):
        raise BuildError(f"Take {path} out of {what}: it is outside of the folder that is deployed.")
    return target


def _absolute(top: Path, link: Path, say: Callable[[str], None]) -> bool:
    if link.readlink().is_absolute():
        _leave_out(top, link, say)
        return True
    return False


def _leave_out(top: Path, link: Path, say: Callable[[str], None]) -> None:
    say(f"{link.relative_to(top)} is a symbolic link that leads out of the folder: it is left out.")
    link.unlink()


def _is_within(real: str, top: str) -> bool:
    return real == top or real.startswith(top.rstrip("/") + "/")
