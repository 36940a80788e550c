"""Moves a new process into its cell before it executes the program.

A cell with a process namespace has a first process that only reaps orphans. When the engine kills it, the
kernel kills every process in the cell.
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

SLEEP: Final = ("/usr/bin/sleep", "/bin/sleep")
_FILES: Final = 65_536
_FILES_OF_SHARED_USER: Final = 16_384
_LOCKED: Final = 64 << 10
"""Bytes of memory that a process may lock. The page cache of a file belongs to the group that has written or
read it first, which may be that of the server, and the kernel cannot free what is locked."""
_UMASK: Final = 0o022
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_TERMINALS: Final = ("ptmx", "pts")
_NOT_FOUND, _REFUSED = 127, 126
_SHARING: Final = {"sem": "500 32000 256 1024", "msgmni": "32", "msgmnb": "16384"}
"""Limits of System V semaphores (of a set, of all, of a call, and of sets), of queues of messages, and of the
bytes of a queue: 32 MB at most, with what the kernel needs for each message of one byte."""
_GET_USER: Final = 0xB701
_GET_PARENT: Final = 0xB702
"""ioctl requests for the user namespace that owns a namespace, and for the parent of a namespace."""
_NAMES: Final = {
    calls.CLONE_NEWUSER: "user",  # first: entering the others needs its rights
    calls.CLONE_NEWNS: "mnt",
    calls.CLONE_NEWIPC: "ipc",
    calls.CLONE_NEWPID: "pid",
    calls.CLONE_NEWNET: "net",
}
_DATABASE_CAPABILITIES: Final = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID: the launcher of a database needs them to drop root."""

_USELESS_CAPABILITY: Final = 1 << 35
"""WAKE_ALARM, which counts in the first user namespace only."""


def namespaces(cell: Cell) -> int:
    flags = calls.CLONE_NEWUSER if cell["identity"] == "namespace" else 0
    flags |= calls.CLONE_NEWNS | calls.CLONE_NEWIPC if cell["mounts"] else 0
    flags |= calls.CLONE_NEWNET if "network" in cell else 0
    return flags | (calls.CLONE_NEWPID if cell["processes"] else 0)


def enter_groups(groups: Sequence[str]) -> None:
    """Enters control groups."""
    for group in groups:
        with open(f"{group}/cgroup.procs", "w") as members:  # noqa: PTH123 (pathlib takes long to load)
            members.write("0")


def enter(cell: Cell) -> None:
    """Creates the namespaces and mounts of a cell. Only its child processes enter the process namespace."""
    calls.prctl(calls.PR_SET_DUMPABLE, 1)  # otherwise our own files in /proc belong to root
    if "network" in cell:  # first, so that the cell has no rights over it
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
            _limit_sharing(memory)
        mounts.arrange(cell)


def _limit_sharing(memory: int) -> None:
    """Limits the System V memory, semaphores and messages of this cell, which has its own. The kernel keeps
    them for no process. Only root may set these limits; for others, the filter allows less (`confine`)."""
    for name, most in {"shmall": str(memory // resource.getpagesize()), **_SHARING}.items():
        with suppress(OSError), open(f"/proc/sys/kernel/{name}", "w") as limit:  # noqa: PTH123
            limit.write(most)


def join(cell: Cell, process: int) -> None:
    """Enters the namespaces of a process of this cell, given by its pidfd.

    Refuses namespaces that a program of the cell has created: they could show this process anything while it
    still has its rights. To create one, the program had to create a user namespace first, below that of the
    cell, so checking the user namespace is enough.
    """
    flags = namespaces(cell)
    opened = {flag: _namespace(process, name) for flag, name in _NAMES.items() if flags & flag}
    signal.pidfd_send_signal(process, 0)  # it is alive, so the process id is still its own
    ours = os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    theirs = opened.get(calls.CLONE_NEWUSER, ours)
    above = ours if theirs == ours else fcntl.ioctl(theirs, _GET_PARENT)
    of_networks = above if _has_nested_network(cell) else None
    top = above if of_networks is None else fcntl.ioctl(of_networks, _GET_PARENT)
    expected = {flag: theirs for flag, file in opened.items() if file != theirs}
    if of_networks is not None:
        expected[calls.CLONE_NEWNET] = of_networks
    owners = {flag: fcntl.ioctl(opened[flag], _GET_USER) for flag in expected}
    if not _same(top, ours) or not all(_same(owners[flag], expected[flag]) for flag in expected):
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
    """Returns whether its network belongs to the user namespace above its own."""
    return "network" in cell and bool(NamespaceHolder.read(cell["network"]["outer"]).socket_server)


def _namespace(process: int, name: str) -> int:
    with open(f"/proc/self/fdinfo/{process}") as facts:  # noqa: PTH123 (a descriptor)
        pid = next(line.split()[1] for line in facts if line.startswith("Pid:"))
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _same(first: int, other: int) -> bool:
    return os.path.samestat(os.fstat(first), os.fstat(other))


def make_first(cell: Cell) -> None:
    """Makes this process the first one of a cell, without more privileges than its programs, because a
    program could control it by ptrace."""
    mount_own_proc()
    _randomize_process_ids()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans itself
    confine(cell)
    os.chdir("/")


def sleep(environment: Mapping[str, str]) -> NoReturn:
    """Sleeps until it is killed. `environment` holds the marks by which the engine recognizes the process."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(null, number)
    program = next(path for path in SLEEP if os.path.exists(path))  # noqa: PTH110
    os.execve(program, ["sleep", "infinity"], dict(environment))  # noqa: S606


def mount_own_proc() -> None:
    """Mounts a /proc that shows only the processes of the cell. Called in its first process."""
    calls.mount("proc", "/proc", calls.MS_NOSUID | calls.MS_NODEV | calls.MS_NOEXEC)


def _randomize_process_ids() -> None:
    """Starts process ids at a random number. Otherwise a program that finds its own id in an old pid file
    takes itself for running already. Does nothing if the kernel refuses."""
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
    """Gives up all rights of this process for good, and sets its limits. `leads`: it starts a new session.
    `guarded`: see `drop_privileges`."""
    if leads:
        os.setsid()
    os.umask(_UMASK)
    _limit(cell)
    calls.new_keyring()
    rules = _rules(cell) if cell and cell["landlock"] else None
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
    if cell and cell.get("families"):
        # With the rights of root: programs can use up what others have for filters (net.core.bpf_jit_limit).
        socket_filter.restrict(has_limits=cell["identity"] == "user", sees_others=not cell["processes"])
    if cell:
        drop_privileges(cell, guarded=guarded)
    if rules is not None:
        landlock.restrict(rules)
        os.close(rules)


def execute_program(command: Sequence[str], folder: str, environment: Mapping[str, str]) -> OSError:
    """Replaces this process by the program; returns only an error."""
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
    """Changes to the user of the cell and drops all capabilities. Root, where services have no users, keeps
    those that the launcher of a database needs to change its user.

    `guarded`: no program of the cell may trace this process. Where both have the same user, it keeps a
    capability that is of no use in a user namespace: the kernel lets no process trace one that has more."""
    kept = _DATABASE_CAPABILITIES if cell["identity"] == "none" and not os.geteuid() else 0
    calls.bound_capabilities(kept)
    if cell["identity"] == "user":
        os.setgroups([])
        os.setresgid(cell["uid"], cell["uid"], cell["uid"])
        os.setresuid(cell["uid"], cell["uid"], cell["uid"])
    guards = guarded and cell["identity"] == "namespace"
    calls.keep_capabilities(_USELESS_CAPABILITY if guards else kept)


def _limit(cell: Cell | None) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
    if cell is None or cell["identity"] != "user":
        # The kernel counts the descriptors that a user has in flight in sockets, and refuses a sender if the
        # count is above the limit of the sender. The server and the gateway have a larger limit, so they can
        # always send.
        files = min(files // 2, _FILES_OF_SHARED_USER)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if cell:
        _at_most(resource.RLIMIT_MEMLOCK, _LOCKED)
        _at_most(resource.RLIMIT_NPROC, cell["most_processes"])
        _at_most(resource.RLIMIT_DATA, cell.get("most_memory", 0))
        _at_most(resource.RLIMIT_FSIZE, cell.get("largest_file", 0))
        _at_most(resource.RLIMIT_RTTIME, cell.get("mark", 0))


def _at_most(what: int, number: int) -> None:
    if number:
        _, most = resource.getrlimit(what)
        number = number if most == resource.RLIM_INFINITY else min(most, number)
        resource.setrlimit(what, (number, number))


def _rules(cell: Cell) -> int:
    version = cell["landlock"]
    rules = landlock.ruleset(version, signals=not cell["processes"], ports=cell.get("refuses_ports", False))
    everything = landlock.handled_rights(version)
    for path, rights in _allowed_rights(cell, everything):
        landlock.allow(rules, version, path, rights)
    return rules


def _allowed_rights(cell: Cell, everything: int) -> list[tuple[str, int]]:
    """Returns the allowed rights by path; the rest of the file system is refused."""
    private = (*mounts.PRIVATE, mounts.SHARED_MEMORY, mounts.QUEUES)
    allowed = [(path, everything) for path in (*cell["writable"], cell["temporary"])]
    allowed += [(f"/dev/{name}", landlock.DEVICE) for name in _DEVICES]
    # Elsewhere, the terminals are those of the machine, and the operator may be of the same user.
    if cell["mounts"] or cell["identity"] == "user":
        allowed += [(f"/dev/{name}", landlock.DEVICE) for name in _TERMINALS]
    if cell["mounts"]:  # nothing else is visible below the root of the cell
        allowed += [("/", landlock.READ), *((path, everything) for path in private)]
    else:
        tops = ("/",) if mounts.sees_machine(cell) else mounts.SYSTEM
        others = landlock.paths_without_hidden((*mounts.hidden_paths(cell), *private, "/dev"), tops)
        allowed += [(path, landlock.READ) for path in (*others, *mounts.readable(cell))]
        allowed.append(("/dev", landlock.READ_DIR))
    # Root may write what its user id owns, even without a right. Without processes of its own, a cell sees
    # those of others of its user there, and could write their oom_score_adj.
    if cell["processes"] and (cell["identity"] != "none" or os.geteuid()):
        allowed.append(("/proc", landlock.WRITE_FILE))
    return allowed
