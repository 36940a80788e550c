"""Programs open only sockets that belong to a network or a file: those of other families reach the machine
and all services, whatever networks they have. They make no namespaces, mount nothing, take no leases, for
which others would wait, and hide no open files in threads and no memory in pipes. Without the filter, the
same program does all of this."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from windlass.base.isolation import calls, cell_entry, isolation, probe, socket_filter
from windlass.base.isolation.isolation import Isolation
from windlass.process.builds.cells import BuildStep, Cells

CLONE = 56 if os.uname().machine == "x86_64" else 220
VMSPLICE = 278 if os.uname().machine == "x86_64" else 75
X86_64 = 0xC000003E
ADD_KEY = 248 if os.uname().machine == "x86_64" else 217
TRIES = (
    """
import ctypes, errno, fcntl, json, os, resource, socket, threading
def tried(family):
    try:
        socket.socket(family, socket.SOCK_STREAM if family != 38 else socket.SOCK_SEQPACKET).close()
        return "opened"
    except OSError as error:
        return errno.errorcode[error.errno]
found = {str(family): tried(family) for family in (1, 2, 10, 38, 40)}
socket.socketpair()
libc = ctypes.CDLL(None, use_errno=True)
ring = libc.syscall(425, 1, ctypes.create_string_buffer(256))
found["io_uring"] = "opened" if ring >= 0 else errno.errorcode[ctypes.get_errno()]
secret = libc.syscall(447, 0)
found["secret"] = "made" if secret >= 0 else errno.errorcode[ctypes.get_errno()]
key = libc.syscall(ADD_KEY, b"user", b"name", b"text", 4, -3)
found["key"] = "added" if key >= 0 else errno.errorcode[ctypes.get_errno()]
hear, tell = os.pipe()
if not os.fork():
    refused = libc.unshare(0x10020000)
    os.write(tell, errno.errorcode[ctypes.get_errno()].encode() if refused else b"made")
    if not refused:
        failed = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)
        os.write(tell, errno.errorcode[ctypes.get_errno()].encode() if failed else b", mounted")
    os._exit(0)
os.wait()
found["namespaces"] = os.read(hear, 100).decode()
cloned = libc.syscall(CLONE, 0x40000000 | 0x10000000 | 17, 0, 0, 0, 0)
if not cloned:
    os._exit(0)
found["clone"] = "cloned" if cloned > 0 else errno.errorcode[ctypes.get_errno()]
libc.syscall(435, 0, 0)
found["clone3"] = errno.errorcode[ctypes.get_errno()]
def answer(result):
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def in_thread(work):
    said = []
    thread = threading.Thread(target=lambda: said.append(answer(work())))
    thread.start()
    thread.join()
    return said[0]
found["table"] = in_thread(lambda: libc.unshare(0x400))
found["close_range"] = in_thread(lambda: libc.syscall(436, 1000, 2000, 2))
found["close_range of all"] = in_thread(lambda: libc.syscall(436, 1000, 2000, 0))
found["thread"] = answer(libc.syscall(CLONE, 0x10000, 0, 0, 0, 0))  # for the kernel, a flag is missing
found["thread with the table"] = answer(libc.syscall(CLONE, 0x10400, 0, 0, 0, 0))
class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("length", ctypes.c_size_t)]
page = ctypes.create_string_buffer(8192)
pipe = os.pipe()
piece = Piece(ctypes.addressof(page), 4096)
found["vmsplice"] = answer(libc.syscall(VMSPLICE, pipe[1], ctypes.byref(piece), 1, 0))
def with_limit(change):
    try:
        change()
        return "done"
    except (OSError, ValueError):
        return "refused"
time = resource.RLIMIT_RTTIME
found["limit"] = with_limit(lambda: resource.setrlimit(time, resource.getrlimit(time)))
found["limit of a process"] = with_limit(lambda: resource.prlimit(os.getpid(), time, (1000, 1000)))
found["other limit"] = with_limit(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
sender = socket.socket()
sender.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
try:
    sender.setsockopt(socket.SOL_SOCKET, 60, 1)
    found["zero copy"] = "done"
except OSError as error:
    found["zero copy"] = errno.errorcode[error.errno]
open("/tmp/leased", "w").close()
with open("/tmp/leased") as file:
    fcntl.fcntl(file, fcntl.F_GETFL)
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        found["lease"] = "taken"
    except OSError as error:
        found["lease"] = errno.errorcode[error.errno]
print("found " + json.dumps(found), flush=True)
""".replace("ADD_KEY", str(ADD_KEY))
    .replace("CLONE,", f"{CLONE},")
    .replace("VMSPLICE", str(VMSPLICE))
)
USUAL = {"1": "opened", "2": "opened", "10": "opened"}
REFUSED = {
    **USUAL,
    "38": "EAFNOSUPPORT",
    "40": "EAFNOSUPPORT",
    "io_uring": "ENOSYS",
    "key": "ENOSYS",
    "namespaces": "EPERM",
    "clone": "EPERM",
    "clone3": "ENOSYS",
    "lease": "EINVAL",
    "secret": "ENOSYS",
    "table": "EPERM",
    "close_range": "EINVAL",
    "close_range of all": "done",
    "thread": "EPERM",
    "thread with the table": "EINVAL",
    "vmsplice": "ENOSYS",
    "zero copy": "EINVAL",
    "limit": "refused",
    "limit of a process": "refused",
    "other limit": "done",
}


@pytest.fixture(params=[True, False], ids=["filtered", "without the filter"])
def filtered(request, monkeypatch):
    real = Isolation("auto", Path("/nowhere"))._findings()
    if not real["socket_filter"]:
        pytest.skip("needs a kernel with seccomp filters")
    found = {**real, "socket_filter": request.param, "landlock": 0}  # which refuses mounts, too
    monkeypatch.setattr(isolation, "findings", lambda *numbers: found)
    return request.param


def check(said: str, *, filtered: bool) -> None:
    found = json.loads(said.partition("found ")[2])
    if filtered:
        assert found == REFUSED
    else:
        assert USUAL.items() <= found.items()
        assert found["io_uring"] != "ENOSYS"
        assert found["key"] == has_key()
        assert found["namespaces"] == "made, mounted"
        assert found["lease"] == "taken"
        assert found["secret"] == has_secret()
        assert (found["clone"], found["clone3"]) == ("cloned", "EINVAL")
        assert (found["table"], found["close_range"], found["vmsplice"]) == ("done", "done", "done")
        assert (found["zero copy"], found["thread"]) == ("done", "EINVAL")
        assert (found["limit"], found["limit of a process"], found["other limit"]) == ("done", "done", "done")
        if has_vsock():
            assert found["40"] == "opened"


async def found(station: Station) -> str:
    async def is_there() -> bool:
        return bool(station.said)

    await until(is_there)
    return station.said[0]


def has_key() -> str:
    """Returns what a program without the filter gets here for a key."""
    added = ctypes.CDLL(None, use_errno=True).syscall(ADD_KEY, b"user", b"name", b"text", 4, -1)
    return "added" if added >= 0 else errno.errorcode[ctypes.get_errno()]


def has_secret() -> str:
    """Returns what a program without the filter gets here for memory that is secret."""
    made = ctypes.CDLL(None, use_errno=True).syscall(447, 0)
    if made < 0:
        return errno.errorcode[ctypes.get_errno()]
    os.close(made)
    return "made"


def has_vsock() -> bool:
    with suppress(OSError), socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM):
        return True
    return False


async def test_an_instance_cannot_open_filtered_sockets(tmp_path, filtered):
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        await station.apply(wanted(rig.made(TRIES + "import time; time.sleep(100)")))
        check(await found(station), filtered=filtered)
        records = station.engine._records  # type: ignore[attr-defined]
        [record] = [records.read(key) for key in records.find()]
        assert record is not None
        if record.first:  # a program could take it over
            status = Path(f"/proc/{record.first.pid}/status").read_text()
            assert ("Seccomp:\t2" in status) is filtered
        await station.engine.sweep(await station.engine.services())


async def test_a_run_cannot_open_filtered_sockets(tmp_path, filtered):
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        await station.engine.once(wanted(rig.made(TRIES)))
        check(await found(station), filtered=filtered)


async def said_by_a_step(tmp_path: Path, program: str) -> str:
    home = tmp_path / "home"
    home.mkdir()
    cells = Cells(Isolation("auto", tmp_path), "service", home, home)
    command = [sys.base_prefix + "/bin/python3", "-c", program]
    async with cells.running(BuildStep(command, home, {"PATH": "/usr/bin:/bin"}, {})) as (process, _):
        return (await process.stdout.read()).decode()


async def test_a_build_step_cannot_open_filtered_sockets(tmp_path, filtered):
    check(await said_by_a_step(tmp_path, TRIES), filtered=filtered)


async def test_the_first_process_of_a_build_step_has_the_seccomp_filter(tmp_path, filtered):
    if not Isolation("auto", Path("/nowhere"))._findings()["processes"]:
        pytest.skip("needs a kernel that gives process namespaces")
    status = await said_by_a_step(tmp_path, "print(open('/proc/1/status').read())")
    assert ("Seccomp:\t2" in status) is filtered
    assert "NoNewPrivs:\t1" in status


def answer_of_filter(architecture: int, number: int, *arguments: int) -> int:
    """Runs the filter of x86_64 as the kernel does for a system call."""
    code = socket_filter._bpf_program(socket_filter._INTERFACES["x86_64"], has_limits=True, sees_others=False)
    call = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    at = word = 0
    while True:
        kind, _, skipped, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        match kind:
            case socket_filter._LOAD:
                (word,) = struct.unpack_from("=I", call, value)
            case socket_filter._AND:
                word &= value
            case socket_filter._IF_EQUAL:
                at += 0 if word == value else skipped
            case socket_filter._IF_ABOVE:
                at += 0 if word > value else skipped
            case socket_filter._IF_SET:
                at += 0 if word & value else skipped
            case _:
                return int(value)


@pytest.mark.parametrize("number", [39, 54, 278, 425, 532, 541])
def test_the_seccomp_filter_refuses_x32_system_calls(number):
    """Of these, 532 and 541 are `vmsplice` and `setsockopt` there, and no calls of x86_64."""
    missing = socket_filter._REFUSE | errno.ENOSYS
    assert answer_of_filter(X86_64, 0x40000000 | number) == missing
    refused = {54: socket_filter._REFUSE | errno.EINVAL, 278: missing, 425: missing}
    expected = refused.get(number, socket_filter._ALLOW)
    assert answer_of_filter(X86_64, number, 0, socket.SOL_SOCKET, 60) == expected


def probed() -> str:
    return probe._why_fails(probe._try_socket_filter)


@pytest.mark.parametrize("is_offered", [True, False])
def test_a_seccomp_filter_that_finds_no_room_counts_as_offered_if_the_kernel_has_filters(
    monkeypatch, is_offered
):
    def refuse() -> None:
        raise PermissionError(errno.EPERM, "no room")

    monkeypatch.setattr(socket_filter, "restrict", refuse)
    monkeypatch.setattr(socket_filter, "is_offered", lambda: is_offered)
    assert probed() == ("" if is_offered else "no room")


def test_the_socket_filter_is_offered_only_if_the_kernel_supports_seccomp(monkeypatch):
    assert socket_filter.is_offered()
    monkeypatch.setattr(socket_filter, "_REFUSE", 0x12340000)
    assert not socket_filter.is_offered()


def test_the_seccomp_filter_is_loaded_before_privileges_are_dropped(monkeypatch):
    done: list[str] = []
    for module, name in ((socket_filter, "restrict"), (cell_entry, "drop_privileges")):
        monkeypatch.setattr(module, name, lambda *_, name=name, **__: done.append(name))
    for name in ("_set_limits", "_landlock_rules"):
        monkeypatch.setattr(cell_entry, name, lambda cell: None)
    for name in ("prctl", "new_keyring"):
        monkeypatch.setattr(calls, name, lambda *_: None)
    monkeypatch.setattr(os, "umask", lambda _: 0)
    cell: Any = {"identity": "user", "processes": True, "families": True, "landlock": 0}
    cell_entry.confine(cell, leads=False)
    assert done == ["restrict", "drop_privileges"]
