"""A whole Windlass that kills or stops itself at a named failpoint: real parts, a real socket, no mercy.

As a program it reads orders, one JSON line each, and answers each with one line, like tests/store/zygote.py:
`{"folder": …, "settings": …, "lease": …}` starts a victim by forking and answers its process id;
`{"reap": id}` waits for its end and answers its exit status.

A victim writes the names of the points that it comes to into the file `points` of the folder, and where it
listens into `port`. The file `doom`, which may be written at any time, says where it dies: see `Doom`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import uvloop

import windlass.builders.docker
import windlass.engines.docker
import windlass.store.postgres
import windlass.store.sqlite  # noqa: F401 (all that a server would load)
from windlass.config import Settings
from windlass.installation import install
from windlass.server import listen, serve


class Doom(msgspec.Struct, frozen=True):
    turn: int
    """Always another: a doom that is said once more begins to count once more."""
    point: str = ""
    count: int = 1
    signal: int = signal.SIGKILL
    lot: str = ""
    """A file. Where several are told the same, only who takes it away is meant."""


class Fate:
    """Notes every point that is reached, and ends the process at the one that is its doom."""

    def __init__(self, folder: Path) -> None:
        self._points = os.open(folder / "points", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = folder / "doom"
        self._said, self._doom, self._passed = b"", Doom(0), 0

    async def point(self, name: str) -> None:
        os.write(self._points, f"{name}\n".encode())
        self._look()
        if name == self._doom.point:
            self._passed += 1
            if self._passed == self._doom.count and _drawn(self._doom.lot):
                os.kill(os.getpid(), self._doom.signal)

    def _look(self) -> None:
        said = self._file.read_bytes()
        if said != self._said:
            self._said, self._doom, self._passed = said, msgspec.json.decode(said, type=Doom), 0


def _drawn(lot: str) -> bool:
    try:
        if lot:
            Path(lot).unlink()
    except FileNotFoundError:
        return False
    return True


async def live(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    settings = Settings(**order["settings"])
    listening = listen("127.0.0.1", 0)
    given = {"lease": order["lease"]} if "lease" in order else {}
    installation = await install(settings, point=Fate(folder).point, **given)

    def announce(port: int) -> None:
        (folder / "port.new").write_text(str(port))
        (folder / "port.new").rename(folder / "port")

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
    await serve(installation, listening, announce)


def tell() -> None:
    """What everything waits for, for who wants to know why nothing moves."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()


def be(order: dict[str, Any]) -> NoReturn:
    log = os.open(Path(order["folder"]) / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, target in ((0, nothing), (1, log), (2, log)):
        os.dup2(target, number)
    try:
        uvloop.run(live(order))
    except BaseException:  # noqa: BLE001 (nothing may fall back into the loop of orders)
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def obey(order: dict[str, Any]) -> int:
    if "reap" in order:
        return os.waitstatus_to_exitcode(os.waitpid(order["reap"], 0)[1])
    return os.fork() or be(order)


if __name__ == "__main__":
    for line in sys.stdin:
        print(obey(json.loads(line)), flush=True)
