"""Removes empty control groups that installations have left behind whose data directory is gone.

A killed server leaves the groups of its instances and build steps, and its next start removes them. If there
is no next start, they would stay until the machine is restarted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

SERVICE_PREFIX: Final = "service."
"""The prefix of the names of groups that contain the instances of a service."""
STEPS_PREFIX: Final = "guests."
"""The prefix of the names of groups for the build steps of an organization."""
_ABANDONED_SECONDS: Final = 24 * 3600.0
"""How long a group has to be empty. The start of another installation reads groups of instances that have
ended meanwhile, to say why."""


class AbandonedGroups:
    def __init__(self) -> None:
        self._empty_since: dict[Path, float] = {}

    def remove(self, bases: Iterable[Path], name_prefix: str) -> None:
        """Removes groups that were empty at each call for a day, except those whose name begins with
        `name_prefix`."""
        now = time.monotonic()
        self._empty_since = {
            group: self._empty_since.get(group, now)
            for base in bases
            for group in _empty_groups(base)
            if not group.name.startswith(name_prefix)
        }
        for group, since in self._empty_since.items():
            if now - since >= _ABANDONED_SECONDS:
                _remove_with_children(group)


def _empty_groups(base: Path) -> Iterator[Path]:
    for prefix in (SERVICE_PREFIX, STEPS_PREFIX):
        for group in base.glob(f"{prefix}*"):
            if not _has_living_server(group) and not _has_processes(group):
                yield group


def _has_living_server(group: Path) -> bool:
    """Returns whether the server runs whose build steps use the group; its process id is in the name."""
    if not group.name.startswith(STEPS_PREFIX):
        return False
    server = group.name.removeprefix(STEPS_PREFIX).split(".")[1:2]
    return not server or Path("/proc", server[0]).exists()


def _has_processes(group: Path) -> bool:
    try:
        return any((each / "cgroup.procs").read_text() for each in (group, *group.glob("*/")))
    except OSError:  # it was removed just now
        return True


def _remove_with_children(group: Path) -> None:
    for each in (*group.glob("*/"), group):
        with suppress(OSError):  # a process has entered it
            each.rmdir()
