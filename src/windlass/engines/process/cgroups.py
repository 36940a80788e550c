"""Limits by cgroup v2, where a part of the tree is given to us.

It is given by systemd (`Delegate=yes`), by a container with a cgroup namespace of its own, or by an owner who
is not root. Nothing is ever done to a tree that belongs to the system. Below what is given, Windlass itself
moves into `windlass`, because a group that hands on controllers may not hold processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.isolation.isolation import MOST_PROCESSES
from windlass.base.log import log

_log = log("engines.process")
_OWN: Final = "windlass"
_PERIOD: Final = 100_000


class Cgroups:
    """`base` None: there are none, and nothing is limited here."""

    def __init__(self, base: Path | None, folder: Path) -> None:
        self._base, self._folder = base, folder
        self.controllers: frozenset[str] = frozenset()

    def prepare(self) -> None:
        if self._base is None:
            return
        try:
            self.controllers = _hand_on(self._base)
        except OSError as error:
            _log.warning("Control groups cannot be used at %s: %s", self._base, error.strerror)
            self._base = None

    def make(self, name: str, cpu: int, memory: int) -> str:
        """The path of a group with these limits, and that of processes; empty where there are no groups."""
        if self._base is None:
            return ""
        # Another engine may divide the same group, over a folder of its own.
        group = self._base / f"instance.{self._folder.stat().st_ino:x}.{name}"
        group.mkdir(exist_ok=True)
        if "memory" in self.controllers:
            (group / "memory.max").write_text(str(memory << 20))
            _write_if_there(group / "memory.swap.max", "0")
            _write_if_there(group / "memory.oom.group", "1")
        if "pids" in self.controllers:
            (group / "pids.max").write_text(str(MOST_PROCESSES))
        if "cpu" in self.controllers:
            (group / "cpu.max").write_text(f"{max(cpu, 10) * _PERIOD // 1000} {_PERIOD}")
        return str(group)


def enter(group: str, pid: int) -> None:
    if group:
        with suppress(ProcessLookupError):
            (Path(group) / "cgroup.procs").write_text(str(pid))


def find(proc: Path = Path("/proc/self")) -> Path | None:
    """The group that we may divide further."""
    if not (proc / "cgroup").exists():
        return None
    top = mount(proc)
    inner = next(
        (
            line.partition("::")[2]
            for line in (proc / "cgroup").read_text().splitlines()
            if line.startswith("0::")
        ),
        "",
    )
    if top is None or not inner:
        return None
    group = Path(os.path.normpath(f"{top}/{inner}"))
    if group.name == _OWN and _is_delegated(group.parent, "/"):
        return group.parent
    return group if _is_delegated(group, inner) else None


def mount(proc: Path = Path("/proc/self")) -> Path | None:
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4])
    return None


def members(group: str) -> list[int]:
    with suppress(OSError):
        return [int(line) for line in (Path(group) / "cgroup.procs").read_text().split()]
    return []


def kill(group: str) -> None:
    """All of it at once, also what is being born. Older kernels cannot; then it is done one by one."""
    _write_if_there(Path(group) / "cgroup.kill", "1")


def was_killed_for_memory(group: str) -> bool:
    return bool(group) and bool(_numbers(Path(group) / "memory.events").get("oom_kill"))


def usage_of(group: str) -> tuple[int, int] | None:
    """Milliseconds of processor time and bytes; None where the kernel does not count both."""
    if not group:
        return None
    with suppress(OSError, ValueError, KeyError):
        memory = int((Path(group) / "memory.current").read_text())
        return _numbers(Path(group) / "cpu.stat")["usage_usec"] // 1000, memory
    return None


def remove(group: str) -> None:
    if not group:
        return
    with suppress(OSError):
        Path(group).rmdir()


def _is_delegated(group: Path, inner: str) -> bool:
    if not os.access(group / "cgroup.procs", os.W_OK) or not (group / "cgroup.type").exists():
        return False  # the root of the machine has no type
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    # Without a mark: the top of a namespace, or a group that root has delegated to another program.
    return inner == "/" or (os.getuid() != 0 and group.stat().st_uid == os.getuid())


def _hand_on(base: Path) -> frozenset[str]:
    wanted = {"cpu", "memory", "pids"} & set((base / "cgroup.controllers").read_text().split())
    own = base / _OWN
    own.mkdir(exist_ok=True)
    for pid in (base / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (own / "cgroup.procs").write_text(pid)
    if wanted:
        (base / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(wanted)))
    return frozenset(wanted)


def _write_if_there(path: Path, text: str) -> None:
    with suppress(OSError):
        path.write_text(text)


def _numbers(path: Path) -> Mapping[str, int]:
    with suppress(OSError):
        lines = (line.split() for line in path.read_text().splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}
    return {}
