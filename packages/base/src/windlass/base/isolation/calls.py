"""Provides the system calls for isolation that Python lacks."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

CLONE_PARENT: Final = 0x00008000
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_READ: Final = 23
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4

MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_PRIVATE: Final = 1 << 18

MOUNT_ATTR_RDONLY: Final = 1
MOUNT_ATTR_NOSUID: Final = 2
MOUNT_ATTR_NODEV: Final = 4

_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_MNT_DETACH: Final = 2
_KEYCTL_JOIN_SESSION_KEYRING: Final = 1
_CAPABILITY_VERSION: Final = 0x20080522

# The numbers of older system calls differ between architectures; newer calls have the same number everywhere.
_SYSCALL_NUMBERS: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {"clone": 56, "keyctl": 250, "pivot_root": 155, "seccomp": 317},
    "aarch64": {"clone": 220, "keyctl": 219, "pivot_root": 41, "seccomp": 277},
    "riscv64": {"clone": 220, "keyctl": 219, "pivot_root": 41, "seccomp": 277},
}
_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442

libc: Final = ctypes.CDLL(None, use_errno=True)
# PyDLL does not release the interpreter lock, so no other Python code runs while this process is forked.
_libc_with_gil: Final = ctypes.PyDLL(None, use_errno=True)


def known_machine() -> bool:
    return os.uname().machine in _SYSCALL_NUMBERS


def raise_failure(call_name: str) -> NoReturn:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), call_name)


def syscall(number: int, *words: object) -> int:
    return int(libc.syscall(ctypes.c_long(number), *words))


def fork_sibling() -> int:
    """Forks a process as a child of this process's parent, so that only the parent can wait for it."""
    flags = ctypes.c_long(CLONE_PARENT | signal.SIGCHLD)
    none = ctypes.c_long(0)
    pid = _libc_with_gil.syscall(ctypes.c_long(number("clone")), flags, none, none, none, none)
    if pid < 0:
        raise_failure("clone")
    return int(pid)


def run_to_exit(work: Callable[[], None], report: Callable[[BaseException], object], status: int) -> NoReturn:
    """Runs the work of a forked process and exits, so that it never returns to the code of its parent."""
    try:
        work()
    except BaseException as error:  # noqa: BLE001 (the process ends, so every failure is reported)
        report(error)
    finally:
        os._exit(status)


def unshare(flags: int) -> None:
    if flags and libc.unshare(flags):
        raise_failure("unshare")


def map_user(inner: int, uid: int, gid: int) -> None:
    """Maps the user of this process (`uid` and `gid` outside) to `inner` in its new user namespace."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inner} {uid} 1"),
        ("gid_map", f"{inner} {gid} 1"),
    ):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)


def join(namespace: int, kind: int) -> None:
    """Enters a namespace, given by a descriptor."""
    if libc.setns(namespace, kind):
        raise_failure("setns")


def prctl(option: int, value: int) -> None:
    if libc.prctl(option, value, 0, 0, 0):
        raise_failure("prctl")


def new_keyring() -> None:
    """Joins a new session keyring without the parent's keys. Does nothing if the kernel has no keyrings, as
    in most containers."""
    syscall(number("keyctl"), ctypes.c_long(_KEYCTL_JOIN_SESSION_KEYRING), None)


def bound_capabilities(capabilities: int = 0) -> None:
    """Drops all capabilities except the mask `capabilities` from the bounding set, so that none can be
    regained."""
    number = 0
    while libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0:
        if not capabilities >> number & 1:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
        number += 1


def keep_capabilities(capabilities: int = 0) -> None:
    """Drops capabilities, except those in the mask `capabilities`. Called after the user was changed."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    low, high = capabilities & 0xFFFFFFFF, capabilities >> 32
    if libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)):
        raise_failure("capset")


# Mounts


def mount(kind: str, target: str, flags: int, options: str = "") -> None:
    if libc.mount(kind.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode()):
        raise_failure(f"mount of {kind}")


def mount_path(line: bytes) -> bytes:
    """Returns the mount point in a line of /proc/PID/mountinfo as bytes, without the kernel's escapes."""
    return line.split(b" ", 5)[4].decode("unicode_escape").encode("latin-1")


def mount_copy(path: str) -> int:
    """Returns a descriptor of a detached copy of the mount at `path`."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    descriptor = syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), ctypes.c_uint(flags))
    if descriptor < 0:
        raise_failure("open_tree")
    return descriptor


def mount_at(descriptor: int, path: str) -> None:
    flags = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
    if syscall(_MOVE_MOUNT, descriptor, b"", _AT_FDCWD, os.fsencode(path), flags):
        raise_failure("move_mount")


def move_root(path: str) -> None:
    """Makes a mount the root of this process and detaches the former root. The mounts must be private."""
    os.chdir(path)
    if syscall(number("pivot_root"), b".", b"."):
        raise_failure("pivot_root")
    if libc.umount2(b".", _MNT_DETACH):  # the former root, which is mounted over the new root now
        raise_failure("umount of the former root")
    os.chdir("/")


def set_attributes(
    mount: int | str, attributes: int, *, private: bool = False, is_recursive: bool = True
) -> None:
    """Sets the attributes of a mount and, with `is_recursive`, of all mounts below it."""
    attr = (ctypes.c_uint64 * 4)(attributes, 0, MS_PRIVATE if private else 0, 0)
    at, path = (mount, b"") if isinstance(mount, int) else (_AT_FDCWD, os.fsencode(mount))
    flags = (_AT_RECURSIVE if is_recursive else 0) | (_AT_EMPTY_PATH if isinstance(mount, int) else 0)
    size = ctypes.c_size_t(ctypes.sizeof(attr))
    if syscall(_MOUNT_SETATTR, at, path, ctypes.c_uint(flags), attr, size):
        raise_failure("mount_setattr")


def number(name: str) -> int:
    """Returns the number of a system call on this architecture."""
    return _SYSCALL_NUMBERS[os.uname().machine][name]
