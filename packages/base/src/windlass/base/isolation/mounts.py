"""Mounts the file system that a program sees: the system, read-only, and the program's own folders.

All paths keep their names. A program with its own user sees the machine's files with that user's permissions.
Hidden folders are covered by empty folders, in which only the parts that the program needs are mounted again.
These parts are accessible even if the user may not enter their parents.

If Windlass runs as an ordinary user, its programs have the same user. They get a new root with only the
system's folders and those parts, so they see no other file of the machine, including later files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from windlass.base.isolation import calls
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.network import CellNetwork

PRIVATE_FOLDERS: Final = ("/tmp", "/var/tmp")  # noqa: S108 (each program has its own)
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 (likewise)
MESSAGE_QUEUES: Final = "/dev/mqueue"
TERMINALS: Final = "/dev/pts"
_NEW_TERMINAL: Final = "/dev/ptmx"
_MAX_TERMINALS: Final = 256
"""The maximum number of pseudo-terminals of a cell. The machine keeps `kernel.pty.reserve` of all
terminals."""
USER_FOLDERS: Final = ("/home", "/root", "/run", "/mnt", "/media", "/srv")
"""Folders with files of users and other programs, and with control sockets of servers."""
PROGRAM_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix")
KERNEL_FOLDERS: Final = ("/proc", "/sys")
SYSTEM_FOLDERS: Final = (*PROGRAM_FOLDERS, *KERNEL_FOLDERS, "/etc")
"""The machine's folders that programs of an ordinary user see, in addition to some devices."""
DEVICE_FOLDER: Final = "/dev"
_VISIBLE_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_ALL_PATHS: Final = ("",)
"""A prefix of all paths: every path is below it."""
_PLAIN_FLAGS: Final = calls.MS_NOSUID | calls.MS_NODEV
_ATTRIBUTES: Final = calls.MOUNT_ATTR_NOSUID | calls.MOUNT_ATTR_NODEV
_ATTRIBUTES_BY_KIND: Final = {
    "system": calls.MOUNT_ATTR_NOSUID | calls.MOUNT_ATTR_RDONLY,
    "read": _ATTRIBUTES | calls.MOUNT_ATTR_RDONLY,
    "write": _ATTRIBUTES,
}
_RESOLVER_FILE: Final = "/etc/resolv.conf"
_HOSTS_FILE: Final = "/etc/hosts"


class _MountPoint(NamedTuple):
    path: str
    kind: Literal["cover", "scratch", "system", "read", "write"]
    """`cover`: an empty read-only folder. `scratch`: an empty writable folder. `system`: a read-only mount
    that allows devices."""
    source: str


def arrange(cell: Cell) -> None:
    """Mounts the file system of a cell. Called in the cell's mount namespace."""
    calls.set_attributes("/", 0, private=True)
    places = _mount_points(cell)
    copies = {place: calls.mount_copy(place.source) for place in places if place.source}
    hosts = calls.mount_copy(cell["network"]["hosts"]) if "hosts" in cell.get("network", {}) else None
    memory = cell.get("shared_memory", 0)
    covers = []
    if sees_machine(cell):
        calls.set_attributes("/", calls.MOUNT_ATTR_RDONLY | calls.MOUNT_ATTR_NOSUID)
    else:
        _enter_empty_root()
        covers.append("/")
    covers += [place.path for place in places if _mount_point(place, copies, memory)]
    if not sees_machine(cell):
        _link_devices()
    _mount_terminals()
    if cell["name"] and covers:
        _add_user_names(cell, covers[0])
    if "network" in cell and covers:
        _mount_resolver_files(cell["network"], hosts, covers[0])
    for path in covers:
        calls.set_attributes(path, calls.MOUNT_ATTR_RDONLY, is_recursive=False)


def sees_machine(cell: Cell) -> bool:
    """Returns whether a cell sees all folders of the machine that are not hidden.

    Otherwise it sees the system's folders only, because it could read all files of Windlass's user.
    """
    return cell["identity"] == "user" or not cell["uid"]


def _enter_empty_root() -> None:
    """Replaces the file system by an empty root with the machine's top-level folders and links.

    Afterwards, files of the machine are accessible only through mounts that were copied before.
    """
    entries = [*os.scandir("/")]
    folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    links = [(entry.path, os.readlink(entry.path)) for entry in entries if entry.is_symlink()]  # noqa: PTH115
    calls.mount(
        "tmpfs", "/proc", _PLAIN_FLAGS, "mode=755"
    )  # any folder will do, as the root is replaced next
    calls.move_root("/proc")
    for folder in folders:
        os.mkdir(folder)  # noqa: PTH102 (this runs at every start)
    for path, leads in links:
        os.symlink(leads, path)  # noqa: PTH211 (likewise)


def _link_devices() -> None:
    """Creates the links in `/dev` that programs expect."""
    os.mkdir(TERMINALS)  # noqa: PTH102 (this runs at every start)
    for name, leads in _DEVICE_LINKS.items():
        os.symlink(leads, f"{DEVICE_FOLDER}/{name}")  # noqa: PTH211 (likewise)


def _mount_terminals() -> None:
    """Mounts the cell's own pseudo-terminals, if the machine has pseudo-terminals."""
    if not _is_folder(TERMINALS):
        return
    options = f"newinstance,ptmxmode=0666,mode=0620,max={_MAX_TERMINALS}"
    calls.mount("devpts", TERMINALS, calls.MS_NOSUID | calls.MS_NOEXEC, options)
    if os.path.exists(_NEW_TERMINAL) and not os.path.islink(_NEW_TERMINAL):  # noqa: PTH110, PTH114
        copy = calls.mount_copy(f"{TERMINALS}/ptmx")
        calls.mount_at(copy, _NEW_TERMINAL)
        os.close(copy)


def hidden_paths(cell: Cell) -> tuple[str, ...]:
    """Returns the folders that are covered, of which a program sees only the parts that its cell lists, and
    single hidden files."""
    return tuple(dict.fromkeys((*USER_FOLDERS, *cell["hidden"], *cell.get("private", []))))


def readable(cell: Cell) -> list[str]:
    """Returns the readable paths, including the file of DNS servers, which may be in a hidden folder."""
    return [*cell["readable"], os.path.realpath(_RESOLVER_FILE)]


def _mount_points(cell: Cell) -> list[_MountPoint]:
    """Returns the mounts in their order: parents before children, covers before the parts inside them."""
    shown = [*((path, "read") for path in readable(cell)), *((path, "write") for path in cell["writable"])]
    named = {path for path, _ in shown}
    copied = cell.get("settings", {})
    places = {_MountPoint(path, "read", copy) for path, copy in copied.items()}
    visible: tuple[str, ...] = _ALL_PATHS
    if not sees_machine(cell):
        visible = SYSTEM_FOLDERS
        mounted = (
            path for path in SYSTEM_FOLDERS if path not in copied and _is_folder(path)
        )  # others may be links
        places |= {_MountPoint(path, "system", path) for path in mounted}
        places.add(_MountPoint(DEVICE_FOLDER, "cover", ""))
        devices = (f"{DEVICE_FOLDER}/{name}" for name in _VISIBLE_DEVICES)
        places |= {_MountPoint(path, "system", path) for path in devices if os.path.exists(path)}  # noqa: PTH110
    bounds = (*visible, *PRIVATE_FOLDERS, *named)
    covers = [path for path in hidden_paths(cell) if _is_below(path, bounds) and _is_folder(path)]
    if cell["identity"] == "user":
        covers += _closed_folders([path for path, _ in shown], (*covers, *PRIVATE_FOLDERS, SHARED_MEMORY))
    places |= {_MountPoint(path, "cover", "") for path in covers}
    places |= {_MountPoint(path, "write", cell["temporary"]) for path in PRIVATE_FOLDERS if _is_folder(path)}
    places |= {
        _MountPoint(path, "scratch", "") for path in (SHARED_MEMORY, MESSAGE_QUEUES) if _is_folder(path)
    }
    aside = (*covers, *PRIVATE_FOLDERS, SHARED_MEMORY)
    for path in cell.get("private", []):
        is_of_system = _is_below(path, visible) and not _is_below(path, (*aside, *copied))
        is_visible = path not in named and (is_of_system or _is_below(path, named))
        if is_visible and os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
            places.add(_MountPoint(path, "read", os.devnull))  # a device that cannot be opened here
    for path, kind in shown:
        if kind == "read" and _is_below(path, cell["writable"]):
            continue  # it is below a writable path, so it is visible already
        if _passes_through_link(path, cell["hidden"]):
            continue
        is_visible = path in visible or _is_below(path, visible)
        is_mounted = kind == "write" or not is_visible or _is_below(path, aside)
        if is_mounted and os.path.lexists(path):
            places.add(_MountPoint(path, "read" if kind == "read" else "write", path))
    return sorted(places, key=lambda place: (place.path.count("/"), bool(place.source), place.path))


def _passes_through_link(path: str, own_paths: Iterable[str]) -> bool:
    """Returns whether a path passes through a link in one of our own folders.

    Such links are not followed, because a program may have created them to access their target.
    """
    return _is_below(path, own_paths) and os.path.realpath(path) != path


def _closed_folders(paths: Iterable[str], bounds: tuple[str, ...]) -> Iterator[str]:
    """Yields the topmost parent folder of each path that other users may not enter."""
    for path in paths:
        parts = path.split("/")
        for end in range(2, len(parts)):
            folder = "/".join(parts[:end])
            if _is_below(path, bounds) and (folder in bounds or _is_below(folder, bounds)):
                break
            if not os.path.isdir(folder):  # noqa: PTH112 (this runs at every start)
                break
            if not os.stat(folder).st_mode & stat.S_IXOTH:  # noqa: PTH116
                yield folder
                break


def _mount_point(mount_point: _MountPoint, copies: dict[_MountPoint, int], memory: int) -> bool:
    """Mounts one place. Returns whether it is a cover, which must be made read-only at the end.

    `memory`: the size in bytes of a writable folder in memory.
    """
    if not mount_point.source:
        if not _is_folder(mount_point.path):
            if not _is_below(mount_point.path, (*PRIVATE_FOLDERS, DEVICE_FOLDER)):
                return False  # a cover of a parent folder hides it already
            _make_mount_point(mount_point.path, is_folder=True)  # its parent folder is writable
        if mount_point.path == MESSAGE_QUEUES:
            calls.mount("mqueue", mount_point.path, _PLAIN_FLAGS | calls.MS_NOEXEC)
        else:
            calls.mount("tmpfs", mount_point.path, _PLAIN_FLAGS, _tmpfs_options(mount_point, memory))
        return mount_point.kind == "cover"
    copy = copies[mount_point]
    if not os.path.exists(mount_point.path):  # noqa: PTH110 (this runs at every start)
        _make_mount_point(mount_point.path, is_folder=stat.S_ISDIR(os.fstat(copy).st_mode))
    calls.set_attributes(copy, _ATTRIBUTES_BY_KIND[mount_point.kind])
    calls.mount_at(copy, mount_point.path)
    os.close(copy)
    return False


def _tmpfs_options(mount_point: _MountPoint, memory: int) -> str:
    if mount_point.kind == "cover":
        return "mode=755"
    # The number of files is limited as well, because each file uses memory of the kernel.
    return f"mode=1777,size={memory},nr_inodes={memory >> 12}" if memory else "mode=1777"


def _add_user_names(cell: Cell, cover: str) -> None:
    """Adds the cell's user to its /etc/passwd and /etc/group, because some programs need a user name."""
    name, uid = cell["name"], cell["uid"]
    home = f"{name}:x:{uid}:{uid}::{cell['temporary']}:/usr/sbin/nologin\n"
    for list, line in (("/etc/passwd", home), ("/etc/group", f"{name}:x:{uid}:\n")):
        if os.path.isfile(list):  # noqa: PTH113 (this runs at every start)
            with open(list) as original:  # noqa: PTH123
                text = original.read()
            _mount_text(list, f"{text.rstrip()}\n{line}", cover)


def _mount_resolver_files(network: CellNetwork, hosts: int | None, cover: str) -> None:
    """Mounts a resolv.conf with reachable DNS servers, and a hosts file with the environment's services."""
    if os.path.isfile(_RESOLVER_FILE):  # noqa: PTH113
        servers = "".join(f"nameserver {server}\n" for server in network.get("resolvers", []))
        _mount_text(_RESOLVER_FILE, servers, cover)
    if hosts is not None and os.path.isfile(_HOSTS_FILE):  # noqa: PTH113
        _put_copy(hosts, _HOSTS_FILE)


def _mount_text(path: str, text: str, cover: str) -> None:
    """Mounts a file with another text over a file of the machine. Stores it in a covered folder."""
    own = f"{cover}/.{os.path.basename(path)}"  # noqa: PTH119
    with open(own, "w") as written:  # noqa: PTH123
        written.write(text)
    os.chmod(own, 0o644)  # noqa: PTH101
    _put_copy(calls.mount_copy(own), path)


def _put_copy(descriptor: int, path: str) -> None:
    calls.set_attributes(descriptor, _ATTRIBUTES | calls.MOUNT_ATTR_RDONLY)
    calls.mount_at(descriptor, os.path.realpath(path))
    os.close(descriptor)


def _make_mount_point(path: str, *, is_folder: bool) -> None:
    path = os.path.realpath(path)  # a top-level link may lead to a missing folder
    os.makedirs(path if is_folder else os.path.dirname(path), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
    if not is_folder:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114
