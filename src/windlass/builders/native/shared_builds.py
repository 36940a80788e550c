"""Builds that services of one repository shared in earlier versions. They stay as long as a service has one,
and no new ones are made: a step of one service could decide what another one runs.

    <folder>/shared-<group>/<key>/            an artifact, beside its dependencies, as a service has them
    <folder>/shared-<group>/.users/<service>  a service that may have links; its text says where the folder
                                              of the service was set aside, if it was
    <folder>/<service>/<key>                  the link of a service

Links are looked for and artifacts removed under one lock. Nothing else is done under it: another server of
the data directory may be paused while it holds the lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base import filelock
from windlass.builders.native.artifacts import DEPS, PATIENCE, SHARED, ArtifactStore, name_of, not_kept

_USERS: Final = ".users"


class SharedBuilds:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def groups_of(self, service: str) -> set[str]:
        """Returns the groups of a service: those of its links, and of a build that failed."""
        users = self._folder.glob(f"{SHARED}*/{_USERS}/{name_of(service)}")
        return {user.parent.parent.name for user in users}

    def groups(self) -> list[str]:
        return sorted(path.name for path in self._folder.glob(f"{SHARED}*") if path.is_dir())

    def sweep(self, groups: Collection[str]) -> None:
        """Removes artifacts to which no link leads, and leftovers. They are erased without the lock: that may
        take minutes, while other services are deployed."""
        for group in sorted(groups):
            store = ArtifactStore(self._folder, group)
            with self._lock():
                store.put_away(self._names_with_links(group))
            store.erase_gone()
            with self._lock():
                _remove_if_empty(self._folder / group)

    def note_set_aside(self, service: str, to: Path) -> None:
        """Notes where the links of a service will be, so that what they lead to stays."""
        for group in self.groups_of(service):
            with self._lock():
                (self._folder / group / _USERS / name_of(service)).write_text(str(to))

    def _names_with_links(self, group: str) -> set[str]:
        """Returns the names of artifacts that have links. Forgets services that have none left."""
        names: set[str] = set()
        for user in sorted((self._folder / group / _USERS).glob("*")):
            elsewhere = user.read_text()
            folders = [self._folder / user.name, *([Path(elsewhere)] if elsewhere else [])]
            targets = [target for folder in folders for target in _targets(folder)]
            own = {target.name for target in targets if target.parent.name == group}
            names |= own
            if not own:
                user.unlink()
        return names

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._folder.with_name(f"{self._folder.name}.lock")
        with not_kept(), filelock.holding(lock, PATIENCE):
            yield


def _remove_if_empty(folder: Path) -> None:
    """Removes the folder of a group that has no services any more, unless a build is under way in it."""
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= {_USERS, DEPS}:
        with suppress(OSError):  # not empty: a service has come meanwhile
            for below in (folder / _USERS, folder / DEPS, folder):
                if below.is_dir():
                    below.rmdir()


def _targets(folder: Path) -> list[Path]:
    """Returns the targets of the links in a folder."""
    with suppress(FileNotFoundError):
        return [path.readlink() for path in folder.iterdir() if path.is_symlink()]
    return []
