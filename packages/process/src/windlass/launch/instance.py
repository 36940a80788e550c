"""Common parts of the database launchers: finding the server, locking and creating its data folder, running
it."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from windlass.base import filelock
from windlass.base.atomic_files import sync
from windlass.launch.launch_variables import SERVER_VARIABLE, VERSION_VARIABLE
from windlass.launch.launcher import LaunchRefused, Variables, say

LOCK_TIMEOUT: Final = 60.0
PR_SET_PDEATHSIG: Final = 1

# A server inherits only these variables from its launcher, so that passwords do not reach it. The engine
# identifies the processes of an instance by the last two.
_PASSED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "WINDLASS_INSTANCE", "WINDLASS_FILES")


def find_server(type: str, variables: Variables) -> Variables:
    """Returns variables that point to an installed server.

    If the server's folder is gone, for example after Windlass was reinstalled elsewhere, the result points to
    another installed server with the same program name and major version.
    """
    program = Path(variables.get(SERVER_VARIABLE, ""))
    if _can_run(program):
        return variables
    # Imported here because readiness probes start often and seldom need these modules.
    import asyncio  # noqa: PLC0415

    from windlass.launch.installed_servers import ServerFolders, servers  # noqa: PLC0415

    major = _major_of(variables)
    for server in asyncio.run(servers(type, ServerFolders())):
        if server.program.name == program.name and str(server.numbers[0]) == major:
            return {**variables, SERVER_VARIABLE: str(server.program), **server.variables}
    return variables


def server_of(variables: Variables) -> Path:
    program = Path(variables.get(SERVER_VARIABLE, ""))
    if not _can_run(program):
        raise LaunchRefused(
            f"install version {_major_of(variables)} of the database server {program.name} on this machine: "
            f"it is not at {program} any more, and nowhere else"
        )
    return program


def _can_run(program: Path) -> bool:
    return program.is_file() and os.access(program, os.X_OK)


def _major_of(variables: Variables) -> str:
    return variables.get(VERSION_VARIABLE, "").partition(".")[0]


def select_passed_on(variables: Variables) -> dict[str, str]:
    kept = {name: variables[name] for name in _PASSED_VARIABLES if name in variables}
    return {"PATH": os.defpath, "LANG": "C.UTF-8"} | kept


# The data folder


def lock_data(data: Path) -> int:
    """Locks the data folder, so that only one server uses it at a time. Returns the file descriptor.

    Every process started from here inherits the file descriptor. The lock is released when the last of these
    processes has ended, so no earlier server still writes to the data when the next launcher gets the lock.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    held = filelock.open_lock_file(beside(data, "lock"))
    until, is_said = time.monotonic() + LOCK_TIMEOUT, False
    while not filelock.try_lock(held):
        if time.monotonic() > until:
            raise LaunchRefused(
                "another server still uses this data and does not end: look for it, and stop it"
            )
        if not is_said:
            say("an earlier server of this data is still ending; waiting for it")
            is_said = True
        time.sleep(0.05)
    os.set_inheritable(held, True)
    return held


def beside(data: Path, suffix: str) -> Path:
    return data.with_name(f"{data.name}.{suffix}")


def make_whole(data: Path, create_folder: Callable[[Path], None]) -> bool:
    """Creates the data folder if it is absent or empty, and returns whether it was created. The folder is
    filled under another name and renamed at the end, so that it is never incomplete."""
    unfinished = beside(data, "new")
    _clear(unfinished)
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        return False
    unfinished.mkdir(mode=0o700)
    create_folder(unfinished)
    sync(unfinished)
    unfinished.rename(data)
    sync(data.parent)
    return True


def _clear(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


# Programs


def finish(
    argv: Sequence[str | Path], lock: int, variables: Variables, stdin: str = "", *, doing: str
) -> str:
    """Runs a program to its end and returns its output. The kernel kills the program if this process ends
    first."""
    done = subprocess.run(
        argv,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=dict(variables),
        pass_fds=(lock,),
        preexec_fn=_die_with_parent(signal.SIGKILL),  # safe here: a launcher has one thread
        check=False,
    )
    if done.returncode:
        output = "\n".join(part.strip() for part in (done.stdout, done.stderr) if part.strip())
        raise LaunchRefused(f"{doing} failed ({Path(argv[0]).name} ended with {done.returncode}):\n{output}")
    return done.stdout


def become(argv: Sequence[str | Path], variables: Variables) -> NoReturn:
    """Replaces this process with the server. Signals to this process id then reach the server directly."""
    sys.stderr.flush()
    os.execve(argv[0], [str(word) for word in argv], dict(variables))  # noqa: S606 (this is the purpose)


def accompany(
    argv: Sequence[str | Path], variables: Variables, translated: Mapping[signal.Signals, signal.Signals]
) -> NoReturn:
    """Runs the server as a child process and forwards signals. `translated` maps each received signal to the
    signal with the same meaning for the server."""
    heeded: Iterable[int] = {signal.SIGCHLD, *translated}
    signal.pthread_sigmask(signal.SIG_BLOCK, heeded)
    ends = _die_with_parent(translated[signal.SIGTERM])
    child = os.fork()
    if not child:
        try:
            ends()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)
            become(argv, variables)
        except OSError as error:
            say(f"cannot start {argv[0]}: {error.strerror}")
        finally:
            os._exit(127)
    while True:
        came = signal.Signals(signal.sigwait(heeded))
        if came in translated:
            os.kill(child, translated[came])
        elif (ended := os.waitpid(child, os.WNOHANG)) != (0, 0):
            _exit_like(ended[1])


def _exit_like(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        say(f"the server was ended by {signal.Signals(-code).name}")
    sys.exit(code if code >= 0 else 128 - code)


def _die_with_parent(how: signal.Signals) -> Callable[[], None]:
    """Returns a function for `preexec_fn`: it asks the kernel to signal the child if the parent dies."""
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def promise() -> None:
        prctl(PR_SET_PDEATHSIG, int(how), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return promise
