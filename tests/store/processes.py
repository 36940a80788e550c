"""Servers as processes, to be killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

from tests.forks import Brood
from tests.store.stores import Place
from tests.world import ADMIN

PROGRAM = "tests.store.zygote"
"""The module that starts the servers."""
ALONE = {"WINDLASS_ENGINE": "process", "WINDLASS_GATEWAY_PORT": "0"}
"""Needs nothing that this machine may have or lack, and is in the way of no other server."""
LISTENS = re.compile(r"listens on (http://\S+)")


class Server:
    """One `windlass serve`, from its start to its end."""

    def __init__(self, brood: Brood, place: Place) -> None:
        self._brood = brood
        self._log = place.folder / "server.log"
        self._log.write_text("")
        environment = {
            "WINDLASS_ADMIN_TOKEN": ADMIN,
            "WINDLASS_RATE_LIMIT": "1000000000",
            "WINDLASS_DATABASE_URL": place.url,
            **ALONE,
        }
        argv = ["serve", "--port", "0", "--data-dir", str(place.folder)]
        self._id = brood.ordered({"argv": argv, "env": environment, "log": str(self._log)})

    @property
    def said(self) -> str:
        return self._log.read_text()

    async def listening(self) -> str:
        """Its address, once it answers."""
        while not (found := LISTENS.search(self.said)):
            assert self._is_alive(), self.said
            await asyncio.sleep(0.003)
        return found[1]

    def _is_alive(self) -> bool:
        state = Path(f"/proc/{self._id}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Ends it, waits until it is gone, and answers its exit status."""
        os.kill(self._id, number)
        return self._brood.ordered({"reap": self._id})
