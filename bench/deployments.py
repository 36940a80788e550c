"""What deployments are measured with: their bare effects, and ears for their end."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.machine import ROOT, SERVER_CORE, ended
from bench.servers import Windlass

REST: Final = 1.0
"""Seconds in which the machine comes to rest after each deployment."""
_PATIENCE: Final = 60.0
_DOCKER: Final = "/var/run/docker.sock"


def docker_answers() -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(_DOCKER)
    except OSError:
        return False
    return True


class BareEffects:
    """See bench/deployer.py; on the core of servers, as everything that Windlass starts."""

    def __init__(self, image: str, repository: str = "-", commit: str = "-") -> None:
        words = [repository, commit, image, python(), "main.py"]
        self._process = subprocess.Popen(
            ["taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "bench.deployer", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def one(self, effects: str) -> float:
        return self._ask(f"one {effects}")

    def many(self, engine: str, count: int, at_once: int) -> float:
        return self._ask(f"many {engine} {count} {at_once}")

    def _ask(self, line: str) -> float:
        """Nothing of it is left when it answers."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        took = float(self._process.stdout.readline())
        time.sleep(REST)
        return took

    def stop(self) -> None:
        ended(self._process)


class Ears:
    """Hears of what happens when it does: looking again and again would be in the way of what is measured."""

    def __init__(self, server: Windlass) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_PATIENCE)
        headers = {"Authorization": f"Token {server.token}"}
        connection.request("GET", f"/organization/{server.org}/events/stream", headers=headers)
        self._stream = connection.getresponse()

    def hear(self, word: str, apps: Sequence[str]) -> None:
        """Comes back when this has been said of each."""
        missing = set(apps)
        while missing:
            line = self._stream.readline()
            if not line:
                raise RuntimeError("the stream of events ended")
            if line.startswith(b"data:"):
                event = json.loads(line.removeprefix(b"data:"))
                if "FAILED" in event["event_type"]:
                    raise RuntimeError(line.decode())
                if event["event_type"] == word:
                    missing.discard(event["target_id"])


def python() -> str:
    return str(Path(sys.executable).resolve())
