"""Moves a new process into its cell before it executes the program.

The first process of a cell with a pid namespace only reaps orphans. When the engine kills this process, the
kernel kills all processes of the cell.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from windlass.base.isolation import calls, landlock, mounts, network, socket_filter, user_limits
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.network import NamespaceHolder

SLEEP_PROGRAMS: Final = ("/usr/bin/sleep", "/bin/sleep")
_MAX_FILES: Final = 65_536
_FILES_OF_SHARED_USER: Final = 16_384
_MAX_LOCKED_BYTES: Final = 64 << 10
"""The bytes of memory that a process may lock. The kernel charges the page cache of a file to the control
group that accessed the file first, which may be the server's, and cannot free locked pages."""
_UMASK: Final = 0o022
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_TERMINALS: Final = ("ptmx", "pts")
_NOT_FOUND, _REFUSED = 127, 126
_SYSV_LIMITS: Final = {"sem": "500 32000 256 1024", "msgmni": "32", "msgmnb": "16384"}
"""The limits of System V semaphores (per set, in total, per call, and sets), of message queues, and of bytes
in a queue. The queues use 32 MB at most, including the kernel's overhead for each message of one byte."""
_GET_USER: Final = 0xB701
_GET_PARENT: Final = 0xB702
"""The ioctl requests for the user namespace that owns a namespace, and for the parent of a namespace."""
_NAMESPACE_NAMES: Final = {
    calls.CLONE_NEWUSER: "user",  # first, because its rights are needed to enter the others
    calls.CLONE_NEWNS: "mnt",
    calls.CLONE_NEWIPC: "ipc",
    calls.CLONE_NEWPID: "pid",
    calls.CLONE_NEWNET: "net",
}
_DATABASE_CAPABILITIES: Final = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7
"""The capabilities CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID and SETUID, with which the launcher of a
database drops root."""

_USELESS_CAPABILITY: Final = 1 << 35
"""The capability WAKE_ALARM, which has no effect except in the initial user namespace."""


def namespaces(cell: Cell) -> int:
    flags = calls.CLONE_NEWUSER if cell["identity"] == "namespace" else 0
    flags |= calls.CLONE_NEWNS | calls.CLONE_NEWIPC if cell["mounts"] else 0
    flags |= calls.CLONE_NEWNET if "network" in cell else 0
    return flags | (calls.CLONE_NEWPID if cell["processes"] else 0)


def enter_groups(groups: Sequence[str]) -> None:
    """Moves this process into control groups."""
    for group in groups:
        with open(f"{group}/cgroup.procs", "w") as members:  # noqa: PTH123 (pathlib takes long to load)
            members.write("0")


def enter(cell: Cell) -> None:
    """Creates the namespaces and mounts of a cell. Only child processes will be in the pid namespace."""
    calls.prctl(calls.PR_SET_DUMPABLE, 1)  # otherwise this process's files in /proc belong to root
    if "network" in cell:  # before the user namespace, so that the cell has no rights over the network
        network.enter(cell["network"])
    outside = os.geteuid(), os.getegid()
    if cell["identity"] == "namespace":
        user_limits.reserve_processes()
    calls.unshare(namespaces(cell) & ~calls.CLONE_NEWNET)
    if cell["identity"] == "namespace":
        calls.map_user(cell["inner"], *outside)
        user_limits.limit_namespace()
    if cell["mounts"]:
        if memory := cell.get("shared_memory", 0):
            _limit_sysv_ipc(memory)
        mounts.arrange(cell)


def _limit_sysv_ipc(memory: int) -> None:
    """Limits the System V memory, semaphores and messages of the cell, which belong to no process.

    Only root may set these limits. For other users, the socket filter restricts these calls (`confine`).
    """
    for name, most in {"shmall": str(memory // resource.getpagesize()), **_SYSV_LIMITS}.items():
        with suppress(OSError), open(f"/proc/sys/kernel/{name}", "w") as limit:  # noqa: PTH123
            limit.write(most)


def join(cell: Cell, process: int) -> None:
    """Enters the namespaces of a process of this cell, given by its pidfd.

    Refuses namespaces that a program of the cell has created, because they could deceive this process while
    it still has privileges. A program can create namespaces only in a new user namespace below the cell's,
    so it is enough to check the user namespaces.
    """
    flags = namespaces(cell)
    opened = {flag: _open_namespace(process, name) for flag, name in _NAMESPACE_NAMES.items() if flags & flag}
    signal.pidfd_send_signal(process, 0)  # raises if the process has ended and its pid may be reused
    ours = os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    theirs = opened.get(calls.CLONE_NEWUSER, ours)
    above = ours if theirs == ours else fcntl.ioctl(theirs, _GET_PARENT)
    of_networks = above if _has_nested_network(cell) else None
    top = above if of_networks is None else fcntl.ioctl(of_networks, _GET_PARENT)
    expected = {flag: theirs for flag, file in opened.items() if file != theirs}
    if of_networks is not None:
        expected[calls.CLONE_NEWNET] = of_networks
    owners = {flag: fcntl.ioctl(opened[flag], _GET_USER) for flag in expected}
    if not _is_same_namespace(top, ours) or not all(
        _is_same_namespace(owners[flag], expected[flag]) for flag in expected
    ):
        raise OSError("the program has entered namespaces that it created itself")
    if of_networks is not None:
        calls.join(of_networks, calls.CLONE_NEWUSER)
        calls.join(opened[calls.CLONE_NEWNET], calls.CLONE_NEWNET)
        os.close(opened.pop(calls.CLONE_NEWNET))
    for flag, file in opened.items():
        calls.join(file, flag)
    for file in {*opened.values(), *owners.values(), top, above, ours}:
        os.close(file)


def _has_nested_network(cell: Cell) -> bool:
    """Returns whether the cell's network belongs to the parent of its user namespace."""
    return "network" in cell and bool(NamespaceHolder.read(cell["network"]["outer"]).socket_server)


def _open_namespace(process: int, name: str) -> int:
    with open(f"/proc/self/fdinfo/{process}") as facts:  # noqa: PTH123 (a descriptor)
        pid = next(line.split()[1] for line in facts if line.startswith("Pid:"))
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _is_same_namespace(first: int, other: int) -> bool:
    return os.path.samestat(os.fstat(first), os.fstat(other))


def make_first(cell: Cell) -> None:
    """Makes this process the first process of a cell. It gets no more privileges than the cell's programs,
    because a program could control it with ptrace."""
    mount_own_proc()
    _randomize_process_ids()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans itself
    confine(cell)
    os.chdir("/")


def sleep(environment: Mapping[str, str]) -> NoReturn:
    """Sleeps until it is killed. The engine recognizes the process by variables in `environment`."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(null, number)
    program = next(path for path in SLEEP_PROGRAMS if os.path.exists(path))  # noqa: PTH110
    os.execve(program, ["sleep", "infinity"], dict(environment))  # noqa: S606


def mount_own_proc() -> None:
    """Mounts a /proc that shows only the cell's processes. Called in the cell's first process."""
    calls.mount("proc", "/proc", calls.MS_NOSUID | calls.MS_NODEV | calls.MS_NOEXEC)


def _randomize_process_ids() -> None:
    """Starts pids at a random number. Does nothing if the kernel refuses.

    Otherwise a program that finds its own pid in an old pid file would conclude that it is running already.
    """
    try:
        file = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(file, str(int.from_bytes(os.urandom(2), "big") % 30_000 + 100).encode())
    except OSError:
        pass
    finally:
        os.close(file)


def confine(cell: Cell | None, *, leads: bool = True, guarded: bool = False) -> None:
    """Gives up all privileges of this process permanently, and sets its limits.

    `leads`: whether it starts a new session. `guarded`: see `drop_privileges`.
    """
    if leads:
        os.setsid()
    os.umask(_UMASK)
    _set_limits(cell)
    calls.new_keyring()
    rules = _landlock_rules(cell) if cell and cell["landlock"] else None
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
    if cell and cell.get("families"):
        # Installed as root, because programs can exhaust the memory for filters of users
        # (net.core.bpf_jit_limit).
        socket_filter.restrict(has_limits=cell["identity"] == "user", sees_others=not cell["processes"])
    if cell:
        drop_privileges(cell, guarded=guarded)
    if rules is not None:
        landlock.restrict(rules)
        os.close(rules)


def execute_program(command: Sequence[str], folder: str, environment: Mapping[str, str]) -> OSError:
    """Replaces this process by the program. Returns only if this fails."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.chdir(folder)
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            return error
    try:  # a script without a shebang line is run by sh, as shells do
        os.execve("/bin/sh", ["sh", *command], dict(environment))  # noqa: S606
    except OSError as error:
        return error


def give_up(command: Sequence[str], error: OSError) -> NoReturn:
    os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(_NOT_FOUND if error.errno == errno.ENOENT else _REFUSED)


def drop_privileges(cell: Cell, *, guarded: bool = False) -> None:
    """Changes to the cell's user and drops all capabilities. If services have no users, root keeps the
    capabilities with which the launcher of a database changes its user.

    `guarded`: prevents the cell's programs from tracing this process. If both have the same user, the process
    keeps a capability without effect, because the kernel forbids tracing a process with more capabilities.
    """
    kept = _DATABASE_CAPABILITIES if cell["identity"] == "none" and not os.geteuid() else 0
    calls.bound_capabilities(kept)
    if cell["identity"] == "user":
        os.setgroups([])
        os.setresgid(cell["uid"], cell["uid"], cell["uid"])
        os.setresuid(cell["uid"], cell["uid"], cell["uid"])
    guards = guarded and cell["identity"] == "namespace"
    calls.keep_capabilities(_USELESS_CAPABILITY if guards else kept)


def _set_limits(cell: Cell | None) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MAX_FILES if most == resource.RLIM_INFINITY else min(most, _MAX_FILES)
    if cell is None or cell["identity"] != "user":
        # The kernel counts the descriptors that a user has sent and not received yet, and refuses a sender
        # whose limit is below the count. The server and the gateway can always send: their limit is larger.
        files = min(files // 2, _FILES_OF_SHARED_USER)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if cell:
        _set_limit(resource.RLIMIT_MEMLOCK, _MAX_LOCKED_BYTES)
        _set_limit(resource.RLIMIT_NPROC, cell["most_processes"])
        _set_limit(resource.RLIMIT_DATA, cell.get("most_memory", 0))
        _set_limit(resource.RLIMIT_FSIZE, cell.get("largest_file", 0))
        _set_limit(resource.RLIMIT_RTTIME, cell.get("mark", 0))


def _set_limit(what: int, number: int) -> None:
    if number:
        _, most = resource.getrlimit(what)
        number = number if most == resource.RLIM_INFINITY else min(most, number)
        resource.setrlimit(what, (number, number))


def _landlock_rules(cell: Cell) -> int:
    version = cell["landlock"]
    rules = landlock.ruleset(version, signals=not cell["processes"], ports=cell.get("refuses_ports", False))
    everything = landlock.handled_rights(version)
    for path, rights in _allowed_rights(cell, everything):
        landlock.allow(rules, version, path, rights)
    return rules


def _allowed_rights(cell: Cell, everything: int) -> list[tuple[str, int]]:
    """Returns the allowed Landlock rights by path. All other access to files is refused."""
    private = (*mounts.PRIVATE_FOLDERS, mounts.SHARED_MEMORY, mounts.MESSAGE_QUEUES)
    allowed = [(path, everything) for path in (*cell["writable"], cell["temporary"])]
    allowed += [(f"/dev/{name}", landlock.DEVICE) for name in _DEVICES]
    # Otherwise, the terminals belong to the machine, and the operator may have the same user id.
    if cell["mounts"] or cell["identity"] == "user":
        allowed += [(f"/dev/{name}", landlock.DEVICE) for name in _TERMINALS]
    if cell["mounts"]:  # the cell's root contains only visible files
        allowed += [("/", landlock.READ), *((path, everything) for path in private)]
    else:
        tops = ("/",) if mounts.sees_machine(cell) else mounts.SYSTEM_FOLDERS
        others = landlock.paths_without_hidden((*mounts.hidden_paths(cell), *private, "/dev"), tops)
        allowed += [(path, landlock.READ) for path in (*others, *mounts.readable(cell))]
        allowed.append(("/dev", landlock.READ_DIR))
    # Root may write files of its user id, even without capabilities. A cell that sees other processes of its
    # user could write their oom_score_adj in /proc.
    if cell["processes"] and (cell["identity"] != "none" or os.geteuid()):
        allowed.append(("/proc", landlock.WRITE_FILE))
    return allowed
