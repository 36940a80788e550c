"""Builds that the services of a group share: made once, and kept as long as a service has a link to it.

    <folder>/shared-<group>/<key>/            an artifact, beside its dependencies, as a service has them
    <folder>/shared-<group>/.users/<service>  a service that may have links; its text says where the folder
                                              of the service was set aside, if it was
    <folder>/<service>/<key>                  the link of a service

Links are made and artifacts removed under one lock, so that no artifact goes between the look for its links
and its removal. Nothing else is done under it, least of all a build: another server of the data directory may
be paused while it holds the lock, and then a build waits, and says for what. A server that is killed in
between leaves an artifact without a link, which the next sweep removes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base import filelock
from windlass.builders.builder import Order
from windlass.builders.native.artifacts import DEPS, PATIENCE, SHARED, ArtifactStore, name_of, not_kept
from windlass.core.deploy.workload import Artifact

_USERS: Final = ".users"


class SharedBuilds:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def store_of(self, order: Order) -> ArtifactStore:
        """Returns the store that an order builds in."""
        return ArtifactStore(self._folder, f"{SHARED}{order.group}" if order.group else order.service)

    def find(self, order: Order) -> Artifact | None:
        """Returns the artifact that another service of the group had built, and links to it."""
        if not order.group:
            return None
        with self._lock():
            artifact = self.store_of(order).find(order.key)
            if artifact:
                self._link(order)
            else:
                self._note_user(order)
            return artifact

    def put(self, order: Order, folder: Path, artifact: Artifact) -> Artifact:
        """Moves a whole artifact to its final place."""
        store = self.store_of(order)
        store.complete(folder, artifact)
        if not order.group:
            return store.put(folder, artifact)
        with self._lock():
            stored = store.put(folder, artifact)
            self._link(order)
            return stored

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

    def _link(self, order: Order) -> None:
        self._note_user(order)
        link = ArtifactStore(self._folder, order.service).at(order.key)
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(Path("..", self.store_of(order).folder.name, name_of(order.key)))

    def _note_user(self, order: Order) -> None:
        users = self.store_of(order).folder / _USERS
        users.mkdir(mode=0o700, parents=True, exist_ok=True)
        (users / name_of(order.service)).touch()

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
