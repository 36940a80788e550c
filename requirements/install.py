"""Installs what a lock names, with pip, and says how far it is: a line now and then, as a CI log wants it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

EVERY = 10.0
"""Seconds after which another line is due."""
EACH = 2.0
"""Seconds for a package over a usual line, from what it took here."""
LOCKED = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*==", re.MULTILINE)


def main(*options: str) -> int:
    count = sum(len(LOCKED.findall(Path(file).read_text())) for file in _locks(options))
    print(f"Installing {count} packages, {_long(count * EACH)}.", flush=True)
    return _installed(options, count)


def _locks(options: tuple[str, ...]) -> Iterator[str]:
    return (file for option, file in itertools.pairwise(options) if option == "-r")


def _long(seconds: float) -> str:
    minutes = round(seconds / 60)
    return "about a minute" if minutes <= 1 else f"about {minutes} minutes"


def _installed(options: tuple[str, ...], count: int) -> int:
    """What pip says is shown if it fails."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--no-input",
        "--progress-bar",
        "off",
    ]
    said: list[str] = []
    collected, due = 0, time.monotonic() + EVERY
    with subprocess.Popen(
        [*pip, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line)
            collected += line.startswith(("Collecting ", "Requirement already satisfied: "))
            if line.startswith("Installing collected packages"):
                print(f"  {collected} of {count} are here; unpacking them", flush=True)
                due = float("inf")
            elif time.monotonic() >= due:
                print(f"  {collected} of {count}", flush=True)
                due = time.monotonic() + EVERY
    if running.returncode:
        print("".join(said), file=sys.stderr, end="")
    return running.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
