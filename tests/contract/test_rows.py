"""Each row of the contract is named by a test of this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import tests.contract
from tests.contract.rows import LATER, ROWS


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(tests.contract.__path__):
        if found.name.startswith("test_"):
            yield importlib.import_module(f"{tests.contract.__name__}.{found.name}")


def named(marks: Iterable[Any]) -> Iterator[str]:
    """The rows that marks name, those of parameters included."""
    for mark in marks:
        if mark.name == "row":
            yield from mark.args
        if mark.name == "parametrize":
            yield from (name for value in mark.args[1] for name in named(getattr(value, "marks", ())))


def kept() -> set[str]:
    """The rows that some test names."""
    return {
        name
        for module in modules()
        for word, thing in vars(module).items()
        if word.startswith("test_")
        for name in named(getattr(thing, "pytestmark", ()))
    }


def test_every_row_of_the_contract_is_named_by_a_test() -> None:
    assert set(ROWS) - kept() == set()


def test_no_test_names_a_row_that_the_contract_does_not_have() -> None:
    assert kept() - set(ROWS) == set()


def test_features_announced_for_later_are_no_rows_of_the_contract() -> None:
    assert not LATER.keys() & {*ROWS, *kept()}


def test_the_table_of_contract_rows_has_no_duplicates() -> None:
    assert len(set(ROWS)) == len(ROWS)


def test_a_row_that_no_test_names_would_be_found() -> None:
    assert {*ROWS, "4.16"} - kept() == {"4.16"}
