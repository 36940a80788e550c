"""Runs a program as an ordinary user, also if this Python is in a home folder that others may not enter.
[sys.executable, "-I", "ordinary.py", command…]: in a mount namespace of its own, the first folder on the way
to the interpreter that is closed to others is replaced by one with nothing but the interpreter."""

import ctypes
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

CLONE_NEWNS = 0x00020000
USER = "nobody"
REPOSITORY = str(Path(__file__).parents[2])


def main(command: list[str]) -> None:
    if os.geteuid() == 0:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
            sys.exit("no mount namespace can be made")
        mount("--make-rprivate", "/")
        for prefix in dict.fromkeys((sys.base_prefix, sys.prefix, REPOSITORY)):
            open_way(Path(prefix))
        open_tun()
        user = pwd.getpwnam(USER)
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    os.execvp(command[0], command)


def open_way(prefix: Path) -> None:
    closed = next((one for one in reversed(prefix.parents) if not one.stat().st_mode & stat.S_IXOTH), None)
    if closed is None:
        return
    with tempfile.TemporaryDirectory() as aside:
        mount("--bind", str(prefix), aside)
        mount("-t", "tmpfs", "-o", "mode=755", "none", str(closed))
        prefix.mkdir(parents=True)
        mount("--bind", aside, str(prefix))
        subprocess.run(["umount", aside], check=True)


def open_tun() -> None:
    """Gives all users the device of pasta, as udev does."""
    tun = Path("/dev/net/tun")
    if not tun.exists() or tun.stat().st_mode & stat.S_IWOTH:
        return
    with tempfile.TemporaryDirectory() as aside:
        mount("-t", "tmpfs", "-o", "mode=755,dev", "none", aside)
        made = Path(aside, "tun")
        os.mknod(made, stat.S_IFCHR | 0o666, tun.stat().st_rdev)
        made.chmod(0o666)
        mount("--bind", str(made), str(tun))
        subprocess.run(["umount", aside], check=True)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
