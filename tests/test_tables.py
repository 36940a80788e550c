"""Tables name each row that fails, and the quick and the long form divide the tests between them."""

from pathlib import Path

import pytest

from tests.tables import table
from tests.test_frame import BARE

pytestmark = pytest.mark.elsewhere

ROOT = Path(__file__).parents[1]
ROWS = """
    import asyncio, pytest
    from tests.tables import table

    every_word = table("word", ["good", "bad", "fine", "worse"], str)
    tried = []

    @pytest.fixture
    def shared():
        return tried

    @every_word
    def test_words(shared, word):
        shared.append(word)
        assert word in {"good", "fine"}

    def test_all_were_tried():
        print("tried", *tried)

    @pytest.mark.anyio
    @every_word
    async def test_slow_words(word):
        await asyncio.sleep(0)
        assert word != "worse"

    @pytest.mark.anyio
    @table("word", ["quick", "endless", "last"], str)
    async def test_words_that_take_long(word):
        while word == "endless":
            await asyncio.sleep(0.01)
"""


@pytest.fixture
def inner(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("ROW", raising=False)
    pytester.makeconftest("""
        import pytest, tests.tables
        pytest_plugins = ["tests.tables"]
        tests.tables.ROW_SECONDS = 0.5

        @pytest.fixture
        def anyio_backend():
            return "asyncio"
    """)
    pytester.makepyfile(ROWS)
    return pytester


def test_a_table_runs_all_its_rows_and_names_each_that_fails(inner):
    ran = inner.runpytest_subprocess(*BARE, "-s")
    ran.assert_outcomes(failed=3, passed=1)
    ran.stdout.fnmatch_lines(["*tried good bad fine worse*", "*4 of these tests*"][:1])
    ran.stdout.fnmatch_lines(
        ["*2 of 4 rows failed: bad, worse. One row alone: ROW=bad pytest '*::test_words'*"]
    )
    ran.stdout.fnmatch_lines(["*assert 'bad' in *", "*row: bad*", "*assert 'worse' in *", "*row: worse*"])
    ran.stdout.fnmatch_lines(["*1 of 4 rows failed: worse.*"])


def test_a_row_without_an_end_is_named_and_the_rows_after_it_run(inner):
    ran = inner.runpytest_subprocess(*BARE, "-k", "long")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*1 of 3 rows failed: endless.*"])


def test_one_row_can_be_run_alone(inner, monkeypatch):
    monkeypatch.setenv("ROW", "fine")
    inner.runpytest_subprocess(*BARE, "-k", "test_words").assert_outcomes(passed=1, skipped=1)
    monkeypatch.setenv("ROW", "bad")
    ran = inner.runpytest_subprocess(*BARE, "-k", "test_words and not long")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*1 of 4 rows failed: bad.*"])


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_says_how_many_rows_it_has_tried(inner, workers):
    ran = inner.runpytest_subprocess(*BARE, "-n", workers)
    ran.stdout.fnmatch_lines(["3 of these tests are tables, with 11 rows"])


@pytest.mark.parametrize("rows", [[], ["one", "one"]], ids=["none", "twins"])
def test_a_table_that_would_promise_less_than_it_says_is_refused(rows):
    with pytest.raises(AssertionError):
        table("word", rows, str)


FORMS = """
    import pytest
    from hypothesis import given, settings, strategies as st
    from tests.forms import either, elsewhere, examples

    @given(st.integers())
    def test_property(number): print("property", settings.default.max_examples)

    @examples(3)
    @given(st.integers())
    def test_small_property(number): print("small")

    @pytest.mark.sized
    def test_sized(): print("sized", either(1, 100))

    @pytest.mark.sized
    @pytest.mark.repeatable
    def test_repeatable(): print("repeatable", either(1, 100, repeatable=True))

    @pytest.mark.long
    def test_long(): print("only long")

    def test_plain(): print("only quick")

    @pytest.mark.parametrize("place", ["here", *elsewhere("there")])
    def test_rows(place): print("row", place)

    @pytest.mark.parametrize(("place", "number"), elsewhere(("both", 2)))
    def test_pairs(place, number): print("row", place, number)

    @pytest.mark.elsewhere
    @pytest.mark.parametrize("place", elsewhere("far"))
    def test_far(place): print("row", place)

    @pytest.mark.alike
    @pytest.mark.parametrize("place", elsewhere("alike"))
    def test_alike(place): print("row", place)

    @pytest.mark.elsewhere
    class TestOtherPlace:
        def test_shared(self): print("shared")

        @pytest.mark.essential
        def test_essential(self): print("essential")

        @pytest.mark.sized
        def test_crowd(self): print("crowd", either(1, 100))

        @pytest.mark.long
        def test_too_long(self): print("too long")
"""


THERE = {"row there", "row both 2", "shared"}
LONG = {"only long", "too long", "row far", "row alike"}
HERE = {"only quick", "row here", "essential"}


@pytest.mark.parametrize(
    ("form", "said", "unsaid", "small", "count"),
    [
        ("quick", {"property 50", "sized 1", "repeatable 1", *HERE}, {*LONG, *THERE, "crowd"}, 3, 7),
        ("long", {"property 500", "sized 100", "repeatable 100", "crowd 100", *LONG, *THERE}, HERE, 30, 12),
        (
            "fixed",
            {"property 150", "repeatable 100", "crowd 1", *THERE},
            {*LONG, "sized", "crowd 100", *HERE},
            9,
            7,
        ),
    ],
)
def test_each_form_runs_its_tests_in_its_size(pytester, monkeypatch, form, said, unsaid, small, count):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("WINDLASS_TEST_FORM", form)
    pytester.makeconftest('pytest_plugins = ["tests.forms"]')
    pytester.makeini("[pytest]\nmarkers =\n  elsewhere\n  alike\n  essential\n  long\n  sized\n  repeatable")
    pytester.makepyfile(FORMS)
    ran = pytester.runpytest_subprocess("-s", "-p", "no:schemathesis")
    lines = ran.outlines
    ran.assert_outcomes(passed=count, deselected=15 - count)
    printed = "\n".join(lines)
    assert all(word in printed for word in said)
    assert not any(word in printed for word in unsaid)
    assert printed.count("small") == small
