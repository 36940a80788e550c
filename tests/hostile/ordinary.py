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


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
