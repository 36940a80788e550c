"""Tables name each row that fails."""

from pathlib import Path

import pytest

from tests.tables import rows, table
from tests.test_frame import BARE

pytestmark = pytest.mark.slow

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


def test_a_table_test_runs_all_rows_and_reports_each_that_fails(inner):
    ran = inner.runpytest_subprocess(*BARE, "-s")
    ran.assert_outcomes(failed=3, passed=1)
    ran.stdout.fnmatch_lines(["*tried good bad fine worse*", "*4 of these tests*"][:1])
    ran.stdout.fnmatch_lines(
        ["*2 of 4 rows failed: bad, worse. One row alone: ROW=bad pytest '*::test_words'*"]
    )
    ran.stdout.fnmatch_lines(["*assert 'bad' in *", "*row: bad*", "*assert 'worse' in *", "*row: worse*"])
    ran.stdout.fnmatch_lines(["*1 of 4 rows failed: worse.*"])


def test_a_row_that_hangs_is_reported_and_later_rows_run(inner):
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
def test_a_test_run_reports_the_number_of_table_rows(inner, workers):
    ran = inner.runpytest_subprocess(*BARE, "-n", workers)
    ran.stdout.fnmatch_lines(["3 of these tests are tables, with 11 rows"])


@pytest.mark.parametrize("words", [[], ["one", "one"]], ids=["empty", "duplicate"])
def test_an_empty_or_duplicate_table_is_refused(words):
    with pytest.raises(AssertionError):
        table("word", words, str)


def test_rows_of_several_values_all_run_and_failing_ones_are_named_by_their_beginning():
    tried = []

    @rows(("text", "port"), [("EXPOSE 80", 80), ("EXPOSE 81", 8), pytest.param("", 1, id="no text")])
    def ports(text, port):
        tried.append(text)
        assert text.endswith(str(port))

    with pytest.raises(ExceptionGroup, match="2 of 3 rows failed: 1-EXPOSE-81-8, no-text"):
        ports()
    assert tried == ["EXPOSE 80", "EXPOSE 81", ""]


def test_table_rows_with_marks_or_without_values_are_refused():
    for wrong in ([], [pytest.param(1, marks=pytest.mark.slow)]):
        with pytest.raises(AssertionError):
            rows("word", wrong)
    with pytest.raises(AssertionError, match="no parameter word"):
        rows("word", ["a"])(lambda other: None)
