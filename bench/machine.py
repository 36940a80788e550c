"""The machine: which core does what, programs started on a core, and the line that describes it all."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

T = TypeVar("T")

ROOT = Path(__file__).parent.parent
_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = _CORES[0]
LOAD_CORE = _CORES[min(1, len(_CORES) - 1)]
# A third core is for PostgreSQL; where there is none, the load has to share its own.
DATABASE_CORE = _CORES[min(2, len(_CORES) - 1)]


_PATIENCE = 10.0


class Failed(Exception):
    """A program that is measured, or measures, does not do what it should."""


class GaveUp(Exception):
    """A case took longer than it may."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raises `GaveUp` wherever the main thread is when the time is over."""

    def give_up(*_: object) -> None:
        raise GaveUp(f"given up after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def stay_on(core: int) -> None:
    os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def on_all_cores() -> Iterator[None]:
    """For a program of many processes of its own, such as a browser: one core would be shared by all of them
    and by what drives them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def start(
    command: Sequence[str], core: int, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """A program on one core from its first instruction on; what it says goes to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**_clean(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: stay_on(core),
        )


def run_module(module: str, given: bytes, core: int) -> bytes:
    """Runs a module of ours to its end on one core: JSON in, JSON out."""
    return subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env=_clean(),
        input=given,
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: stay_on(core),
    ).stdout


class Asked:
    """A module of ours in a process of its own on one core: told once what it is about, then asked line by
    line. JSON in, JSON out."""

    def __init__(self, module: str, given: Any, core: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env=_clean(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=lambda: stay_on(core),
        )
        self._write(given)

    def ask(self, question: Any, answer: type[T]) -> T:
        self._write(question)
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise Failed("a process of the benchmark has ended; it has said why")
        return msgspec.json.decode(line, type=answer)

    def _write(self, given: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(msgspec.json.encode(given) + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        ended(self._process)


def ended(process: subprocess.Popen[Any]) -> None:
    """Closes the input of a process, with which it ends; kills it if it does not."""
    try:
        process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _clean() -> dict[str, str]:
    """Returns our environment without settings of Windlass. Programs keep their bytecode, as usual: otherwise
    each start of a clone that was never compiled would compile all of it again."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("WINDLASS_") and name != "PYTHONDONTWRITEBYTECODE"
    }


def resident(pid: int) -> float:
    """Memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def computed(pid: int) -> float:
    """Seconds that all threads of a process have computed."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def described(folder: Path) -> str:
    return (
        f"{len(_CORES)} cores of {_processor()}, Linux {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}; making 4 KiB durable took "
        f"{_syncing(folder):.0f} µs, and the load average before was {os.getloadavg()[0]:.1f}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _syncing(folder: Path, times: int = 200) -> float:
    """What the disk takes for the least that a durable write can be: a median, in µs."""
    taken = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6
