"""A whole Windlass that kills or stops itself at a named failpoint: real parts, a real socket, no mercy.

An order for one is `{"folder": …, "settings": …, "lease": …, "log": …}`: see tests/forks.py.

A victim writes the names of the points that it comes to into the file `points` of the folder, and where it
listens into `port`. The file `doom`, which may be written at any time, says where it dies: see `Doom`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

import windlass.docker.builds.builder
import windlass.docker.engine
import windlass.store.postgres
import windlass.store.sqlite  # noqa: F401 (all that a server would load)
from tests.forks import obey
from tests.tasks import with_tasks
from windlass.base.isolation.isolation import Isolation
from windlass.config import Settings
from windlass.install.installation import install
from windlass.serve.server import listen, serve


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
    listening = listen(settings.host, order["settings"].get("port", 0))
    given = {"lease": order["lease"]} if "lease" in order else {}
    installation = await install(settings, point=Fate(folder).point, **with_tasks(), **given)

    def announce(port: int) -> None:
        (folder / "port.new").write_text(str(port))
        (folder / "port.new").rename(folder / "port")

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
    await installation.start()
    await serve(installation, listening, announce)


def tell() -> None:
    """Prints what all tasks wait for, to find out why nothing progresses."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()


def be(order: dict[str, Any]) -> None:
    uvloop.run(live(order))


if __name__ == "__main__":
    Isolation("auto", Path("/nowhere")).missing()  # the kernel is probed once for all of them
    obey(be)
