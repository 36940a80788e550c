"""The list of the full interface is complete, and the page of the manual says what is true."""

from __future__ import annotations

import re

import pytest

from tests.contract.contract import is_refused
from tests.interface.coverage import (
    ANY_SERVICE,
    PAGE,
    TESTS,
    acting,
    all_listed,
    count,
    has_test,
    listed,
    read_tests,
    refused,
)
from tests.interface.page import page
from windlass.core.words.not_offered import NOT_OFFERED, why_not_offered

HERE = "tests/interface/test_coverage.py"


def test_the_operation_list_has_each_operation_once():
    routes = [operation.route for operation in all_listed() if ANY_SERVICE not in operation.path]
    assert len(routes) == len(set(routes)) == 553
    assert [family.number for family in listed()] == list(range(1, 49))
    assert {family.priority for family in listed()} == {"P0", "P1", "P2"}
    marks = "".join(operation.use for operation in all_listed())
    assert [marks.count(mark) for mark in "*TC"] == [15, 236, 144]


def test_the_coverage_page_is_up_to_date():
    assert PAGE.read_text() == page(), "run `make coverage`"


def test_every_operation_of_the_contract_is_implemented():
    contract = {operation.route for operation in all_listed() if "*" in operation.use}
    assert contract <= acting()


def test_every_not_offered_operation_is_listed_and_not_implemented():
    assert refused() <= {operation.route for operation in all_listed()}
    assert refused().isdisjoint(acting()), "take what acts now out of NOT_OFFERED"


def test_every_line_of_the_tests_file_names_an_implemented_operation_and_an_existing_test():
    lines = read_tests(TESTS.read_text())
    assert [operation for operation in lines if operation not in acting()] == []
    assert [test for test in lines.values() if not has_test(test)] == [], "run `make coverage ARGS=--record`"


def test_the_check_notices_a_test_that_no_longer_exists():
    assert has_test(f"{HERE}::test_the_check_notices_a_test_that_no_longer_exists")
    assert not has_test(f"{HERE}::test_of_another_name")
    assert not has_test("tests/interface/test_other.py::test_the_check_notices_a_test_that_no_longer_exists")


def test_an_operation_that_nothing_serves_is_counted_as_missing():
    assert count([]).all == 0
    [first, *_] = all_listed()
    missing = first._replace(path="/nowhere", use="T")
    assert count([missing])[:5] == (1, 0, 0, 0, 0)
    assert count([missing]).used_missing == 1


@pytest.mark.parametrize("base", ["", "/api/v1", "/compat"])
async def test_a_refused_operation_answers_the_reason(embedded, base):
    for reason, operations in NOT_OFFERED.items():
        for operation in operations:
            method, path = operation.split(" ")
            answer = await embedded.call(method, base + re.sub("{}", embedded.org, path))
            is_refused(answer, 501)
            assert answer.message == reason


async def test_a_refused_operation_tells_nothing_to_callers_without_a_token(embedded):
    path = f"/organization/{embedded.org}/billingInfo"
    is_refused(await embedded.get(path, token=None), 404)
    is_refused(await embedded.delete(path), 404)


def test_only_exact_paths_are_answered_as_not_offered():
    assert why_not_offered("HEAD", "/organization/a/invoice")
    assert not why_not_offered("GET", "/organization/a/invoice/")
    assert not why_not_offered("GET", "/organization/a/b/invoice")
