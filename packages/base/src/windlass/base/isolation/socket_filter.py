"""Restricts the system calls of programs with a seccomp filter, which the kernel runs for each system call.

The filter refuses:

- sockets of address families that network namespaces do not separate, such as AF_VSOCK and AF_ALG. From any
network, AF_VSOCK reaches the machine's hypervisor and all AF_VSOCK listeners of the machine. - io_uring,
which can open sockets without passing the filter. - keyrings, because the kernel allows only few keys for
each user. - `memfd_secret`, because its memory is not accounted for. The calls of these three items fail with
ENOSYS, as on a kernel without them. - new namespaces and mounts, as in containers. In its own namespaces, a
program could exhaust resources that the kernel does not count by user: the machine-wide table of neighbours,
System V memory, in-memory file systems. - `clone3`, because the filter cannot read its flags, which are in
memory. It fails with ENOSYS, and programs use `clone` instead. - file leases, because a process that writes
to a leased file waits up to 45 seconds for the holder of the lease, and the server writes files that services
see. - calls that give a thread its own table of open files. The server counts files and memory of a process
by its one table in /proc. - `vmsplice` and SO_ZEROCOPY, because with them, 4 KiB in a pipe or a socket keep 2
MiB of memory in use.

If the limits of System V semaphores, messages and memory cannot be set (cell_entry.py), the filter allows
only small semaphore sets and segments, and no messages. The kernel's limits would allow gigabytes.

Programs cannot change the limit RLIMIT_RTTIME, by which the engine recognizes their processes (marks.py).
Without pid namespaces, a process can change limits, priorities, schedulers and processor affinity only of
itself (pid 0, because a filter cannot know the process's own pid), and not of a user.
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

_ALLOWED_FAMILIES: Final = (
    socket.AF_UNIX,
    socket.AF_INET,
    socket.AF_INET6,
    socket.AF_NETLINK,
    socket.AF_PACKET,
)
"""The allowed families, whose sockets belong to a network namespace or to a file."""
_IO_URING: Final = 425
_MEMFD_SECRET: Final = 447
_NEW_MOUNTING: Final = (428, 429, 430, 431, 432, 433, 442, 467)
"""The newer mount calls, from `open_tree` to `mount_setattr`, with the same numbers on all architectures."""
_CLONE3: Final = 435
_CLOSE_RANGE: Final = 436
_NAMESPACES: Final = 0x7E020000
"""The flags for new namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_TIME_NAMESPACE: Final = 0x80
"""The flag CLONE_NEWTIME for a new time namespace, which only `unshare` has."""
_FILES: Final = 0x400
"""The flag CLONE_FILES: `unshare` creates a table of open files, and `clone` shares the caller's table."""
_THREAD: Final = 0x10000
"""The flag CLONE_THREAD: the new task is a thread of the caller's process."""
_OWN_FILES: Final = 2
"""The flag CLOSE_RANGE_UNSHARE of `close_range`."""
_ZERO_COPY: Final = (1, 60)
"""The level SOL_SOCKET and the option SO_ZEROCOPY of `setsockopt`."""
_SET_LEASE: Final = 1024
"""The command F_SETLEASE of `fcntl`."""
_NUMBER, _ARCHITECTURE, _FIRST_WORD, _SECOND_WORD, _THIRD_WORD = 0, 4, 16, 24, 32
"""The offsets of a system call's number, architecture and arguments 1 to 3 in `struct seccomp_data`."""
_UPPER_HALF_OFFSET: Final = 4
"""The offset of an argument's upper half."""
_MAX_SEMAPHORES: Final = 32
"""The maximum number of semaphores in a set. With the kernel's 32,000 sets, a cell uses up to 70 MB."""
_MAX_SEGMENT_BYTES: Final = 16 << 10
"""The maximum size of a System V memory segment, in bytes. With the kernel's limit of 4,096 segments, a cell
uses up to 64 MB."""
_SUCCESS: Final = 0
"""The return value of a call that does nothing and reports success."""
_LOAD, _AND, _IF_EQUAL, _IF_ABOVE, _IF_SET, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_X32: Final = 0x40000000
"""The first number of x32 system calls. The filter treats all of them as missing, because some have other
numbers than on x86_64."""
_SET_FILTER: Final = 1
_FILTER_MEMORY_ADVICE: Final = (
    "raise net.core.bpf_jit_limit, or end services that load many seccomp filters: the kernel has no room "
    "for one more"
)
_IS_AVAILABLE: Final = 2
"""The operation SECCOMP_GET_ACTION_AVAIL."""
_SPECULATION_ALLOWED: Final = 4
"""The flag SECCOMP_FILTER_FLAG_SPEC_ALLOW. Without it, older kernels enable slow mitigations."""


class _Interface(NamedTuple):
    """A system call interface of the kernel: 64-bit or 32-bit."""

    architecture: int
    opening: tuple[int, ...]
    """The numbers of `socket` and `socketpair`."""
    keys: tuple[int, ...]
    """The numbers of `add_key`, `request_key` and `keyctl`."""
    mounting: tuple[int, ...]
    """The numbers of `mount`, `umount` and `pivot_root`."""
    clone: int
    unshare: int
    vmsplice: int
    setting: int
    """The number of `setsockopt`."""
    commanding: tuple[int, ...]
    """The numbers of `fcntl` and `fcntl64`."""
    hidden: tuple[int, ...] = ()
    """The numbers of calls that pass the address family in memory, where no filter sees it: `socketcall`."""


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
_IPC_CALLS: Final[Mapping[int, tuple[int, int, int]]] = {
    0xC000003E: (64, 68, 29),
    0x40000003: (393, 399, 395),
    0xC00000B7: (190, 186, 194),
    0x40000028: (299, 303, 307),
    0xC00000F3: (190, 186, 194),
    0x400000F3: (190, 186, 194),
}
"""The numbers of `semget`, `msgget` and `shmget` for each architecture."""
_LIMIT_CALLS: Final[Mapping[int, tuple[int, int]]] = {
    0xC000003E: (160, 302),
    0x40000003: (75, 340),
    0xC00000B7: (164, 261),
    0x40000028: (75, 369),
    0xC00000F3: (164, 261),
    0x400000F3: (164, 261),
}
"""The numbers of `setrlimit` and `prlimit64` for each architecture."""


class _Scheduling(NamedTuple):
    set_priority: int
    set_io_priority: int
    of_process: tuple[int, ...]
    """The numbers of `sched_setparam`, `sched_setscheduler`, `sched_setaffinity` and `sched_setattr`."""


_SCHEDULING_CALLS: Final[Mapping[int, _Scheduling]] = {
    0xC000003E: _Scheduling(141, 251, (142, 144, 203, 314)),
    0x40000003: _Scheduling(97, 289, (154, 156, 241, 351)),
    0xC00000B7: _Scheduling(140, 30, (118, 119, 122, 274)),
    0x40000028: _Scheduling(97, 314, (154, 156, 241, 380)),
    0xC00000F3: _Scheduling(140, 30, (118, 119, 122, 274)),
    0x400000F3: _Scheduling(140, 30, (118, 119, 122, 274)),
}
_IO_USER: Final = 3
"""The value IOPRIO_WHO_USER."""
_COMBINED_IPC_CALLS: Final = {0x40000003: (117,)}
"""The number of `ipc`, with which older 32-bit programs make all System V calls."""


def is_offered() -> bool:
    """Returns whether the kernel supports filters that refuse calls, even if it has no memory for more."""
    action = ctypes.c_uint(_REFUSE)
    return not calls.syscall(
        calls.number("seccomp"), ctypes.c_uint(_IS_AVAILABLE), ctypes.c_uint(0), ctypes.byref(action)
    )


def restrict(*, has_limits: bool = True, sees_others: bool = False) -> None:
    """Restricts this process and its future children. Requires no_new_privs. May raise an OSError.

    `has_limits`: whether the System V semaphores, messages and memory of the cell are limited already.
    `sees_others`: whether the process shares a pid namespace with other processes of the same user.
    """
    code = _bpf_program(_INTERFACES[os.uname().machine], has_limits, sees_others)
    kept = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(kept)))
    flags = ctypes.c_uint(_SPECULATION_ALLOWED)
    if calls.syscall(calls.number("seccomp"), ctypes.c_uint(_SET_FILTER), flags, program):
        failure = ctypes.get_errno()
        raise OSError(failure, _FILTER_MEMORY_ADVICE if is_offered() else os.strerror(failure))


def _bpf_program(interfaces: tuple[_Interface, ...], has_limits: bool, sees_others: bool) -> bytes:
    """Returns the filter as BPF code. It does not check other architectures, which the machine cannot run."""
    refused, missing = (
        _return_instruction(_REFUSE | errno.EAFNOSUPPORT),
        _return_instruction(_REFUSE | errno.ENOSYS),
    )
    forbidden, unsupported = (
        _return_instruction(_REFUSE | errno.EPERM),
        _return_instruction(_REFUSE | errno.EINVAL),
    )
    usual = b"".join(_if_equal(family, _return_instruction(_ALLOW)) for family in _ALLOWED_FAMILIES)
    opened = _bpf_instruction(_LOAD, _FIRST_WORD) + usual + refused
    unshared = _NAMESPACES | _TIME_NAMESPACE | _FILES
    no_own_files = (
        _bpf_instruction(_AND, _THREAD | _FILES) + _if_equal(_THREAD, forbidden) + _return_instruction(_ALLOW)
    )
    program = _bpf_instruction(_LOAD, _ARCHITECTURE)
    for interface in interfaces:
        block = _if_argument_above(_NUMBER, _X32 - 1, missing)
        block += b"".join(
            _if_equal(number, missing)
            for number in (_IO_URING, _MEMFD_SECRET, _CLONE3, interface.vmsplice, *interface.keys)
        )
        block += b"".join(_if_equal(number, forbidden) for number in (*_NEW_MOUNTING, *interface.mounting))
        block += b"".join(_if_equal(number, refused) for number in interface.hidden)
        block += b"".join(_if_equal(number, opened) for number in interface.opening)
        block += _if_equal(
            interface.clone, _if_argument_has_flags(_FIRST_WORD, _NAMESPACES, forbidden) + no_own_files
        )
        block += _if_equal(
            interface.unshare,
            _if_argument_has_flags(_FIRST_WORD, unshared, forbidden) + _return_instruction(_ALLOW),
        )
        block += _if_equal(
            _CLOSE_RANGE,
            _if_argument_has_flags(_THIRD_WORD, _OWN_FILES, unsupported) + _return_instruction(_ALLOW),
        )
        level, option = _ZERO_COPY
        no_zero_copy = _bpf_instruction(_LOAD, _THIRD_WORD) + _if_equal(option, unsupported)
        block += _if_equal(
            interface.setting,
            _bpf_instruction(_LOAD, _SECOND_WORD)
            + _if_equal(level, no_zero_copy)
            + _return_instruction(_ALLOW),
        )
        no_lease = (
            _bpf_instruction(_LOAD, _SECOND_WORD)
            + _if_equal(_SET_LEASE, unsupported)
            + _return_instruction(_ALLOW)
        )
        block += b"".join(_if_equal(number, no_lease) for number in interface.commanding)
        block += _filter_limit_calls(interface.architecture, forbidden, sees_others)
        if sees_others:
            block += _filter_scheduling_calls(interface.architecture, forbidden)
        if not has_limits:
            block += _filter_ipc_calls(interface.architecture, missing, unsupported)
        program += _if_equal(interface.architecture, block + _return_instruction(_ALLOW))
    return program + _return_instruction(_ALLOW)


def _filter_limit_calls(architecture: int, forbidden: bytes, sees_others: bool) -> bytes:
    set_limit, limit_process = _LIMIT_CALLS[architecture]
    setting = (
        _bpf_instruction(_LOAD, _FIRST_WORD)
        + _if_equal(resource.RLIMIT_RTTIME, forbidden)
        + _return_instruction(_ALLOW)
    )
    new_limit = (_THIRD_WORD, _THIRD_WORD + _UPPER_HALF_OFFSET)  # null if the program only reads its limit
    changed = b"".join(_if_argument_above(half, 0, forbidden) for half in new_limit)
    limiting = (
        _bpf_instruction(_LOAD, _SECOND_WORD)
        + _if_equal(resource.RLIMIT_RTTIME, changed)
        + _return_instruction(_ALLOW)
    )
    if sees_others:  # a processor time limit would end another process of the user, such as the server
        limiting = (
            _bpf_instruction(_LOAD, _FIRST_WORD)
            + _if_equal(0, limiting)
            + changed
            + _return_instruction(_ALLOW)
        )
    return _if_equal(set_limit, setting) + _if_equal(limit_process, limiting)


def _filter_scheduling_calls(architecture: int, forbidden: bytes) -> bytes:
    calls = _SCHEDULING_CALLS[architecture]
    # Libraries pass the ids of their own threads. OpenMP starts no threads if it gets an error.
    own = _if_argument_above(_FIRST_WORD, 0, _return_instruction(_REFUSE | _SUCCESS)) + _return_instruction(
        _ALLOW
    )
    block = b"".join(_if_equal(number, own) for number in calls.of_process)
    for number, user in ((calls.set_priority, os.PRIO_USER), (calls.set_io_priority, _IO_USER)):
        of_all = _bpf_instruction(_LOAD, _FIRST_WORD) + _if_equal(user, forbidden)
        block += _if_equal(
            number, of_all + _if_argument_above(_SECOND_WORD, 0, forbidden) + _return_instruction(_ALLOW)
        )
    return block


def _filter_ipc_calls(architecture: int, missing: bytes, unsupported: bytes) -> bytes:
    sets, messages, memory = _IPC_CALLS[architecture]
    small_set = _if_argument_above(_SECOND_WORD, _MAX_SEMAPHORES, unsupported) + _return_instruction(_ALLOW)
    small_segment = _if_argument_above(_SECOND_WORD + _UPPER_HALF_OFFSET, 0, unsupported)
    small_segment += _if_argument_above(_SECOND_WORD, _MAX_SEGMENT_BYTES, unsupported) + _return_instruction(
        _ALLOW
    )
    refused = (messages, *_COMBINED_IPC_CALLS.get(architecture, ()))
    block = b"".join(_if_equal(number, missing) for number in refused)
    return block + _if_equal(sets, small_set) + _if_equal(memory, small_segment)


def _if_argument_above(argument_offset: int, limit: int, answer: bytes) -> bytes:
    """Returns code that loads an argument and runs `answer` if the argument is greater than `limit`."""
    return (
        _bpf_instruction(_LOAD, argument_offset)
        + _bpf_instruction(_IF_ABOVE, limit, len(answer) // 8)
        + answer
    )


def _if_argument_has_flags(argument_offset: int, flags: int, answer: bytes) -> bytes:
    """Returns code that loads an argument and runs `answer` if the argument has one of these flags."""
    return (
        _bpf_instruction(_LOAD, argument_offset) + _bpf_instruction(_IF_SET, flags, len(answer) // 8) + answer
    )


def _if_equal(value: int, steps: bytes) -> bytes:
    """Returns code that runs `steps` only if the loaded word equals `value`."""
    return _bpf_instruction(_IF_EQUAL, value, len(steps) // 8) + steps


def _return_instruction(answer: int) -> bytes:
    return _bpf_instruction(_RETURN, answer)


def _bpf_instruction(code: int, value: int, skipped: int = 0) -> bytes:
    return struct.pack("=HBBI", code, 0, skipped, value)
