"""Limits by cgroups, where a part of the tree is given to us.

It is given by systemd (`Delegate=yes`), by a container with a cgroup namespace of its own, or by an owner who
is not root. Nothing is ever done to a tree that belongs to the system. Below what is given, Windlass itself
moves into `windlass`, because a group that hands on controllers may not hold processes.

Of cgroup v1, root makes groups below its own, as container engines do: that changes nothing of its own group.
Only guests (build steps) get such groups.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from windlass.base.isolation.isolation import MOST_PROCESSES
from windlass.base.log import log

_log = log("base.cgroups")
_OWN: Final = "windlass"
_PERIOD: Final = 100_000
_UNLIMITED: Final = 1 << 60
_NUMBERS: Final = count()
_GUEST_WEIGHT: Final = 50
"""Processor weight of guests, of the usual 100."""


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


class GuestGroups:
    """Groups that all guests of an organization share, each with limits of its own."""

    def __init__(self, folder: Path, memory: int, processes: int, server: int = 0) -> None:
        """`folder` tells groups of several installations apart, and `server`, a process id, those of servers
        with one folder. `memory` is in MiB. Two objects of a process have no group in common: one could
        remove it when the other has made it, but has no process in it yet."""
        self._folder, self._memory, self._processes = folder, memory, processes
        self._server, self._number = server or os.getpid(), next(_NUMBERS)

    def make(self, name: str) -> tuple[str, ...]:
        """Returns the paths of the groups of this name; none where this machine has none for us."""
        name = f"{self._prefix()}{self._server}.{self._number}.{name}"
        base = find()
        if base is None or "memory" not in _hand_on(base):  # version 1 may have it
            return tuple(str(_make_v1(name, at, self._limits_v1())) for at in find_v1().values())
        group = base / name
        group.mkdir(exist_ok=True)
        _write_if_there(group / "memory.max", str(self._memory << 20))
        _write_if_there(group / "memory.swap.max", "0")
        _write_if_there(group / "pids.max", str(self._processes))
        _write_if_there(group / "cpu.weight", str(_GUEST_WEIGHT))
        return (str(group),)

    def left(self) -> Iterator[str]:
        """Yields the paths of groups whose server has ended. Another one with the same folder may run."""
        if not self._folder.exists():  # nothing was built yet
            return
        prefix = self._prefix()
        for base in filter(None, [find(), *find_v1().values()]):
            for group in base.glob(f"{prefix}*"):
                server = group.name.removeprefix(prefix).partition(".")[0]
                if not Path(f"/proc/{server}").exists():
                    yield str(group)

    def _prefix(self) -> str:
        return f"guests.{self._folder.stat().st_ino:x}."

    def _limits_v1(self) -> Mapping[str, str]:
        return {
            "memory.limit_in_bytes": str(self._memory << 20),
            "memory.memsw.limit_in_bytes": str(self._memory << 20),
            "pids.max": str(self._processes),
            "cpu.shares": str(_GUEST_WEIGHT * 1024 // 100),
        }


def limits_memory(groups: Iterable[str]) -> bool:
    """Returns whether the kernel holds one of these groups to a limit of memory."""
    return any(
        _limit(Path(group) / name) < _UNLIMITED
        for group in groups
        for name in ("memory.max", "memory.limit_in_bytes")
    )


def _limit(path: Path) -> int:
    with suppress(OSError, ValueError):  # "max" is no number
        return int(path.read_text())
    return _UNLIMITED


def memory_kills(groups: Iterable[str]) -> int:
    """Returns how many processes of these groups the kernel has ended because of their limit of memory."""
    return sum(
        _numbers(Path(group) / name).get("oom_kill", 0)
        for group in groups
        for name in ("memory.events", "memory.oom_control")
    )


def find_v1(proc: Path = Path("/proc/self")) -> Mapping[str, Path]:
    """Returns our own groups of cgroup v1, by controller; none for users who may not divide them."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        lines = (line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines())
        inner = {name: path for _, names, path in lines for name in names.split(",")}
        for line in (proc / "mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            for name in {"cpu", "memory", "pids"} & set(options.split(",")) if kind == "cgroup" else ():
                root, top = before.split()[3:5]
                group = Path(os.path.normpath(f"{top}/{inner[name].removeprefix(root)}"))
                if os.access(group / "cgroup.procs", os.W_OK) and os.access(group, os.W_OK):
                    found[name] = group
    return found


def _make_v1(name: str, base: Path, limits: Mapping[str, str]) -> Path:
    group = base / name
    group.mkdir(exist_ok=True)
    for file, value in limits.items():
        if (group / file).exists():
            _write_if_there(group / file, value)
    return group


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


def remove(group: str) -> bool:
    """Returns whether it is gone. One with processes stays."""
    if group:
        with suppress(OSError):
            Path(group).rmdir()
    return not (group and Path(group).exists())


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
