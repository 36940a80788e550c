"""Limits by cgroups, where a part of the tree is given to us.

It is given by systemd (`Delegate=yes`), by a container with a cgroup namespace of its own, or by an owner who
is not root. Nothing is ever done to a tree that belongs to the system. Below what is given, Windlass itself
moves into `windlass`, because a group that hands on controllers may not hold processes.

Of cgroup v1, root makes groups below its own, as container engines do: that changes nothing of its own group.
A program is then in several groups, one for each controller.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from windlass.base.isolation.isolation import MOST_PROCESSES
from windlass.base.log import log

_log = log("base.cgroups")
_OWN: Final = "windlass"
_SERVICE: Final = "service."
"""The beginning of the names of groups with those of instances."""
_STEPS: Final = "guests."
"""The beginning of the names of groups for build steps of an organization."""
_ATTEMPTS: Final = 10
_PERIOD: Final = 100_000
_OF_V1: Final = frozenset({"cpu", "memory", "pids"})
_UNLIMITED: Final = 1 << 60
_NUMBERS: Final = count()
_NONE: Final[Mapping[str, Path]] = MappingProxyType({})
_INNER: Final = "environment."
"""The beginning of the names of groups inside that of an organization."""
_STEP_WEIGHT: Final = 50
"""CPU weight of build steps; the default weight is 100."""


class Cgroups:
    """Groups of instances. Nothing is limited where the machine has none for us.

    The group of an instance is in a group of its service: memory that an instance has passed to another one,
    such as an open file in memory, counts there when the instance and its group are gone.
    """

    def __init__(self, base: Path | None, folder: Path, v1: Mapping[str, Path] = _NONE) -> None:
        """`base` is a group of version 2 that we may divide, `v1` ours of version 1, by controller."""
        self._base, self._folder, self._v1 = base, folder, v1
        self.controllers: frozenset[str] = frozenset()

    def offered(self) -> frozenset[str]:
        """Returns the controllers of groups that could be made. Changes nothing."""
        offered: set[str] = set()
        with suppress(OSError):
            offered.update((self._base / "cgroup.controllers").read_text().split() if self._base else ())
        return frozenset(self._v1 if self._uses_v1(offered) else offered)

    def prepare(self) -> None:
        try:
            self.controllers = _hand_on(self._base) if self._base else frozenset()
        except OSError as error:
            _log.warning("Control groups cannot be used at %s: %s", self._base, error.strerror)
            self._base = None
        if self._uses_v1(self.controllers):
            self._base, self.controllers = None, frozenset(self._v1)

    def _uses_v1(self, of_v2: Collection[str]) -> bool:
        return "memory" in self._v1 and "memory" not in of_v2

    def make(self, service: str, name: str, cpu: int, memory: int, together: int) -> tuple[str, ...]:
        """Returns the paths of the groups of an instance with these limits, and that of processes; none where
        there are none. `together`: MiB of memory for all instances of the service."""
        if self._base is None and not self.controllers:
            return ()
        for _ in range(_ATTEMPTS):
            with suppress(FileNotFoundError):  # the only other instance of the service has just ended
                return self._make(service, name, cpu, memory, together)
        return self._make(service, name, cpu, memory, together)

    def _make(self, service: str, name: str, cpu: int, memory: int, together: int) -> tuple[str, ...]:
        of_service = self._prefix() + service
        if self._base is not None:
            return (self._make_v2(self._base / of_service, name, cpu, memory, together),)
        _make_v1(of_service, self._v1, together)
        parents = {controller: base / of_service for controller, base in self._v1.items()}
        return _make_v1(name, parents, memory, MOST_PROCESSES)

    def _make_v2(self, of_service: Path, name: str, cpu: int, memory: int, together: int) -> str:
        group = of_service / name
        of_service.mkdir(exist_ok=True)
        if self.controllers:
            _control_children(of_service, self.controllers)
        group.mkdir(exist_ok=True)
        if "memory" in self.controllers:
            for limited, most in ((of_service, together), (group, memory)):
                (limited / "memory.max").write_text(str(most << 20))
                _write_if_there(limited / "memory.swap.max", "0")
            _write_if_there(group / "memory.oom.group", "1")
        if "pids" in self.controllers:
            (group / "pids.max").write_text(str(MOST_PROCESSES))
        if "cpu" in self.controllers:
            (group / "cpu.max").write_text(f"{max(cpu, 10) * _PERIOD // 1000} {_PERIOD}")
        return str(group)

    def memory_of(self, service: str) -> int:
        """Returns the bytes of memory that all instances of a service hold, also those that have ended,
        without pages of files that the kernel can write back; 0 if that is not known."""
        return sum(_memory_use(base / (self._prefix() + service)) for base in self._bases())

    def memory_of_steps(self, org: str) -> int:
        """Returns the bytes of memory that the build steps of an organization hold, counted likewise."""
        return sum(_memory_use(group) for base in self._bases() for group in base.glob(f"{_STEPS}*.{org}"))

    def tidy(self, find: Callable[[], Collection[str]]) -> None:
        """Removes cgroups of ended instances, which a killed server may have left. `find` returns the
        names of all instances."""
        groups = [group for base in self._bases() for group in base.glob(f"{self._prefix()}*/*/")]
        known = find()  # later, so that each group has an instance, or never gets one again
        remove(str(group) for group in groups if group.name not in known)

    def _bases(self) -> Collection[Path]:
        if self._base is not None:
            return (self._base,)
        return [*dict.fromkeys(self._v1.values())] if self.controllers else ()

    def _prefix(self) -> str:
        """The prefix of this engine's cgroups, because another engine with its own folder may use the same
        parent."""
        return f"{_SERVICE}{self._folder.stat().st_ino:x}."


def of_machine(folder: Path) -> Cgroups:
    """Returns the groups of instances of the engine with this folder."""
    # Groups of version 1 do not limit the processor: in one of "cpu", a service would count as much as one
    # thread of the server, whatever its priority.
    return Cgroups(find(), folder, {name: at for name, at in find_v1().items() if name != "cpu"})


def of_organization(most: int) -> int:
    """Returns the limit of an organization: one and a half times that of an environment, so that one
    environment leaves a third to the others."""
    return most * 3 // 2


class StepGroups:
    """Groups that all build steps of an environment share, in groups of their organization, with limits."""

    def __init__(self, folder: Path, memory: int, processes: int, server: int = 0) -> None:
        """`folder` distinguishes the groups of several installations, and `server`, a process id, those of
        servers that share a folder. `memory`, in MiB, and `processes` are those of an environment. Two
        objects of a process have no group in common: one could remove it when the other has made it, but
        has no process in it yet."""
        self._folder, self._memory, self._processes = folder, memory, processes
        self._server, self._number = server or os.getpid(), next(_NUMBERS)

    def make(self, org: str, environment: str) -> tuple[str, ...]:
        """Returns the paths of the groups of an environment, whose parents are those of its organization;
        none where this machine has none for us."""
        name, inner = f"{self._prefix()}{self._server}.{self._number}.{org}", f"{_INNER}{environment}"
        memory, processes = of_organization(self._memory), of_organization(self._processes)
        base = find()
        if base is None or "memory" not in _hand_on(base):  # version 1 may have it
            v1 = find_v1()
            _make_v1(name, v1, memory, processes)
            parents = {controller: at / name for controller, at in v1.items()}
            return _make_v1(inner, parents, self._memory, self._processes)
        whole = _make_v2(base / name, memory, processes)
        for controller in _hand_on(base):
            _write_if_there(whole / "cgroup.subtree_control", f"+{controller}")
        return (str(_make_v2(whole / inner, self._memory, self._processes)),)

    def left(self) -> Iterator[str]:
        """Yields the paths of groups whose server has ended. Another one with the same folder may run."""
        if not self._folder.exists():  # nothing was built yet
            return
        prefix = self._prefix()
        for base in filter(None, [find(), *find_v1().values()]):
            for group in base.glob(f"{prefix}*"):
                server = group.name.removeprefix(prefix).partition(".")[0]
                if not Path(f"/proc/{server}").exists():
                    yield from map(str, (*group.glob(f"{_INNER}*"), group))

    def _prefix(self) -> str:
        return f"{_STEPS}{self._folder.stat().st_ino:x}."


def _make_v2(group: Path, memory: int, processes: int) -> Path:
    group.mkdir(exist_ok=True)
    _write_if_there(group / "memory.max", str(memory << 20))
    _write_if_there(group / "memory.swap.max", "0")
    _write_if_there(group / "pids.max", str(processes))
    _write_if_there(group / "cpu.weight", str(_STEP_WEIGHT))
    return group


def _memory_use(group: Path) -> int:
    for name in ("memory.current", "memory.usage_in_bytes"):
        with suppress(OSError):
            used, parts = int((group / name).read_text()), _numbers(group / "memory.stat")
            total = "total_" if name.endswith("_in_bytes") else ""
            files = (parts.get(f"{total}{kind}_file", 0) for kind in ("active", "inactive"))
            return max(used - sum(files), 0)
    return 0


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
            for name in _OF_V1 & set(options.split(",")) if kind == "cgroup" else ():
                root, top = before.split()[3:5]
                group = Path(os.path.normpath(f"{top}/{inner[name].removeprefix(root)}"))
                if os.access(group / "cgroup.procs", os.W_OK) and os.access(group, os.W_OK):
                    found[name] = group
    return found


def _make_v1(name: str, bases: Mapping[str, Path], memory: int, processes: int = 0) -> tuple[str, ...]:
    """Makes a group below each of `bases`, with limits of memory, in MiB, and of processes, if any. In one of
    "cpu", it has the weight of build steps."""
    groups = [base / name for base in dict.fromkeys(bases.values())]
    limits = {
        "memory.use_hierarchy": "1",  # which newer kernels always do
        "memory.memsw.limit_in_bytes": "-1",  # it must not be below that of memory
        "memory.limit_in_bytes": str(memory << 20),
        "pids.max": str(processes or "max"),
        "cpu.shares": str(_STEP_WEIGHT * 1024 // 100),
    }
    for group in groups:
        group.mkdir(exist_ok=True)
        for file, value in limits.items():
            if (group / file).exists():
                _limit_v1(group / file, value)
        _write_if_there(group / "memory.memsw.limit_in_bytes", str(memory << 20))
        # The kernel counts buffers of TCP and UDP apart, and only with a limit.
        _write_if_there(group / "memory.kmem.tcp.limit_in_bytes", str(memory << 18))
    return tuple(map(str, groups))


def _limit_v1(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as error:
        if error.errno != errno.EBUSY:  # the group has more now, so the limit stays as it was
            raise


def enter(groups: Iterable[str], pid: int) -> None:
    for group in groups:
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


def members(groups: Iterable[str]) -> set[int]:
    found: set[int] = set()
    for group in groups:
        with suppress(OSError):
            found.update(map(int, (Path(group) / "cgroup.procs").read_text().split()))
    return found


def kill(groups: Iterable[str]) -> None:
    """Kills all processes at once, including new ones if the kernel supports it."""
    for group in groups:
        _write_if_there(Path(group) / "cgroup.kill", "1")


def usage_of(groups: Iterable[str]) -> tuple[int, int] | None:
    """Returns milliseconds of processor time and bytes; None where the kernel does not count both."""
    time = memory = None
    for group in map(Path, groups):
        usage = _numbers(group / "cpu.stat").get("usage_usec")
        time = time if usage is None else usage // 1000
        with suppress(OSError):
            memory = int((group / "memory.current").read_text())
    return None if time is None or memory is None else (time, memory)


def remove(groups: Iterable[str]) -> None:
    """Removes groups without processes, and groups of services without a group; others stay."""
    for group in map(Path, sorted(groups, key=len, reverse=True)):  # one in another comes first
        with suppress(OSError):
            group.rmdir()
        if group.parent.name.startswith(_SERVICE):
            with suppress(OSError):
                group.parent.rmdir()


def _is_delegated(group: Path, inner: str) -> bool:
    if not os.access(group / "cgroup.procs", os.W_OK) or not (group / "cgroup.type").exists():
        return False  # the root of the machine has no type
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    # Without a mark: the top of a namespace, or a group that root has delegated to another program.
    return inner == "/" or (os.getuid() != 0 and group.stat().st_uid == os.getuid())


def _control_children(group: Path, controllers: Iterable[str]) -> None:
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))


def _hand_on(base: Path) -> frozenset[str]:
    wanted = {"cpu", "memory", "pids"} & set((base / "cgroup.controllers").read_text().split())
    own = base / _OWN
    own.mkdir(exist_ok=True)
    for pid in (base / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (own / "cgroup.procs").write_text(pid)
    if wanted:
        _control_children(base, wanted)
    return frozenset(wanted)


def _write_if_there(path: Path, text: str) -> None:
    with suppress(OSError):
        path.write_text(text)


def _numbers(path: Path) -> Mapping[str, int]:
    with suppress(OSError):
        lines = (line.split() for line in path.read_text().splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}
    return {}
