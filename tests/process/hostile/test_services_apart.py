"""Services of the engine of processes, and their builds, do not get at anything that is not their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests import source
from tests.marks import nightly
from tests.needs import needs_root, ordinary_user

pytestmark = pytest.mark.slow

ROOT = pytest.param("root", marks=needs_root)
AS = pytest.mark.parametrize("user", [ROOT, *nightly("ordinary")])
WHEN = pytest.mark.parametrize("when", ["runs", "builds"])

# An ordinary user lacks rights that these need.
_NOT_FOR_ORDINARY = {"write to /etc", "write to /usr", "become root"}


@cache
def worked(user: str, mode: str, when: str) -> frozenset[str]:
    """Returns the attacks that worked (stage.py)."""
    before = ordinary_user() if user == "ordinary" and not os.geteuid() else ()
    command = [*before, sys.executable, "-m", "tests.process.hostile.stage", mode, when]
    done = subprocess.run(command, capture_output=True, text=True, cwd=source.ROOT, check=False)
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(results) == 1, done.stdout + done.stderr
    return frozenset(json.loads(results[0].removeprefix("RESULT ")))


def everything(user: str) -> frozenset[str]:
    from tests.process.hostile import attempts

    told = dict.fromkeys(
        [
            "server",
            "victim",
            "data",
            "home",
            "volume",
            "built",
            "own",
            "temporary",
            "shared",
            "number",
            "socket",
            "private",
        ],
        "/x/y",
    )
    found = {what for what, _, _ in attempts.attempts(told)}
    return frozenset(found - _NOT_FOR_ORDINARY if user == "ordinary" else found)


@AS
@WHEN
def test_no_attack_of_a_hostile_service_succeeds(user, when):
    assert worked(user, "required", when) == frozenset()


@AS
@WHEN
@pytest.mark.nightly
def test_without_isolation_each_of_the_attempts_works(user, when):
    assert worked(user, "off", when) >= everything(user)


@needs_root
def test_root_isolates_services_without_user_namespaces_too():
    without = Path(__file__).parents[1] / "databases/without_namespaces.py"
    command = [
        sys.executable,
        "-I",
        str(without),
        sys.executable,
        "-m",
        "tests.process.hostile.stage",
        "required",
        "runs",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=source.ROOT, check=False)
    assert "RESULT []" in done.stdout.splitlines(), done.stdout + done.stderr
