"""How a program is started: so that it is never running without being written down.

The child first becomes a shell that waits for a word on its standard input. Meanwhile its identity is
recorded, its limits are set and its cgroup is entered; then the word is said and the shell becomes the
program. If Windlass is killed before, the shell reads the end of the pipe and ends without having done
anything. So every program that runs is one that a record names.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.engines.engine import EngineError
from windlass.engines.process import kernel
from windlass.engines.process.kernel import Process
from windlass.engines.process.output import prepare

_SHELL: Final = "/bin/sh"
_WAIT: Final = 'read -r word && [ "$word" = go ] && exec "$@" < /dev/null; exit 125'
# A shell does not hand on variables whose names it could not have itself, such as `spring.profile`; and a
# machine may have none. Python does and is there, but takes ten times as long.
_SLOW: Final = (
    "import os, sys\n"
    "if os.read(0, 3) == b'go\\n':\n"
    "    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)\n"
    "    try: os.execvp(sys.argv[1], sys.argv[1:])\n"
    "    except OSError as error: sys.exit(f'{sys.argv[1]}: {error.strerror}')\n"
    "sys.exit(125)"
)
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UMASK: Final = 0o022
_FILES: Final = 65_536
_NO_NEW_PRIVILEGES: Final = 38


class Birth(Struct, frozen=True):
    """What is to be started."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    output: Path


class Nursery:
    """The thread that everything is started from. What it may not do, its children may not either: it has
    given up ever to gain privileges, which to do between fork and exec would not be safe."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "windlass-starts", initializer=_renounce)

    def close(self) -> None:
        self.thread.shutdown()


def _renounce() -> None:
    if kernel.libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError("this kernel cannot take the right to gain privileges from a program")


def start(birth: Birth, record: Callable[[Process], None]) -> Process:
    """In the nursery. `record` is called between the birth and the first instruction of the program."""
    ours, theirs = os.pipe()
    try:
        process = _waiting(birth, ours)
    except (OSError, ValueError) as error:  # the latter of a variable with a NUL in it
        os.close(theirs)
        raise EngineError(f"no process can be started: {getattr(error, 'strerror', error)}") from error
    finally:
        os.close(ours)
    try:
        _limit(process.pid)
        record(process)
        with suppress(BrokenPipeError):  # killed already; whoever watches will see
            os.write(theirs, b"go\n")
    except BaseException:
        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        raise
    finally:
        os.close(theirs)
    return process


def _waiting(birth: Birth, ours: int) -> Process:
    output = os.open(birth.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        prepare(output)
        child = subprocess.Popen(
            [*_waiter(birth.environment), *birth.command],
            cwd=birth.folder,
            env=birth.environment,
            stdin=ours,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=_UMASK,
        )
    finally:
        os.close(output)
    # From here on the kernel is asked, by a descriptor of the process, who also tells of those adopted.
    child.returncode = 0
    process = kernel.identify(child.pid)
    assert process is not None  # a child is there until we bury it
    return process


def _waiter(environment: Mapping[str, str]) -> list[str]:
    if all(map(_PLAIN.match, environment)) and os.access(_SHELL, os.X_OK):
        return [_SHELL, "-c", _WAIT, "sh"]
    return [sys.executable, "-I", "-S", "-c", _SLOW]


def _limit(pid: int) -> None:
    with suppress(ProcessLookupError):
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        files = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, files))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def beside(birth: Birth, output: int) -> subprocess.Popen[bytes]:
    """In the nursery. A program that is awaited, and not kept."""
    return subprocess.Popen(
        birth.command,
        cwd=birth.folder,
        env=birth.environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        umask=_UMASK,
    )
