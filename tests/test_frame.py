"""The frame keeps its own promises: locks that name no registry, no silent skip, no test without an end."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.patience import dealt, together
from tests.skips import SKIPPED
from windlass.base.version import VERSION

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LOCKS = sorted(ROOT.glob("requirements/*.lock"))

BARE = ("-p", "no:schemathesis", "-p", "no:hypothesispytest")  # a second less for each inner run
SKIPPING = """
    import pytest

    @pytest.mark.skip(reason="nothing to see")
    def test_skipped(): pass

    @pytest.mark.xfail(reason="known")
    def test_expected_to_fail(): assert False

    def test_passing(): pass
"""
SKIPPED_WHOLE = """
    import pytest
    pytest.skip("not here", allow_module_level=True)
"""


@pytest.fixture
def inner(pytester):
    pytester.makeconftest((ROOT / "tests/skips.py").read_text())
    pytester.makepyfile("def test_passing(): pass")
    return pytester


def test_the_installed_version_is_the_one_in_the_code():
    packages = [file.parent.name for file in (ROOT / "packages").glob("*/pyproject.toml")]
    names = [name if name == "windlass" else f"windlass-{name}" for name in packages]
    assert len(names) > 3
    assert {version(name) for name in names} == {VERSION}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_a_hash_for_everything_and_names_no_registry(lock):
    entries = re.split(r"\n(?=\w)", lock.read_text())[1:]
    assert entries
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in lock.read_text()


def test_development_locks_contain_the_exact_versions_of_the_runtime_lock():
    run, dev = pins("run"), pins("dev")
    assert run.items() <= dev.items()


@pytest.mark.parametrize(
    ("source", "workers"),
    [(SKIPPING, "0"), (SKIPPED_WHOLE, "0"), (SKIPPING, "2")],
    ids=["test", "module", "test in a worker"],
)
def test_in_ci_a_skipped_test_fails_the_run_and_is_listed(inner, monkeypatch, source, workers):
    monkeypatch.setenv("CI", "true")
    inner.makepyfile(test_quiet=source)
    run = inner.runpytest_inprocess if workers == "0" else inner.runpytest_subprocess
    ran = run(*BARE, "-n", workers)
    assert ran.ret == SKIPPED
    ran.stdout.fnmatch_lines(["*skipped in CI, which is a failure*", "test_quiet.py*: *", "*1 skipped*in *"])
    ran.stdout.no_fnmatch_line("test_quiet.py*expected_to_fail*")


def test_outside_ci_a_skipped_test_does_not_fail_the_run(inner, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    inner.makepyfile(test_quiet=SKIPPING)
    assert inner.runpytest_inprocess(*BARE).ret == pytest.ExitCode.OK


def test_in_ci_a_run_without_skips_passes(inner, monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert inner.runpytest_inprocess(*BARE).ret == pytest.ExitCode.OK


def test_a_test_that_hangs_fails_by_timeout_and_the_next_one_runs(pytester):
    pytester.makeconftest((ROOT / "tests/patience.py").read_text())
    pytester.makepyfile("""
        import asyncio, pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio", {"use_uvloop": True}

        @pytest.fixture
        def cleaned():
            yield
            print("cleaned up")

        @pytest.mark.timeout(1)
        @pytest.mark.anyio
        async def test_waiting(cleaned):
            while True:
                await asyncio.sleep(0.01)

        @pytest.mark.anyio
        async def test_other(): pass
    """)
    ran = pytester.runpytest_subprocess(*BARE, timeout=100)
    ran.assert_outcomes(failed=1, passed=1)
    ran.stdout.fnmatch_lines(["*await asyncio.sleep(0.01)", "*cleaned up*"])


def test_a_test_whose_thread_hangs_ends_its_worker_process_and_the_next_test_runs(pytester):
    pytester.makeconftest((ROOT / "tests/patience.py").read_text().replace("GRACE = 60", "GRACE = 1"))
    pytester.makepyfile("""
        import asyncio, threading, pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio", {"use_uvloop": True}

        @pytest.mark.timeout(1)
        @pytest.mark.anyio
        async def test_waiting():
            await asyncio.to_thread(threading.Event().wait)

        def test_other(): pass
    """)
    ran = pytester.runpytest_subprocess(*BARE, "-n", "1", timeout=100)
    ran.assert_outcomes(failed=1, passed=1)
    ran.stdout.fnmatch_lines(["*crashed while running 'test_*.py::test_waiting'*"])


def test_a_slow_failure_report_does_not_end_the_run(pytester):
    pytester.makeconftest((ROOT / "tests/patience.py").read_text())
    pytester.makepyfile("""
        import time, pytest

        class Slow(Exception):
            def __str__(self):
                time.sleep(1.5)
                return "slow"

        @pytest.mark.timeout(1)
        def test_failing(): raise Slow

        def test_other(): pass
    """)
    ran = pytester.runpytest_subprocess(*BARE, timeout=100)
    ran.stdout.no_fnmatch_line("INTERNALERROR*")
    ran.stdout.fnmatch_lines(["*1 failed, 1 passed*"])


def test_each_worker_begins_with_whole_modules_of_long_tests_and_no_test_is_lost():
    longest, others = [[100, 101, 102], [103], [104]], [*range(10)]
    order = dealt(longest, others, 2)
    assert sorted(order) == [*others, *range(100, 105)]
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    assert (first[:4], second[:3]) == ([100, 101, 102, 0], [103, 104, 4])
    assert dealt(longest, others, 1) == [*range(100, 105), *others]
    assert dealt([[1, 2, 3]], [4], 2) == [1, 2, 3, 4], "a module that is more than a share stays whole"


def test_modules_that_share_a_browser_run_in_one_worker():
    assert together("tests/browser/test_a.py::test_x") == together("tests/browser/test_b.py::test_y[z]")
    assert together("tests/test_a.py::test_x[a::b]") == "tests/test_a.py"


@pytest.fixture
def fake_pip(tmp_path):
    """An interpreter's folder with a pip that says what pip says, and ends as it is told to."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/__init__.py").touch()
    (tmp_path / "pip/__main__.py").write_text("""
import os, sys
print("Collecting a==1 (from -r some.lock)")
print("Requirement already satisfied: b==2 in here")
print("Installing collected packages: a")
print("ERROR: no such luck", file=sys.stderr)
sys.exit(int(os.environ["PIP_ENDS"]))
""")
    (tmp_path / "some.lock").write_text("a==1 \\\n    --hash=sha256:00\nb==2 \\\n    --hash=sha256:00\n")
    return tmp_path


@pytest.mark.parametrize("ends", [0, 3])
def test_the_installer_shows_progress_and_the_output_of_a_failed_pip(fake_pip, ends):
    ran = subprocess.run(
        [sys.executable, ROOT / "requirements/install.py", "-r", "some.lock"],
        cwd=fake_pip,
        env={**os.environ, "PYTHONPATH": str(fake_pip), "PIP_ENDS": str(ends)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == ends
    assert ran.stdout.splitlines() == [
        "Installing 2 packages, about a minute.",
        "  2 of 2 are here; unpacking them",
    ]
    assert ("ERROR: no such luck" in ran.stderr) == bool(ends)


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / f"requirements/{lock}.lock").read_text()
    return dict(re.findall(r"^([\w.-]+(?:\[\w+\])?)==(\S+)", text, re.MULTILINE))
