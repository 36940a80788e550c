"""The command line: from the command to its answer, against the start of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from bench.machine import Failed
from bench.measure import Bench, Line, Target
from bench.servers import windlass

_WINDLASS = (sys.executable, "-m", "windlass")
_NOTHING = (sys.executable, "-c", "pass")


def run(bench: Bench) -> list[Line]:
    with windlass(bench.folder / "commands") as server:
        for number in range(20):
            server.ask("POST", f"/organization/{server.org}/project", {"name": f"p{number}"})
        environment = {
            **os.environ,
            "WINDLASS_URL": f"http://127.0.0.1:{server.port}",
            "WINDLASS_TOKEN": server.token,
            "XDG_CACHE_HOME": str(bench.folder / "cache"),
        }
        lines = [
            ("windlass --help", ["--help"], 0.15),
            ("windlass application --help", ["application", "--help"], 0.15),
            ("windlass project list, with 20 projects", ["project", "list"], 0.25),
            ("windlass ps", ["ps"], 0.25),
        ]
        return [_line(bench, what, words, target, environment) for what, words, target in lines]


def _line(
    bench: Bench, what: str, words: Sequence[str], target: float, environment: Mapping[str, str]
) -> Line:
    _seconds([*_WINDLASS, *words], environment)  # the first call of all also makes the table of commands
    turns = [
        (_seconds([*_WINDLASS, *words], environment), _seconds(_NOTHING, environment))
        for _ in range(bench.effort.starts)
    ]
    ours, limit = zip(*turns, strict=True)
    return Line(what=what, unit="s", ours=list(ours), limit=list(limit), target=Target(target, "≤", "s"))


def _seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    ended = subprocess.run(command, env=environment, capture_output=True)
    seconds = time.perf_counter() - began
    if ended.returncode != 0:
        raise Failed(ended.stderr.decode()[-2000:])
    return seconds
