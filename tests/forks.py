"""Processes born by forking from one that has imported everything: without the time that imports take.

A brood is a program that calls `obey`. It reads orders, one JSON line each, and answers each with one line:
an order of its own kind starts a process and answers its id; `{"reap": id}` waits for its end and answers its
exit status.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

_ROOT = Path(__file__).parents[1]


class Brood:
    """Starts processes of a program. They end with it."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            start_new_session=True,
        )

    def ordered(self, order: Mapping[str, Any]) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@contextmanager
def breeding(program: str) -> Iterator[Brood]:
    made = Brood(program)
    try:
        yield made
    finally:
        made.close()


def obey(be: Callable[[dict[str, Any]], None]) -> None:
    """In the program: `be` is what each ordered process does; its order says where it may `log`."""
    gc.collect()
    gc.freeze()  # else each of them would look through all that is imported, and get a copy of it
    for line in sys.stdin:
        order = json.loads(line)
        if "reap" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["reap"], 0)[1])
        else:
            answer = os.fork() or _live(be, order)
        print(answer, flush=True)


def _live(be: Callable[[dict[str, Any]], None], order: dict[str, Any]) -> NoReturn:
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, target in ((0, nothing), (1, log), (2, log)):
        os.dup2(target, number)
    try:
        be(order)
    except SystemExit as end:
        os._exit(int(end.code or 0))
    except BaseException:  # noqa: BLE001 (nothing may fall back into the loop of orders)
        traceback.print_exc()
        os._exit(70)
    os._exit(0)
