"""CI runs tests that failed again, alone, and says so; a broken test fails it all the same."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.nightly

STEADY = Path(__file__).parents[1] / ".ci/steady"
# Without the other plugins, a run takes a third of the time.
FEW_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin -p pytest_timeout"}

PASSING = "def test_passing(): pass\n"
FAILING = "def test_failing(): assert False, 'always'\n"
FAILING_ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("name", ["a name [with] blanks"])
def test_racing(name):
    first = not Path("ran").exists()
    with Path("ran").open("a") as ran:
        ran.write("x")
    assert not first, "the first time"
"""
FOUR = "import pytest\n@pytest.mark.parametrize('number', range(4))\ndef test_failing(number): assert False\n"
RACING = "test_it.py::test_racing[a name [with] blanks]"


class Ran(NamedTuple):
    status: int
    output: str
    unsteady: str


@pytest.fixture
def run(tmp_path):
    def run(source: str, *options: str) -> Ran:
        (tmp_path / "pytest.ini").touch()
        (tmp_path / "test_it.py").write_text(PASSING + source)
        told = tmp_path / "unsteady"
        told.touch()
        ran = subprocess.run(
            [sys.executable, STEADY, Path(sys.executable).with_name("pytest"), *options],
            cwd=tmp_path,
            env={**os.environ, **FEW_PLUGINS, "UNSTEADY": str(told)},
            capture_output=True,
            text=True,
        )
        return Ran(ran.returncode, ran.stdout, told.read_text())

    return run


def test_a_test_that_failed_once_and_then_passes_three_times_is_reported_as_unsteady(run, tmp_path):
    ran = run(FAILING_ONCE)
    assert ran.status == 0, ran.output
    assert ran.unsteady.startswith("UNSTEADY: these tests failed once and passed three times alone")
    assert f"\n  {RACING}\n" in ran.unsteady
    assert "AssertionError: the first time" in ran.unsteady
    assert (tmp_path / "ran").read_text() == "xxxx"


@pytest.mark.parametrize(
    ("source", "again"), [(FAILING, 1), (FOUR, 0)], ids=["fails always", "four failures"]
)
def test_a_test_that_fails_again_or_more_than_three_failures_fail_the_run(run, source, again):
    ran = run(source)
    assert (ran.status, ran.unsteady) == (1, "")
    assert ran.output.count("= FAILURES =") == 1 + again


def test_a_run_that_ended_for_another_reason_than_failed_tests_is_not_repeated(run):
    """As a skipped test ends it in CI."""
    ran = run(FAILING + "def test_ending():\n    import pytest\n    pytest.exit('enough', 10)\n")
    assert (ran.status, ran.unsteady) == (10, "")
    assert "times again" not in ran.output
