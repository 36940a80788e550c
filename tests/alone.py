"""Runs the suite of a package where only that package is installed, with what it depends on.

    python -m tests.alone PACKAGE [option of pytest …]

It makes an environment in `.venv/alone/PACKAGE`, of the versions and hashes in requirements/dev.lock, and
says how long the suite took.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.source import ROOT
from tests.suites import PACKAGES, closure, project

TOOLS: Final = (
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "anyio",
    "hypothesis",
    "joserfc",
    "uvloop",
    "hpack",
)
"""What suites need besides: the last four make examples and tokens, and are the event loop and the clients of
HTTP/2 of the tests."""
LOCK: Final = ROOT / "requirements/dev.lock"
_ENTRY: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==.*(?:\n[ #].*)*\n", re.MULTILINE)


def dependencies(package: str) -> set[str]:
    """Returns the names of all distributions that a package and the tools of tests need."""
    extras = (word for words in project(package).get("optional-dependencies", {}).values() for word in words)
    own = (word for name in closure(package) for word in project(name)["dependencies"])
    found: set[str] = set()
    waiting = list(_names((*TOOLS, *own, *extras), set()))
    while waiting:
        name, wanted = waiting.pop()
        if name not in found and not name.startswith("windlass-"):
            found.add(name)
            waiting += _names(requires(name) or (), wanted)
    return found


def _names(words: Iterable[str], extras: set[str]) -> Iterator[tuple[str, set[str]]]:
    for requirement in map(Requirement, words):
        environments = [{"extra": extra} for extra in ("", *extras)]
        if not requirement.marker or any(map(requirement.marker.evaluate, environments)):
            yield canonicalize_name(requirement.name), requirement.extras


def locked(names: set[str]) -> str:
    """Returns the entries of the lock for some distributions."""
    entries: dict[str, str] = {
        canonicalize_name(entry[1]): entry[0] for entry in _ENTRY.finditer(LOCK.read_text())
    }
    return "".join(entries[name] for name in sorted(names))


def install(package: str, home: Path) -> Path:
    """Makes an environment with a package and what it needs, and returns its interpreter.

    What comes from the lock stays for the next time, if the lock still names the same."""
    python, kept = home / "bin/python", home / "alone.lock"
    lock = locked(dependencies(package))
    if not kept.exists() or kept.read_text() != lock:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        part = home / "part.lock"
        part.write_text(lock)
        _pip(python, "install", "--no-deps", "--require-hashes", "-r", str(part))
        part.rename(kept)
    with tempfile.TemporaryDirectory() as folder:
        sources = [str(ROOT / "packages" / name) for name in sorted(closure(package))]
        _pip(Path(sys.executable), "wheel", "--no-deps", "--no-build-isolation", "-w", folder, *sources)
        wheels = map(str, Path(folder).glob("*.whl"))
        _pip(python, "install", "--no-deps", "--no-index", "--force-reinstall", *wheels)
    _pip(python, "check")
    return python


def _pip(python: Path, command: str, *options: str) -> None:
    quiet = ("--quiet", *(("--no-warn-script-location",) if command == "install" else ()))
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", command, *quiet, *options]
    subprocess.run(pip, check=True)


def main(package: str = "", *options: str) -> int:
    if package not in PACKAGES:
        print(f"Name a package: {', '.join(PACKAGES)}", file=sys.stderr)
        return 2
    began = time.monotonic()
    python = install(package, ROOT / ".venv/alone" / package)
    print(f"windlass-{package} is installed alone, in {time.monotonic() - began:.0f} s.", flush=True)
    began = time.monotonic()
    pytest = [str(python), "-m", "pytest", "-p", "no:cacheprovider", f"tests/{package}", *options]
    done = subprocess.run(pytest, cwd=ROOT, check=False)
    print(f"The suite of windlass-{package} took {time.monotonic() - began:.0f} s.")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
