"""Folders that stay with the caches of a service: put among the code for a build, and taken out after it.

The artifact gets only those of their files that the application needs: an instance copies its artifact.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from windlass.base.atomic_files import write_whole
from windlass.builders.builder import BuildError
from windlass.process.builds import tree


class KeptFolders:
    """The kept folders of one build. Folders that the source code contains itself are not touched."""

    def __init__(self, kept: Path, app: Path, names: Sequence[str], results: Sequence[str]) -> None:
        """`kept`: the folder that contains them between builds."""
        self._kept, self._app, self._results = kept, app, results
        self._names = [
            name for name in names if not os.path.lexists(app / name) and _is_free_of_links(app, name)
        ]

    def put_in(self) -> None:
        for name in self._names:
            place = self._kept / _flat(name)
            if _is_real_folder(self._kept, _flat(name)) and _is_free_of_links(self._app, name):
                (self._app / name).parent.mkdir(parents=True, exist_ok=True)
                place.rename(self._app / name)

    def take_out(self) -> None:
        for name in self._names:
            if _is_real_folder(self._app, name):
                (self._app / name).rename(self._kept / _flat(name))

    def copy_results(self) -> None:
        """Copies the files that the application needs: the next build may write to the kept ones."""
        for name in self._names:
            if os.path.lexists(self._app / name) or not _is_free_of_links(self._app, name):
                raise BuildError(f"Make the build write to a folder {name}: it put something else there.")
            if _is_real_folder(self._kept, _flat(name)):
                _copy_results(self._kept / _flat(name), self._app, name, self._results)


def keep_times(top: Path, record: Path) -> None:
    """Sets unchanged files to their time of the last build, because compilers recompile files that are
    newer than the output."""
    try:
        earlier = msgspec.json.decode(record.read_bytes(), type=dict[str, tuple[str, int]])
    except (FileNotFoundError, msgspec.DecodeError):
        earlier = {}
    times: dict[str, tuple[str, int]] = {}
    for path in tree.walk(top):
        if path.is_symlink() or not path.is_file():
            continue
        name, digest = os.path.relpath(path, top), tree.digest(top, [path])
        before, modified = earlier.get(name, ("", 0))
        if before == digest:
            os.utime(path, ns=(modified, modified))
        times[name] = digest, path.stat().st_mtime_ns
    write_whole(record, msgspec.json.encode(times), durable=False)


def _copy_results(kept: Path, app: Path, name: str, results: Sequence[str]) -> None:
    for pattern in results:
        if pattern.rstrip("/") != name and not pattern.startswith(f"{name}/"):
            continue
        below = pattern[len(name) + 1 :].rstrip("/")
        for path in sorted(kept.glob(below)) if below else [kept]:
            inner = path.relative_to(kept)
            if _is_free_of_links(kept, str(inner.parent)):
                _copy(path, app / name / inner, folders=pattern.endswith("/"))


def _copy(path: Path, to: Path, *, folders: bool) -> None:
    if not path.is_dir() or path.is_symlink():
        to.parent.mkdir(parents=True, exist_ok=True)
        tree.replace_file(path, to, own=True)
    elif folders:
        tree.copy(path, to)


def _is_real_folder(top: Path, name: str) -> bool:
    return (top / name).is_dir() and _is_free_of_links(top, name)


def _is_free_of_links(top: Path, name: str) -> bool:
    """Returns True for a path without links below `top`. A step of the build could put one anywhere on the
    way, and we read and write more than it may."""
    return (top / name).resolve() == top.resolve() / name


def _flat(name: str) -> str:
    return name.replace("/", "%")
