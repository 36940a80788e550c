"""Each run has the tests of its marks, in its size."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TESTS = """
    import pytest
    from hypothesis import given, settings, strategies as st
    from tests.marks import either, examples, nightly, slow

    @given(st.integers())
    def test_property(number): print("property", settings.default.max_examples)

    @examples(3)
    @given(st.integers())
    def test_small_property(number): print("small")

    def test_sized(): print("size", either(1, 100))

    @pytest.mark.slow
    def test_slow(): print("slow")

    @pytest.mark.nightly
    def test_nightly(): print("nightly")

    @pytest.mark.parametrize("place", ["here", *slow("there"), *nightly("far")])
    def test_rows(place): print("row", place)

    @pytest.mark.slow
    @pytest.mark.parametrize(("place", "number"), [("one", 1), *nightly(("two", 2))])
    def test_slow_rows(place, number): print("slow row", place)

    @pytest.mark.nightly
    class TestOtherPlace:
        def test_shared(self): print("shared")

        @pytest.mark.essential
        def test_essential(self): print("essential")
"""
QUICK = {"row here"}
CI = {"slow", "row there", "slow row one", "essential"}
NIGHTLY = {"nightly", "row far", "slow row two", "shared"}


@pytest.fixture
def inner(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest('pytest_plugins = ["tests.marks"]')
    pytester.makeini("[pytest]\nmarkers =\n  slow\n  nightly\n  essential")
    pytester.makepyfile(TESTS)
    return pytester


@pytest.mark.parametrize(
    ("run", "printed", "small", "count"),
    [
        ("quick", {"property 50", "size 1", *QUICK}, 3, 4),
        ("ci", {"property 50", "size 1", *QUICK, *CI}, 3, 8),
        ("nightly", {"property 500", "size 100", *QUICK, *CI, *NIGHTLY}, 30, 12),
    ],
)
def test_each_size_of_a_test_run_includes_the_tests_of_its_marks(
    inner, monkeypatch, run, printed, small, count
):
    monkeypatch.setenv("WINDLASS_TESTS", run)
    ran = inner.runpytest_subprocess("-s", "-p", "no:schemathesis")
    ran.assert_outcomes(passed=count, deselected=12 - count)
    lines = {line.lstrip(".") for line in ran.outlines}
    assert printed <= lines
    assert lines.isdisjoint({*QUICK, *CI, *NIGHTLY} - printed)
    assert ran.stdout.str().count("small") == small


def test_a_test_given_by_name_runs_whatever_its_mark(inner, monkeypatch):
    monkeypatch.setenv("WINDLASS_TESTS", "quick")
    file = next(inner.path.glob("test_*.py"))
    ran = inner.runpytest_subprocess(f"{file.name}::test_nightly", "-p", "no:schemathesis")
    ran.assert_outcomes(passed=1)
