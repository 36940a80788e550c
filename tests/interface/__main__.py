"""`python -m tests.interface [--record [tests …]]` writes the page of the manual, and prints its table.

With `--record` it runs tests first, and notes in `tests.txt` which operations succeed in them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.interface.coverage import PAGE, TESTS, has_test, read_tests, route
from tests.interface.page import page, table


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--record"]:
        record(arguments[1:] or ["tests"])
    PAGE.write_text(page())
    print(table())


def record(tests: Sequence[str]) -> None:
    """Keeps the test of each operation that has one; an operation without gets the first that was found."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", *tests]
        subprocess.run(command, env={**os.environ, "WINDLASS_RECORD_CALLS": folder}, check=False)
        found = dict(sorted(recorded(Path(folder)), reverse=True))
    known = read_tests(TESTS.read_text()) if TESTS.exists() else {}
    kept = {operation: test for operation, test in known.items() if has_test(test)}
    TESTS.write_text(
        "".join(f"{operation} {test}\n" for operation, test in sorted({**found, **kept}.items()))
    )


def recorded(folder: Path) -> Iterator[tuple[str, str]]:
    for file in folder.iterdir():
        for line in set(file.read_text().splitlines()):
            method, path, test = line.split(" ")
            yield route(method, path), test


if __name__ == "__main__":
    main(sys.argv[1:])
