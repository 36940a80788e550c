"""Limits instances and build steps with control groups, in a part of the tree that Windlass may change.

Windlass may change a subtree that systemd delegates (`Delegate=yes`), the tree of a container with its own
cgroup namespace, or a group that root has given to its unprivileged user. Windlass never changes groups of
the operating system. The group of a systemd unit is not divided: see `services_unit`. In any other group,
Windlass moves itself into the child group `windlass`, because cgroup v2 allows no processes in a group that
delegates controllers to its children.

With cgroup v1, root creates groups below its own group, as container engines do, and its own group does not
change. A process is then in several groups, one for each controller.
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

from windlass.base.abandoned_cgroups import SERVICE_PREFIX, STEPS_PREFIX, AbandonedGroups
from windlass.base.atomic_files import write_whole
from windlass.base.isolation.isolation import MAX_PROCESSES
from windlass.base.log import log
from windlass.base.services_unit import is_of_unit, services_group, start_services_unit

_log = log("base.cgroups")
_OWN_GROUP: Final = "windlass"
_MAX_ATTEMPTS: Final = 10
_CPU_PERIOD_MICROSECONDS: Final = 100_000
_V1_CONTROLLERS: Final = frozenset({"cpu", "memory", "pids"})
_V2_CONTROLLERS: Final = _V1_CONTROLLERS
_UNLIMITED_BYTES: Final = 1 << 60
_NUMBERS: Final = count()
_NONE: Final[Mapping[str, Path]] = MappingProxyType({})
_PROC: Final = Path("/proc/self")
_RECORD_FILE: Final = "control-group"
"""The name of the file, in the engine's folder, with the path of the group below which all others are."""
_ENVIRONMENT_PREFIX: Final = "environment."
"""The prefix of the names of environment groups, which are inside the group of an organization."""
_STEP_WEIGHT: Final = 50
"""The processor weight of build steps; the default weight is 100."""


class Cgroups:
    """Creates and removes the control groups of instances. Sets no limits if it may not create groups.

    The group of an instance is inside the group of its service. An instance can pass memory to another
    instance, such as an open in-memory file; the group of the service still accounts for this memory when
    the first instance and its group are gone.
    """

    def __init__(
        self,
        base: Path | None,
        folder: Path,
        v1: Mapping[str, Path] = _NONE,
        unit: Path | None = None,
    ) -> None:
        """Receives the parents of all groups: `base` of cgroup v2, and `v1` of cgroup v1, by controller.

        `unit`: the group of the systemd unit of this process, if it needs another unit for services.
        """
        self._base, self._folder, self._v1, self._unit = base, folder, v1, unit
        self.controllers: frozenset[str] = frozenset()
        self._abandoned = AbandonedGroups()

    def offered(self) -> frozenset[str]:
        """Returns the controllers that new groups could have. Changes nothing.

        `windlass doctor` runs in the group of a shell, and sees the group that the server has recorded.
        """
        offered: set[str] = set()
        with suppress(OSError):
            base = self._base or Path("/", (self._folder / _RECORD_FILE).read_text())
            offered.update((base / "cgroup.controllers").read_text().split())
        return frozenset(self._v1 if self._uses_v1(offered) else offered)

    def prepare(self) -> None:
        if self._unit is not None:
            start_services_unit(self._unit)
            self._base = _services_unit_group(self._unit)
        try:
            self.controllers = _delegate_controllers(self._base) if self._base else frozenset()
        except OSError as error:
            _log.warning("Control groups cannot be used at %s: %s", self._base, error.strerror)
            self._base = None
        if self._uses_v1(self.controllers):
            self._base, self.controllers = None, frozenset(self._v1)
        with suppress(OSError):  # for example a full disk
            at = os.fsencode(self._base or "")
            write_whole(self._folder / _RECORD_FILE, at, durable=False, draft=str(os.getpid()))

    def _uses_v1(self, of_v2: Collection[str]) -> bool:
        return "memory" in self._v1 and "memory" not in of_v2

    def make(self, service: str, name: str, cpu: int, memory: int, together: int) -> tuple[str, ...]:
        """Creates the groups of an instance and sets its limits. Returns the paths of the groups.

        Returns an empty tuple if no groups can be created. `memory` is in MiB; `together` is the limit in MiB
        for all instances of the service.
        """
        if self._base is None and not self.controllers:
            return ()
        for _ in range(_MAX_ATTEMPTS):
            with suppress(FileNotFoundError):  # the last instance ended, and the service's group was removed
                return self._make(service, name, cpu, memory, together)
        self.prepare()  # the unit for services may have been stopped, and its group removed
        return self._make(service, name, cpu, memory, together)

    def _make(self, service: str, name: str, cpu: int, memory: int, together: int) -> tuple[str, ...]:
        of_service = self._prefix() + service
        if self._base is not None:
            return (self._make_v2(self._base / of_service, name, cpu, memory, together),)
        _make_v1(of_service, self._v1, together)
        parents = {controller: base / of_service for controller, base in self._v1.items()}
        return _make_v1(name, parents, memory, MAX_PROCESSES)

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
            (group / "pids.max").write_text(str(MAX_PROCESSES))
        if "cpu" in self.controllers:
            (group / "cpu.max").write_text(
                f"{max(cpu, 10) * _CPU_PERIOD_MICROSECONDS // 1000} {_CPU_PERIOD_MICROSECONDS}"
            )
        return str(group)

    def memory_of(self, service: str) -> int:
        """Returns the bytes of memory in use by all instances of a service, including ended instances.

        Leaves out the page cache. Returns 0 if the memory is unknown.
        """
        return sum(_memory_use(base / (self._prefix() + service)) for base in self._base_groups())

    def memory_of_steps(self, org: str) -> int:
        """Returns the bytes of memory in use by an organization's build steps, without the page cache."""
        return sum(
            _memory_use(group)
            for base in self._base_groups()
            for group in base.glob(f"{STEPS_PREFIX}*.{org}")
        )

    def tidy(self, find_groups: Callable[[], Collection[str]]) -> None:
        """Removes groups of ended instances, which a killed server may have left behind, here or in other
        installations.

        `find_groups` returns the names of all instances.
        """
        groups = [group for base in self._base_groups() for group in base.glob(f"{self._prefix()}*/*/")]
        # Instances are listed after the groups, so that the group of a new instance is not removed.
        known = find_groups()
        remove(str(group) for group in groups if group.name not in known)
        self._abandoned.remove(self._base_groups(), self._prefix())

    def _base_groups(self) -> Collection[Path]:
        if self._base is not None:
            return (self._base,)
        return [*dict.fromkeys(self._v1.values())] if self.controllers else ()

    def _prefix(self) -> str:
        """Returns a prefix with the engine's folder, as another engine may use the same parent group."""
        return f"{SERVICE_PREFIX}{self._folder.stat().st_ino:x}."


def of_machine(folder: Path) -> Cgroups:
    """Returns the control groups of an engine's instances. `folder` identifies the engine."""
    # The v1 controller "cpu" is left out: there, a whole service would get the weight of a single thread of
    # the server, whatever its priority.
    v1 = {name: at for name, at in find_v1().items() if name != "cpu"}
    own = _own_group()
    return Cgroups(find(), folder, v1, own if own is not None and _is_shared_with_systemd(own) else None)


def of_organization(limit: int) -> int:
    """Returns the limit of an organization, given the limit of one environment.

    It is one and a half times as high, so that one environment leaves a third of it to the others.
    """
    return limit * 3 // 2


class StepGroups:
    """Creates control groups for build steps: one for each environment, inside one for its organization."""

    def __init__(self, folder: Path, memory: int, processes: int, server: int = 0) -> None:
        """Sets the limits of an environment: `memory` in MiB, and the number of `processes`.

        `folder` distinguishes installations, and `server`, a process id, distinguishes servers that share a
        folder. Each object of a process has its own groups. Otherwise one object could remove a group that
        another object has just created and that has no process yet.
        """
        self._folder, self._memory, self._processes = folder, memory, processes
        self._server, self._number = server or os.getpid(), next(_NUMBERS)

    def make(self, org: str, environment: str) -> tuple[str, ...]:
        """Creates the groups of an environment inside the groups of its organization. Returns their paths.

        Returns an empty tuple if this machine does not let Windlass create groups.
        """
        name, inner = (
            f"{self._prefix()}{self._server}.{self._number}.{org}",
            f"{_ENVIRONMENT_PREFIX}{environment}",
        )
        memory, processes = of_organization(self._memory), of_organization(self._processes)
        base = find()
        if base is None or "memory" not in _delegate_controllers(
            base
        ):  # cgroup v1 may have the memory controller
            v1 = find_v1()
            _make_v1(name, v1, memory, processes)
            parents = {controller: at / name for controller, at in v1.items()}
            return _make_v1(inner, parents, self._memory, self._processes)
        whole = _make_v2(base / name, memory, processes)
        for controller in _delegate_controllers(base):
            _write_if_there(whole / "cgroup.subtree_control", f"+{controller}")
        return (str(_make_v2(whole / inner, self._memory, self._processes)),)

    def left(self) -> Iterator[str]:
        """Yields the paths of groups whose server process has ended; other servers may share the folder."""
        if not self._folder.exists():  # no build has run yet
            return
        prefix = self._prefix()
        for base in filter(None, [find(), *find_v1().values()]):
            for group in base.glob(f"{prefix}*"):
                server = group.name.removeprefix(prefix).partition(".")[0]
                if not Path(f"/proc/{server}").exists():
                    yield from map(str, (*group.glob(f"{_ENVIRONMENT_PREFIX}*"), group))

    def _prefix(self) -> str:
        return f"{STEPS_PREFIX}{self._folder.stat().st_ino:x}."


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
            used, parts = int((group / name).read_text()), _read_counters(group / "memory.stat")
            total = "total_" if name.endswith("_in_bytes") else ""
            files = (parts.get(f"{total}{kind}_file", 0) for kind in ("active", "inactive"))
            return max(used - sum(files), 0)
    return 0


def limits_memory(groups: Iterable[str]) -> bool:
    """Returns whether one of these groups has a memory limit."""
    return any(
        _read_limit(Path(group) / name) < _UNLIMITED_BYTES
        for group in groups
        for name in ("memory.max", "memory.limit_in_bytes")
    )


def _read_limit(path: Path) -> int:
    with suppress(OSError, ValueError):  # the file may contain "max"
        return int(path.read_text())
    return _UNLIMITED_BYTES


def memory_kills(groups: Iterable[str]) -> int:
    """Returns how many processes of these groups the kernel's out-of-memory killer has ended."""
    return sum(
        _read_counters(Path(group) / name).get("oom_kill", 0)
        for group in groups
        for name in ("memory.events", "memory.oom_control")
    )


def find_v1(proc: Path = Path("/proc/self")) -> Mapping[str, Path]:
    """Returns this process's groups of cgroup v1, by controller. Leaves out groups that it may not change."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        lines = (line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines())
        inner = {name: path for _, names, path in lines for name in names.split(",")}
        for line in (proc / "mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            for name in _V1_CONTROLLERS & set(options.split(",")) if kind == "cgroup" else ():
                root, top = before.split()[3:5]
                group = Path(os.path.normpath(f"{top}/{inner[name].removeprefix(root)}"))
                if os.access(group / "cgroup.procs", os.W_OK) and os.access(group, os.W_OK):
                    found[name] = group
    return found


def _make_v1(name: str, bases: Mapping[str, Path], memory: int, processes: int = 0) -> tuple[str, ...]:
    """Creates a group below each of `bases`, with a limit of memory in MiB and, if not 0, of processes.

    With the controller "cpu", a group gets the weight of build steps.
    """
    groups = [base / name for base in dict.fromkeys(bases.values())]
    limits = {
        "memory.use_hierarchy": "1",  # always on in newer kernels
        "memory.memsw.limit_in_bytes": "-1",  # must not be below the limit of memory, which is set next
        "memory.limit_in_bytes": str(memory << 20),
        "pids.max": str(processes or "max"),
        "cpu.shares": str(_STEP_WEIGHT * 1024 // 100),
    }
    for group in groups:
        group.mkdir(exist_ok=True)
        for file, value in limits.items():
            if (group / file).exists():
                _write_v1_limit(group / file, value)
        _write_if_there(group / "memory.memsw.limit_in_bytes", str(memory << 20))
        # The kernel accounts for buffers of TCP and UDP separately, and only if this limit is set.
        _write_if_there(group / "memory.kmem.tcp.limit_in_bytes", str(memory << 18))
    return tuple(map(str, groups))


def _write_v1_limit(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as error:
        if error.errno != errno.EBUSY:  # the group uses more already, so its limit does not change
            raise


def enter(groups: Iterable[str], pid: int) -> None:
    for group in groups:
        with suppress(ProcessLookupError):
            (Path(group) / "cgroup.procs").write_text(str(pid))


def find(proc: Path = _PROC) -> Path | None:
    """Returns the group of cgroup v2 below which Windlass may create groups, if there is one."""
    own = _own_group(proc)
    return _services_unit_group(own) if own is not None and _is_shared_with_systemd(own, proc) else own


def _services_unit_group(unit: Path) -> Path | None:
    """Returns the group of the unit for services, if that unit runs."""
    group = services_group(unit)
    return group if group.exists() and _is_delegated(group, str(group)) else None


def _own_group(proc: Path = _PROC) -> Path | None:
    """Returns the group of cgroup v2 that was delegated to this process, if there is one."""
    present = _current_group(proc)
    if present is None:
        return None
    group, inner = present
    if group.name == _OWN_GROUP and _is_delegated(group.parent, "/"):
        return group.parent
    return group if _is_delegated(group, inner) else None


def _current_group(proc: Path) -> tuple[Path, str] | None:
    """Returns the group of cgroup v2 of this process, and its path in the hierarchy."""
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
    return (Path(os.path.normpath(f"{top}/{inner}")), inner) if top is not None and inner else None


def _is_shared_with_systemd(group: Path, proc: Path = _PROC) -> bool:
    """Returns whether systemd starts programs in a group whose controllers Windlass could pass on.

    It does not if it has started this process in a child group (`DelegateSubgroup=windlass`).
    """
    present = _current_group(proc)
    return (
        present is not None
        and present[0] == group
        and is_of_unit(group)
        and bool(_available_controllers(group))
    )


def _available_controllers(group: Path) -> frozenset[str]:
    """Returns the controllers of a group of cgroup v2 that Windlass uses."""
    return _V2_CONTROLLERS & set((group / "cgroup.controllers").read_text().split())


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
    """Kills all processes of the groups, including new ones, if the kernel supports `cgroup.kill`."""
    for group in groups:
        _write_if_there(Path(group) / "cgroup.kill", "1")


def usage_of(groups: Iterable[str]) -> tuple[int, int] | None:
    """Returns milliseconds of processor time and bytes of memory; None if the kernel does not count both."""
    for group in map(Path, groups):
        with suppress(OSError):  # cgroup v1 has no such file
            memory = int((group / "memory.current").read_text())
            usage = _read_counters(group / "cpu.stat").get("usage_usec")
            return None if usage is None else (usage // 1000, memory)
    return None


def remove(groups: Iterable[str]) -> None:
    """Removes groups without processes, and then service groups without children. Other groups stay."""
    for group in map(Path, sorted(groups, key=len, reverse=True)):  # children before their parents
        with suppress(OSError):
            group.rmdir()
        if group.parent.name.startswith(SERVICE_PREFIX):
            with suppress(OSError):
                group.parent.rmdir()


def _is_delegated(group: Path, inner: str) -> bool:
    if not os.access(group / "cgroup.procs", os.W_OK) or not (group / "cgroup.type").exists():
        return False  # only the root group of the machine has no type
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    # Without the attribute: the root of a cgroup namespace, or a group that root has given to our user.
    return inner == "/" or (os.getuid() != 0 and group.stat().st_uid == os.getuid())


def _control_children(group: Path, controllers: Iterable[str]) -> None:
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))


def _delegate_controllers(base: Path) -> frozenset[str]:
    wanted = _available_controllers(base)
    own = base / _OWN_GROUP
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


def _read_counters(path: Path) -> Mapping[str, int]:
    with suppress(OSError):
        lines = (line.split() for line in path.read_text().splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}
    return {}
