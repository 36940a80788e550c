"""Moves folders from a service's cache into the code before a build, and back into the cache after the build.

The artifact gets copies of only those files that the application needs, because an instance copies its
artifact.
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
    """The kept folders of one build. A folder that the repository itself contains is not replaced."""

    def __init__(self, kept_folder: Path, app: Path, names: Sequence[str], results: Sequence[str]) -> None:
        """Prepares the folders `names` of the code `app`. `kept_folder` is their place between builds.
        `results` are patterns of the files that the application needs."""
        self._kept, self._app, self._results = kept_folder, app, results
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
        """Copies the needed files into the code. They are copied because the next build may change the kept
        folders."""
        for name in self._names:
            if os.path.lexists(self._app / name) or not _is_free_of_links(self._app, name):
                raise BuildError(f"Make the build write to a folder {name}: it put something else there.")
            if _is_real_folder(self._kept, _flat(name)):
                _copy_results(self._kept / _flat(name), self._app, name, self._results)


def keep_times(root: Path, record: Path) -> None:
    """Restores the modification times of files that have not changed since the last build. Compilers compile
    a file again if it is newer than their result."""
    try:
        earlier = msgspec.json.decode(record.read_bytes(), type=dict[str, tuple[str, int]])
    except (FileNotFoundError, msgspec.DecodeError):
        earlier = {}
    times: dict[str, tuple[str, int]] = {}
    for path in tree.walk(root):
        if path.is_symlink() or not path.is_file():
            continue
        name, digest = os.path.relpath(path, root), tree.digest(root, [path])
        before, modified = earlier.get(name, ("", 0))
        if before == digest:
            os.utime(path, ns=(modified, modified))
        times[name] = digest, path.stat().st_mtime_ns
    write_whole(record, msgspec.json.encode(times), durable=False)


def _copy_results(kept_folder: Path, app: Path, name: str, results: Sequence[str]) -> None:
    for pattern in results:
        if pattern.rstrip("/") != name and not pattern.startswith(f"{name}/"):
            continue
        below = pattern[len(name) + 1 :].rstrip("/")
        for path in sorted(kept_folder.glob(below)) if below else [kept_folder]:
            inner = path.relative_to(kept_folder)
            if _is_free_of_links(kept_folder, str(inner.parent)):
                _copy(path, app / name / inner, folders=pattern.endswith("/"))


def _copy(path: Path, target: Path, *, folders: bool) -> None:
    if not path.is_dir() or path.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        tree.replace_file(path, target, needs_copy=True)
    elif folders:
        tree.copy(path, target)


def _is_real_folder(root: Path, name: str) -> bool:
    return (root / name).is_dir() and _is_free_of_links(root, name)


def _is_free_of_links(root: Path, name: str) -> bool:
    """Returns whether a path has no symbolic link below `root`. A build step could have put a link there, and
    Windlass has more permissions than the step."""
    try:
        return (root / name).resolve() == root.resolve() / name
    except RuntimeError:  # links lead to each other
        return False


def _flat(name: str) -> str:
    return name.replace("/", "%")
