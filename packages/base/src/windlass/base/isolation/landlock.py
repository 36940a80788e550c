"""Restricts access to files with Landlock, even for root. See landlock(7)."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from windlass.base.isolation import calls

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NET_PORT: Final = 2
_BIND_TCP: Final = 1
_NETWORKS_SINCE: Final = 4

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15
_FILE_RIGHTS: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

READ: Final = EXECUTE | READ_FILE | READ_DIR
DEVICE: Final = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV | READ_DIR

_SCOPE_ABSTRACT_SOCKETS: Final = 1
_SCOPE_SIGNALS: Final = 2
SCOPES_SINCE: Final = 6


class _Rule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """Returns the version of the kernel's Landlock interface; 0 without Landlock."""
    return max(calls.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION)), 0)


def handled_rights(version: int) -> int:
    """Returns the mask of all access rights that this version can refuse."""
    number = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    return (1 << number) - 1


def ruleset(version: int, *, signals: bool, ports: bool = False) -> int:
    """Creates a rule set, which refuses everything that no rule allows. Returns its descriptor.

    `signals`: whether it refuses signals to processes outside. `ports`: whether it refuses to listen on TCP
    ports, except ports that the kernel chooses.
    """
    refuses_ports = ports and version >= _NETWORKS_SINCE
    scopes = _SCOPE_ABSTRACT_SOCKETS | (_SCOPE_SIGNALS if signals else 0)
    words = (ctypes.c_uint64 * 3)(
        handled_rights(version),
        _BIND_TCP if refuses_ports else 0,
        scopes if version >= SCOPES_SINCE else 0,
    )
    size = 8 if version < _NETWORKS_SINCE else 16 if version < SCOPES_SINCE else 24
    descriptor = calls.syscall(_CREATE, words, ctypes.c_size_t(size), ctypes.c_uint(0))
    if descriptor < 0:
        calls.raise_failure("landlock_create_ruleset")
    if refuses_ports:
        chosen_by_kernel = (ctypes.c_uint64 * 2)(_BIND_TCP, 0)
        if calls.syscall(_ADD, descriptor, _NET_PORT, chosen_by_kernel, ctypes.c_uint(0)):
            calls.raise_failure("landlock_add_rule")
    return descriptor


def allow(ruleset: int, version: int, path: str, rights: int) -> None:
    """Allows rights below a path. Ignores a missing path."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        rights &= handled_rights(version)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        rule = _Rule(rights, descriptor)
        if calls.syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint(0)):
            calls.raise_failure("landlock_add_rule")
    finally:
        os.close(descriptor)


def restrict(ruleset: int) -> None:
    """Restricts this process and its future children. Requires no_new_privs."""
    if calls.syscall(_RESTRICT, ruleset, ctypes.c_uint(0)):
        calls.raise_failure("landlock_restrict_self")


def paths_without_hidden(hidden_paths: Iterable[str], paths: Iterable[str]) -> Iterator[str]:
    """Yields paths that together cover everything below `paths` except `hidden_paths`, as rules can only
    allow."""
    hidden_paths = list(hidden_paths)
    for path in paths:
        if path in hidden_paths or os.path.islink(path):  # noqa: PTH114
            continue
        below = path.rstrip("/") + "/"
        if any(folder.startswith(below) for folder in hidden_paths):
            try:
                names = os.listdir(path)  # noqa: PTH208 (names, not paths)
            except PermissionError:
                continue
            yield from paths_without_hidden(hidden_paths, [below + name for name in names])
        else:
            yield path
