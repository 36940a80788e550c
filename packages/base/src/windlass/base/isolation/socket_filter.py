"""A seccomp filter that refuses sockets of address families that network namespaces do not separate, such as
AF_VSOCK and AF_ALG, new namespaces and mounts, leases, and open files that the server does not see.

AF_VSOCK reaches the machine's hypervisor and every AF_VSOCK listener on the machine from any network. The
kernel runs the filter for each system call of the program. The filter also refuses io_uring, which opens
sockets that no filter sees, keyrings, because the kernel allows few keys for each user, and `memfd_secret`,
whose memory nothing counts. They fail with ENOSYS, as on a kernel without them.

In its own namespaces, a program could fill what the kernel counts for no user: the table of neighbours of
all networks, System V memory, file systems in memory. Containers refuse namespaces, too. `clone3` passes
its flags through memory, where no filter sees them: it fails with ENOSYS, and programs take `clone`.

It refuses leases of files, too: a program that writes to a leased file waits up to 45 seconds for its
holder, and the server writes files that services see.

A process has one table of open files, which the server reads in /proc to count files and memory. The
filter refuses calls that give a thread its own table. It refuses `vmsplice` and SO_ZEROCOPY, by which 4
KiB in a pipe or a socket keep 2 MiB of memory.

Where the limits of System V semaphores, messages and memory cannot be set (cell_entry.py), it allows small
sets and segments only, and no messages: the kernel allows so many that they hold gigabytes of no process.

It lets no program change its limit of time for real-time programs, by which the engine knows it (marks.py).
Where process numbers are those of the machine, it lets a program change limits, priorities, schedulers and
processors only of itself (number 0, not its own number, which a filter cannot know), and nothing of a user.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from windlass.base.isolation import calls

_ALLOWED: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET)
"""The allowed families: their sockets belong to a network namespace or to a file."""
_IO_URING: Final = 425
_MEMFD_SECRET: Final = 447
_NEW_MOUNTING: Final = (428, 429, 430, 431, 432, 433, 442, 467)
"""The newer calls that mount, from `open_tree` to `mount_setattr`, have the same numbers everywhere."""
_CLONE3: Final = 435
_CLOSE_RANGE: Final = 436
_NAMESPACES: Final = 0x7E020000
"""The flags of new namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_TIME_NAMESPACE: Final = 0x80
"""A flag of `unshare` alone."""
_FILES: Final = 0x400
"""CLONE_FILES: `unshare` makes a table of open files of its own, `clone` shares that of the caller."""
_THREAD: Final = 0x10000
"""CLONE_THREAD: the new task is a thread of the caller's process."""
_OWN_FILES: Final = 2
"""CLOSE_RANGE_UNSHARE, a flag of `close_range`."""
_ZERO_COPY: Final = (1, 60)
"""SOL_SOCKET and SO_ZEROCOPY, the level and the option of `setsockopt`."""
_LEASE: Final = 1024
"""F_SETLEASE, a command of `fcntl`."""
_NUMBER, _ARCHITECTURE, _FIRST_WORD, _SECOND_WORD, _THIRD_WORD = 0, 4, 16, 24, 32
"""Offsets in `struct seccomp_data` of the system call's number, architecture and first three arguments."""
_HIGHER: Final = 4
"""Offset of the higher half of an argument."""
_LARGEST_SET: Final = 32
"""The maximum number of semaphores in a set. With the kernel's 32,000 sets in a cell, they take 70 MB."""
_LARGEST_SEGMENT: Final = 16 << 10
"""Bytes of System V memory. The kernel allows 4,096 segments in a cell, then 64 MB."""
_SUCCESS: Final = 0
"""A return value instead of an error: the call does nothing."""
_LOAD, _AND, _IF_EQUAL, _IF_ABOVE, _IF_SET, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_X32: Final = 0x40000000
"""x32 programs use numbers from here on, of which some are not those of x86_64: all are missing."""
_SET_FILTER: Final = 1
_NO_ROOM: Final = (
    "raise net.core.bpf_jit_limit, or end services that load many seccomp filters: the kernel has no room "
    "for one more"
)
_IS_AVAILABLE: Final = 2
"""SECCOMP_GET_ACTION_AVAIL."""
_SPECULATION_ALLOWED: Final = 4
"""Without this flag, older kernels turn on mitigations that slow the program down."""


class _Interface(NamedTuple):
    """A binary interface of the kernel: the machine's 64-bit one, or its 32-bit one."""

    architecture: int
    opening: tuple[int, ...]
    """The calls `socket` and `socketpair`."""
    keys: tuple[int, ...]
    """The calls `add_key`, `request_key` and `keyctl`."""
    mounting: tuple[int, ...]
    """The calls `mount`, `umount` and `pivot_root`."""
    clone: int
    unshare: int
    vmsplice: int
    setting: int
    """The call `setsockopt`."""
    commanding: tuple[int, ...]
    """The calls `fcntl` and `fcntl64`."""
    hidden: tuple[int, ...] = ()
    """System calls whose address family a filter cannot read: `socketcall` passes it in memory."""


_INTERFACES: Final[Mapping[str, tuple[_Interface, ...]]] = {
    "x86_64": (
        _Interface(0xC000003E, (41, 53), (248, 249, 250), (165, 166, 155), 56, 272, 278, 54, (72,)),
        _Interface(
            0x40000003, (359, 360), (286, 287, 288), (21, 22, 52, 217), 120, 310, 316, 366, (55, 221), (102,)
        ),
    ),
    "aarch64": (
        _Interface(0xC00000B7, (198, 199), (217, 218, 219), (40, 39, 41), 220, 97, 75, 208, (25,)),
        _Interface(0x40000028, (281, 288), (309, 310, 311), (21, 22, 52, 218), 120, 337, 343, 294, (55, 221)),
    ),
    "riscv64": (
        _Interface(0xC00000F3, (198, 199), (217, 218, 219), (40, 39, 41), 220, 97, 75, 208, (25,)),
        _Interface(0x400000F3, (198, 199), (217, 218, 219), (40, 39, 41), 220, 97, 75, 208, (25,)),
    ),
}
_SHARING: Final[Mapping[int, tuple[int, int, int]]] = {
    0xC000003E: (64, 68, 29),
    0x40000003: (393, 399, 395),
    0xC00000B7: (190, 186, 194),
    0x40000028: (299, 303, 307),
    0xC00000F3: (190, 186, 194),
    0x400000F3: (190, 186, 194),
}
"""The calls `semget`, `msgget` and `shmget` of each interface."""
_LIMITING: Final[Mapping[int, tuple[int, int]]] = {
    0xC000003E: (160, 302),
    0x40000003: (75, 340),
    0xC00000B7: (164, 261),
    0x40000028: (75, 369),
    0xC00000F3: (164, 261),
    0x400000F3: (164, 261),
}
"""The calls `setrlimit` and `prlimit64` of each interface."""


class _Scheduling(NamedTuple):
    set_priority: int
    set_io_priority: int
    of_process: tuple[int, ...]
    """The calls `sched_setparam`, `sched_setscheduler`, `sched_setaffinity` and `sched_setattr`."""


_SCHEDULING: Final[Mapping[int, _Scheduling]] = {
    0xC000003E: _Scheduling(141, 251, (142, 144, 203, 314)),
    0x40000003: _Scheduling(97, 289, (154, 156, 241, 351)),
    0xC00000B7: _Scheduling(140, 30, (118, 119, 122, 274)),
    0x40000028: _Scheduling(97, 314, (154, 156, 241, 380)),
    0xC00000F3: _Scheduling(140, 30, (118, 119, 122, 274)),
    0x400000F3: _Scheduling(140, 30, (118, 119, 122, 274)),
}
_IO_USER: Final = 3
"""IOPRIO_WHO_USER."""
_ALL_SHARING: Final = {0x40000003: (117,)}
"""The call `ipc`, which older 32-bit programs use for all System V calls."""


def is_offered() -> bool:
    """Returns whether this kernel has filters that refuse calls, whether or not it has room for one more."""
    action = ctypes.c_uint(_REFUSE)
    return not calls.syscall(
        calls.number("seccomp"), ctypes.c_uint(_IS_AVAILABLE), ctypes.c_uint(0), ctypes.byref(action)
    )


def restrict(*, has_limits: bool = True, sees_others: bool = False) -> None:
    """Restricts this process and its children from now on. Requires no_new_privs. May raise an OSError.
    `has_limits`: its System V semaphores, messages and memory have limits already. `sees_others`: process
    numbers are those of the machine, where others have the same user."""
    code = _program(_INTERFACES[os.uname().machine], has_limits, sees_others)
    kept = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(kept)))
    flags = ctypes.c_uint(_SPECULATION_ALLOWED)
    if calls.syscall(calls.number("seccomp"), ctypes.c_uint(_SET_FILTER), flags, program):
        failure = ctypes.get_errno()
        raise OSError(failure, _NO_ROOM if is_offered() else os.strerror(failure))


def _program(interfaces: tuple[_Interface, ...], has_limits: bool, sees_others: bool) -> bytes:
    """Returns the filter as BPF code. It allows calls of other architectures, since the machine has none."""
    refused, missing = _return(_REFUSE | errno.EAFNOSUPPORT), _return(_REFUSE | errno.ENOSYS)
    forbidden, unsupported = _return(_REFUSE | errno.EPERM), _return(_REFUSE | errno.EINVAL)
    usual = b"".join(_if_equal(family, _return(_ALLOW)) for family in _ALLOWED)
    opened = _step(_LOAD, _FIRST_WORD) + usual + refused
    unshared = _NAMESPACES | _TIME_NAMESPACE | _FILES
    no_own_files = _step(_AND, _THREAD | _FILES) + _if_equal(_THREAD, forbidden) + _return(_ALLOW)
    program = _step(_LOAD, _ARCHITECTURE)
    for interface in interfaces:
        block = _up_to(_NUMBER, _X32 - 1, missing)
        block += b"".join(
            _if_equal(number, missing)
            for number in (_IO_URING, _MEMFD_SECRET, _CLONE3, interface.vmsplice, *interface.keys)
        )
        block += b"".join(_if_equal(number, forbidden) for number in (*_NEW_MOUNTING, *interface.mounting))
        block += b"".join(_if_equal(number, refused) for number in interface.hidden)
        block += b"".join(_if_equal(number, opened) for number in interface.opening)
        block += _if_equal(interface.clone, _if_flags(_FIRST_WORD, _NAMESPACES, forbidden) + no_own_files)
        block += _if_equal(interface.unshare, _if_flags(_FIRST_WORD, unshared, forbidden) + _return(_ALLOW))
        block += _if_equal(_CLOSE_RANGE, _if_flags(_THIRD_WORD, _OWN_FILES, unsupported) + _return(_ALLOW))
        level, option = _ZERO_COPY
        no_zero_copy = _step(_LOAD, _THIRD_WORD) + _if_equal(option, unsupported)
        block += _if_equal(
            interface.setting, _step(_LOAD, _SECOND_WORD) + _if_equal(level, no_zero_copy) + _return(_ALLOW)
        )
        no_lease = _step(_LOAD, _SECOND_WORD) + _if_equal(_LEASE, unsupported) + _return(_ALLOW)
        block += b"".join(_if_equal(number, no_lease) for number in interface.commanding)
        block += _kept_limits(interface.architecture, forbidden, sees_others)
        if sees_others:
            block += _own_scheduling(interface.architecture, forbidden)
        if not has_limits:
            block += _small_sharing(interface.architecture, missing, unsupported)
        program += _if_equal(interface.architecture, block + _return(_ALLOW))
    return program + _return(_ALLOW)


def _kept_limits(architecture: int, forbidden: bytes, sees_others: bool) -> bytes:
    set_limit, limit_process = _LIMITING[architecture]
    setting = _step(_LOAD, _FIRST_WORD) + _if_equal(resource.RLIMIT_RTTIME, forbidden) + _return(_ALLOW)
    new_limit = (_THIRD_WORD, _THIRD_WORD + _HIGHER)  # null if the program only reads the limit
    changed = b"".join(_up_to(half, 0, forbidden) for half in new_limit)
    limiting = _step(_LOAD, _SECOND_WORD) + _if_equal(resource.RLIMIT_RTTIME, changed) + _return(_ALLOW)
    if (
        sees_others
    ):  # a limit of processor time would end the process that gets it, also if that is the server
        limiting = _step(_LOAD, _FIRST_WORD) + _if_equal(0, limiting) + changed + _return(_ALLOW)
    return _if_equal(set_limit, setting) + _if_equal(limit_process, limiting)


def _own_scheduling(architecture: int, forbidden: bytes) -> bytes:
    calls = _SCHEDULING[architecture]
    # Libraries name their own threads by numbers: OpenMP starts none if it gets an error.
    own = _up_to(_FIRST_WORD, 0, _return(_REFUSE | _SUCCESS)) + _return(_ALLOW)
    block = b"".join(_if_equal(number, own) for number in calls.of_process)
    for number, user in ((calls.set_priority, os.PRIO_USER), (calls.set_io_priority, _IO_USER)):
        of_all = _step(_LOAD, _FIRST_WORD) + _if_equal(user, forbidden)
        block += _if_equal(number, of_all + _up_to(_SECOND_WORD, 0, forbidden) + _return(_ALLOW))
    return block


def _small_sharing(architecture: int, missing: bytes, unsupported: bytes) -> bytes:
    sets, messages, memory = _SHARING[architecture]
    small_set = _up_to(_SECOND_WORD, _LARGEST_SET, unsupported) + _return(_ALLOW)
    small_segment = _up_to(_SECOND_WORD + _HIGHER, 0, unsupported)
    small_segment += _up_to(_SECOND_WORD, _LARGEST_SEGMENT, unsupported) + _return(_ALLOW)
    refused = (messages, *_ALL_SHARING.get(architecture, ()))
    block = b"".join(_if_equal(number, missing) for number in refused)
    return block + _if_equal(sets, small_set) + _if_equal(memory, small_segment)


def _up_to(word: int, most: int, answer: bytes) -> bytes:
    """Returns code that loads an argument, and gives this answer if it is above a number."""
    return _step(_LOAD, word) + _step(_IF_ABOVE, most, len(answer) // 8) + answer


def _if_flags(word: int, flags: int, answer: bytes) -> bytes:
    """Returns code that loads an argument, and gives this answer if it has one of these flags."""
    return _step(_LOAD, word) + _step(_IF_SET, flags, len(answer) // 8) + answer


def _if_equal(value: int, steps: bytes) -> bytes:
    """Returns code that runs these steps only if the word loaded last equals this value."""
    return _step(_IF_EQUAL, value, len(steps) // 8) + steps


def _return(answer: int) -> bytes:
    return _step(_RETURN, answer)


def _step(code: int, value: int, skipped: int = 0) -> bytes:
    return struct.pack("=HBBI", code, 0, skipped, value)
