"""Stores artifacts and dependencies. An incomplete artifact is never used.

    <folder>/cache/                      build caches and toolchains; see `caches` and `toolchains`
    <folder>/<service>/<key>/            a complete artifact; it gets this name at the end of its build
    <folder>/<service>/.deps/<name>/     installed dependencies; they contain their own path, so they are
                                         built in place; the file `complete` in them contains the path
    <folder>/<service>/.new-<name>/      a build in progress

A process that writes or uses dependencies or a build in progress holds the lock file beside the folder. The
kernel releases the lock when the process ends in any way. A folder of this kind without a lock is a leftover.

Many files of a build contain absolute paths, such as the first lines of scripts. A build that is no longer at
its original path, because the data directory was moved or copied, counts as absent and is built again.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from windlass.base import filelock, subprocesses
from windlass.base.atomic_files import sync_file_system
from windlass.base.file_names import read_beginning
from windlass.base.folder_removal import erase
from windlass.base.log import log
from windlass.builders.builder import BuildError
from windlass.engines.workload import Artifact
from windlass.process.builds import tree
from windlass.process.lost_python import has_lost_python

_log = log("builders.native")

DEPENDENCIES_FOLDER: Final = ".deps"
NEW_PREFIX: Final = ".new-"
REMOVED_PREFIX: Final = ".gone-"
RECORD_FILE: Final = "artifact.json"
COMPLETE_FILE: Final = "complete"
CACHE_FOLDER: Final = "cache"
LOCK_TIMEOUT: Final = 10.0
"""Seconds to wait for a lock that other processes hold only briefly."""
DEPENDENCY_LINKS: Final = ("venv", "node_modules", "packages", "node", "python", "manager", "toolchain")
"""Symbolic links from an artifact to its dependencies. `packages` are Node.js packages that are copied for
each build."""

_SUFFIX_PATTERN: Final = re.compile(r"[0-9a-f]{12}")
"""The random suffix of a folder's name."""
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}")


def name_of(text: str) -> str:
    """Returns an id or key as a folder name. A text that is not a safe folder name is hashed."""
    if _PLAIN_PATTERN.fullmatch(text) and text != CACHE_FOLDER and not text.endswith(".lock"):
        return text
    return "h" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class ArtifactStore:
    """The stored artifacts of one service."""

    def __init__(self, folder: Path, service: str) -> None:
        self.folder = folder / name_of(service)

    def at(self, key: str) -> Path:
        return self.folder / name_of(key)

    def find(self, key: str) -> Artifact | None:
        return _read(self.at(key))

    @contextmanager
    def making(self) -> Iterator[Path]:
        """Yields a folder to build in, and removes it afterwards. The caller moves the result out of it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _temporary_folder(self.folder, NEW_PREFIX) as fresh:
            try:
                yield fresh
            finally:
                _try_to_erase(fresh)

    @contextmanager
    def depending(self, digest: str) -> Iterator[tuple[Path, bool]]:
        """Yields the folder of these dependencies, and whether they are installed. A new folder is kept only
        if the caller marks it as complete."""
        deps = self.folder / DEPENDENCIES_FOLDER
        deps.mkdir(mode=0o700, parents=True, exist_ok=True)
        for present in sorted(deps.glob(f"{digest}-*")):
            if not _SUFFIX_PATTERN.fullmatch(present.name.removeprefix(f"{digest}-")):
                continue  # belongs to a longer digest with this prefix
            if present.is_dir() and (held := _try_lock(present, shared=True)) is not None:
                try:
                    if is_complete(present):
                        yield present, True
                        return
                finally:
                    os.close(held)
        with _temporary_folder(deps, f"{digest}-", keeps=True) as fresh:
            try:
                yield fresh, False
            finally:
                if not is_complete(fresh):
                    _try_to_erase(fresh)

    def dependencies(self) -> list[Path]:
        """Returns the folders of all complete dependencies."""
        return sorted(mark.parent for mark in (self.folder / DEPENDENCIES_FOLDER).glob(f"*/{COMPLETE_FILE}"))

    def complete(self, folder: Path, artifact: Artifact) -> None:
        """Records the artifact in its folder and writes both to the disk."""
        with tree.fresh(folder / RECORD_FILE).open("xb") as file:
            file.write(msgspec.json.encode(artifact))
        sync_file_system(folder)

    def put(self, folder: Path, artifact: Artifact) -> Artifact:
        """Moves a complete artifact to its final name and returns it. If this key already has an artifact,
        returns the existing artifact, because both were built from the same input."""
        final = self.at(artifact.key)
        for _ in range(2):
            try:
                folder.rename(final)
            except OSError:
                if not os.path.lexists(final):
                    raise
                if first := _read(final):
                    return first
                self._remove_renamed(final)
            else:
                return artifact
        raise OSError(f"{final} cannot be replaced")

    def discard(self) -> None:
        for left in self.folder.glob(f"{NEW_PREFIX}*"):
            _end_programs(left)
        self._remove_renamed(self.folder, self.folder.parent)

    def sweep(
        self,
        kept_keys: Collection[str] | None = None,
        list_used_names: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """Erases leftovers, unused dependencies, and the artifacts whose keys are not in `kept_keys`.

        Without `kept_keys`, all artifacts stay. `list_used_names` returns the names of the dependencies in
        use; the default is the dependencies to which artifacts have links.
        """
        self.put_away(kept_keys, list_used_names)
        self.erase_gone()

    def put_away(
        self,
        kept_keys: Collection[str] | None = None,
        list_used_names: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """Renames the folders that are to be erased. This is fast; `erase_gone` erases them later."""
        if not self.folder.is_dir():
            return
        kept = None if kept_keys is None else {name_of(key) for key in kept_keys}
        for left in sorted(self.folder.iterdir()):
            if left.name.startswith(NEW_PREFIX):
                self._put_leftover_away(left)
            elif not left.name.startswith(".") and kept is not None and left.name not in kept:
                self._put_away(left)
        for deps in sorted((self.folder / DEPENDENCIES_FOLDER).glob("*")):
            self._put_deps_away(deps, list_used_names or self._used_artifacts)

    def erase_gone(self) -> None:
        """Erases renamed folders, including the folders of a process that was killed before it could erase
        them."""
        for gone in sorted(self.folder.glob(f"{REMOVED_PREFIX}*")):
            _try_to_erase(gone)

    def _put_leftover_away(self, leftover: Path) -> None:
        if leftover.name.endswith(".lock"):
            if not leftover.with_suffix("").exists():
                _drop_lock(leftover)
            return
        held = _try_lock(leftover)
        if held is None and _lock(leftover).exists():
            return  # in use
        _end_programs(leftover)
        self._put_away(leftover)
        _lock(leftover).unlink(missing_ok=True)
        if held is not None:
            os.close(held)

    def _put_deps_away(
        self, dependencies_folder: Path, list_used_names: Callable[[], Collection[str]]
    ) -> None:
        if dependencies_folder.name.endswith(".lock"):
            if not dependencies_folder.with_suffix("").exists():
                _drop_lock(dependencies_folder)
            return
        held = _try_lock(dependencies_folder)
        if held is None and _lock(dependencies_folder).exists():
            return
        # Checked under the lock: a build that uses the dependencies holds their lock until its artifact is in
        # place.
        if not is_complete(dependencies_folder) or dependencies_folder.name not in list_used_names():
            self._put_away(dependencies_folder)
            _lock(dependencies_folder).unlink(missing_ok=True)
        if held is not None:
            os.close(held)

    def _used_artifacts(self) -> set[str]:
        return {
            link.readlink().parent.name
            for name in DEPENDENCY_LINKS
            for link in self.folder.glob(f"[!.]*/{name}")
            if link.is_symlink()
        }

    def _remove_renamed(self, path: Path, destination: Path | None = None) -> None:
        """Renames a folder and then removes it, so that a partly removed folder is never mistaken for a
        complete one."""
        _try_to_erase(self._put_away(path, destination))

    def _put_away(self, path: Path, destination: Path | None = None) -> Path:
        gone = (destination or self.folder) / f"{REMOVED_PREFIX}{uuid.uuid4().hex}"
        with suppress(FileNotFoundError):
            path.rename(gone)
        return gone


def services(folder: Path) -> list[str]:
    """Returns the folder names of the services that have builds."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        entry.name
        for entry in entries
        if _PLAIN_PATTERN.fullmatch(entry.name) and entry.name != CACHE_FOLDER and entry.is_dir()
    ]


def finish_removals(folder: Path) -> None:
    """Completes interrupted removals."""
    for left in folder.glob(f"{REMOVED_PREFIX}*"):
        _try_to_erase(left)


def _read(path: Path) -> Artifact | None:
    """Returns an artifact, or None if it is absent or incomplete.

    Raises BuildError if another version of Windlass has recorded the artifact. Such an artifact is not
    replaced, because running instances may use its files.
    """
    try:
        artifact = msgspec.json.decode((path / RECORD_FILE).read_bytes(), type=Artifact)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.ValidationError as error:
        _log.error(
            "an artifact of another version cannot be read, and is left as it is",
            extra={"folder": str(path), "why": str(error)},
        )
        raise BuildError(
            "The build of this commit was recorded by another version of Windlass, and is not "
            "replaced: deploy another commit, or uninstall the service and deploy it again."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # torn by a power cut
    links = (path / name for name in DEPENDENCY_LINKS)
    whole = (path / "app").is_dir() and all(link.exists() for link in links if link.is_symlink())
    if not artifact.static and has_lost_python(path):
        return None
    return artifact if whole and path.resolve() == Path(artifact.ref) else None


def mark_complete(folder: Path) -> None:
    with tree.fresh(folder / COMPLETE_FILE).open("xb") as file:
        file.write(os.fsencode(folder))


def is_complete(folder: Path) -> bool:
    """Returns whether the folder is complete and still at its original path.

    Steps write to the folder: the file may be a pipe, which would block this, or a link to an endless file.
    """
    own = os.fsencode(folder)
    try:
        return read_beginning(folder, COMPLETE_FILE, len(own) + 1) == own
    except OSError:
        return False


@contextmanager
def _temporary_folder(folder: Path, beginning: str, *, keeps: bool = False) -> Iterator[Path]:
    """Yields a new locked folder. Afterwards, the lock file is removed unless `keeps` is set and the folder
    still exists."""
    present, held = _lock_new(folder, beginning)
    try:
        present.mkdir(mode=0o700)
        yield present
    finally:
        if not (keeps and present.exists()):
            _lock(present).unlink(missing_ok=True)
        os.close(held)


def _lock_new(folder: Path, beginning: str) -> tuple[Path, int]:
    """Returns an unused folder name and the file descriptor of its lock. Tries another name if a sweep
    removes the lock file first."""
    while True:
        fresh = folder / f"{beginning}{uuid.uuid4().hex[:12]}"
        os.close(filelock.open_lock_file(_lock(fresh)))
        if (held := _try_lock(fresh)) is not None:
            return fresh, held


def _lock(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Locks the lock file beside a folder. Returns None if the file is absent or already locked."""
    try:
        held = os.open(_lock(path), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if filelock.try_lock(held, shared=shared) and filelock.is_at(held, _lock(path)):
        return held
    os.close(held)
    return None


def _drop_lock(lock: Path) -> None:
    """Removes the lock file of a removed folder. A folder exists only after its lock is held, so an unlocked
    file without a folder is a leftover."""
    held = _try_lock(lock.with_suffix(""))
    if held is not None:
        if not lock.with_suffix("").exists():
            lock.unlink(missing_ok=True)
        os.close(held)


def _end_programs(leftover: Path) -> None:
    subprocesses.end_all_of(leftover / "home")


def _try_to_erase(path: Path) -> None:
    """Erases a folder as far as possible. The next sweep tries to erase the rest."""
    with suppress(OSError):
        erase(path)
