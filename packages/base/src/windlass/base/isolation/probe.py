"""Tries each isolation feature in a separate program, to find the features that this machine supports."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from typing import Final, NotRequired, TypedDict

from windlass.base.isolation import calls, cell_entry, landlock, network, socket_filter
from windlass.base.isolation.cell import Cell, Identity
from windlass.base.isolation.pasta import try_pasta

# Capabilities that root needs to give each service its own user and to manage its files.
_NEEDED_CAPABILITIES: Final = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
    "SYS_PTRACE": 19, "SYS_ADMIN": 21,
}  # fmt: skip


class Findings(TypedDict):
    identity: Identity
    mounts: bool
    processes: bool
    landlock: int
    socket_filter: bool
    network: bool
    egress: NotRequired[str]
    """Why networks cannot reach public addresses; missing or empty if they can."""
    why: dict[str, str]
    """The missing isolation features, each with the reason."""


def main(uid: int, last_uid: str) -> None:
    sys.stdout.write(json.dumps(try_all(uid, int(last_uid))))


def try_all(uid: int, last_uid: int) -> Findings:
    """Tries all isolation features. `uid` and `last_uid`: the range of service users."""
    why: dict[str, str] = {}
    version = landlock.version() if calls.known_machine() else 0
    if not version:
        why["landlock"] = "this kernel has no Landlock, or it is not enabled (lsm=landlock)"
    identity: Identity = "none"
    if not calls.known_machine():
        why["identity"] = f"not supported on this processor architecture ({os.uname().machine})"
    elif not os.geteuid() and not (
        why_not := _why_no_users(uid, last_uid)
        or _why_no_cell(_probe_cell("user", uid, version, mounts=True))
    ):
        identity = "user"
    elif why_there := _why_no_cell(_probe_cell("namespace", uid, version)):
        why["identity"] = why_there if os.geteuid() else f"{why_not}; and no user namespace: {why_there}"
    else:
        identity = "namespace"
    mounts = processes = False
    if identity == "none":
        why["mounts"] = why["processes"] = "needs a user of its own, or a user namespace"
    elif failure := _why_no_cell(_probe_cell(identity, uid, version, mounts=True)):
        why["mounts"], why["processes"] = failure, "needs a file system of its own"
    else:
        mounts = True
        failure = _why_no_cell(_probe_cell(identity, uid, version, mounts=True, processes=True))
        processes = not failure
        if failure:
            why["processes"] = failure
    if not processes:
        why["network"] = "needs a view of processes of its own"
    elif failure := network.try_all(as_root=identity == "user"):
        why["network"] = failure
    if not calls.known_machine():
        why["socket_filter"] = why["identity"]
    elif failure := _why_fails(_try_socket_filter):
        why["socket_filter"] = failure
    has_egress = identity == "user" or "network" in why
    return Findings(
        identity=identity,
        mounts=mounts,
        processes=processes,
        landlock=version,
        socket_filter="socket_filter" not in why,
        network="network" not in why,
        egress="" if has_egress else try_pasta(),
        why=why,
    )


def _why_no_users(first_uid: int, last_uid: int) -> str:
    """Returns why root cannot give services their own users; empty if it can."""
    status = dict(line.split(":", 1) for line in _read("/proc/self/status").splitlines() if ":" in line)
    has = int(status["CapEff"], 16)
    if missing := [name for name, number in _NEEDED_CAPABILITIES.items() if not has >> number & 1]:
        return f"root lacks the capabilities {', '.join(missing)}"
    for name in ("uid_map", "gid_map"):
        ranges = [[int(word) for word in line.split()] for line in _read(f"/proc/self/{name}").splitlines()]
        for uid in (first_uid, last_uid):
            if not any(start <= uid < start + count for start, _, count in ranges):
                return (
                    f"the user {uid} does not exist in this container: set isolation_users to a range that "
                    "does"
                )
    return ""


def _probe_cell(
    identity: Identity, uid: int, version: int, *, mounts: bool = False, processes: bool = False
) -> Cell:
    return Cell(
        identity=identity,
        uid=uid,
        inner=os.geteuid() or 65_534,
        name="windlass-probe" if identity == "user" else "",
        mounts=mounts,
        processes=processes,
        landlock=version,
        readable=[],
        writable=[],
        temporary="/tmp",  # noqa: S108 (it writes nothing)
        hidden=[],
        most_processes=0,
        most_memory=0,
        largest_file=0,
    )


def _why_no_cell(cell: Cell) -> str:
    """Returns why a cell like this cannot be created; empty if it can."""
    return _why_fails(lambda: _try_cell(cell))


def _try_socket_filter() -> None:
    """Raises an error if the kernel does not support seccomp filters.

    Succeeds if the kernel has no memory left for another filter (net.core.bpf_jit_limit). In that case, the
    start of a service fails, and no service runs without its filter.
    """
    if not socket_filter.is_offered():
        calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
        socket_filter.restrict()


def _why_fails(work: Callable[[], None]) -> str:
    """Runs `work` in a child process. Returns the error; empty if it succeeds."""
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        calls.run_to_exit(work, lambda error: os.write(tell, _describe(error).encode()), 0)
    os.close(tell)
    with open(hear) as pipe:  # noqa: PTH123 (a descriptor)
        failure = pipe.read()
    os.waitpid(child, 0)
    return failure


def _describe(error: BaseException) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.filename == "unshare":
        match error.errno:
            case errno.ENOSPC:
                return "user.max_user_namespaces allows no more"
            case errno.EPERM | errno.EACCES:
                return "the system refuses a new namespace"
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _try_cell(cell: Cell) -> None:
    cell_entry.enter(cell)
    if cell["processes"]:
        if not any(map(os.path.exists, cell_entry.SLEEP_PROGRAMS)):
            raise FileNotFoundError("the program `sleep` is not installed")
        child = os.fork()
        if not child:
            try:
                cell_entry.mount_own_proc()
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise PermissionError("no /proc of its own can be mounted")
    cell_entry.confine(cell)


def _read(path: str) -> str:
    with open(path) as file:  # noqa: PTH123
        return file.read()
