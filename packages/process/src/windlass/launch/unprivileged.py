"""Drops root privileges for a server that refuses to run as root.

The first choice is a user namespace. Inside, the process is an ordinary user without capabilities. Outside,
the data still belongs to root, so that no user is created and no folder becomes accessible to others. If the
kernel allows no user namespace, the process becomes an ordinary user of the machine and the data is given to
that user.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import shlex
from pathlib import Path
from typing import Final

from windlass.launch.launcher import LaunchRefused

CLONE_NEWUSER: Final = 0x10000000
PREFERRED_USERS: Final = ("postgres", "nobody")
_UNSUPPORTED_ERRORS = {errno.EPERM, errno.ENOSPC, errno.EINVAL, errno.ENOSYS, errno.EUSERS, errno.EACCES}


def leave_root(data: Path, program: Path) -> None:
    """Changes from root to an ordinary user and gives this user the data folder and its siblings. `program`
    is the server program, which the user must be able to reach.

    The caller must hold the data folder's lock, because the owner of the data may change.
    """
    if os.geteuid() != 0:
        return
    user = _find_ordinary_user()
    volume = data.parent
    if _can_create_namespace():
        _change_owner(volume, os.getuid(), os.getgid())
        os.setgroups([])
        _become_user(user)
    else:
        _check_access(volume, program, user)
        _change_owner(volume, user.pw_uid, user.pw_gid)
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    if os.geteuid() == 0:
        raise LaunchRefused("the server must not run as root, and cannot change to another user here")


def _find_ordinary_user() -> pwd.struct_passwd:
    """Returns an ordinary user with an entry in the password database, because PostgreSQL looks up its user
    name."""
    users = [user for user in pwd.getpwall() if user.pw_uid]
    for name in PREFERRED_USERS:
        for user in users:
            if user.pw_name == name:
                return user
    if not users:
        raise LaunchRefused("this machine has no user but root: add one, such as `nobody`, to run PostgreSQL")
    return users[0]


def _can_create_namespace() -> bool:
    """Returns whether a user namespace can be created. Tries it in a child process, because a process cannot
    leave its namespace again."""
    child = os.fork()
    if not child:
        code = 2
        try:
            code = 1 if _unshare_user_namespace() in _UNSUPPORTED_ERRORS else 0
            if not code:
                _map_ids(1, 1)
        except OSError:
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _become_user(user: pwd.struct_passwd) -> None:
    outside = os.getuid(), os.getgid()
    if failed := _unshare_user_namespace():
        raise OSError(failed, os.strerror(failed), "user namespace")
    _map_ids(user.pw_uid, user.pw_gid, *outside)


def _unshare_user_namespace() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.unshare(CLONE_NEWUSER) else 0


def _map_ids(uid: int, gid: int, outer_uid: int = 0, outer_gid: int = 0) -> None:
    proc = Path("/proc/self")
    (proc / "setgroups").write_text(
        "deny"
    )  # otherwise the kernel refuses to write gid_map from within, see user_namespaces(7)
    (proc / "uid_map").write_text(f"{uid} {outer_uid} 1")
    (proc / "gid_map").write_text(f"{gid} {outer_gid} 1")


def _check_access(volume: Path, program: Path, user: pwd.struct_passwd) -> None:
    """Checks that the user can reach the data and the program. Refuses instead of changing permissions."""
    way = dict.fromkeys(folder for target in (volume, program) for folder in target.resolve().parents)
    closed = " ".join(shlex.quote(str(folder)) for folder in way if not _is_passable(folder.stat(), user))
    if closed:
        raise LaunchRefused(
            "PostgreSQL refuses to run as root, this machine allows no user namespaces, and the user "
            f"{user.pw_name} cannot get through some folders. Allow user namespaces (sysctl "
            "user.max_user_namespaces; in a container, a seccomp profile that allows unshare), or run "
            f"Windlass as another user, or open the way: chmod o+x {closed}"
        )


def _is_passable(stat_result: os.stat_result, user: pwd.struct_passwd) -> bool:
    if stat_result.st_uid == user.pw_uid:
        return bool(stat_result.st_mode & 0o100)
    if stat_result.st_gid == user.pw_gid:
        return bool(stat_result.st_mode & 0o010)
    return bool(stat_result.st_mode & 0o001)


def _change_owner(folder: Path, uid: int, gid: int) -> None:
    """Changes the owner of a folder and its content. The folder itself comes last, because its owner marks
    the change as complete."""
    if folder.stat().st_uid == uid:
        return
    for inside, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(Path(inside, name), uid, gid, follow_symlinks=False)
    os.chown(folder, uid, gid)
