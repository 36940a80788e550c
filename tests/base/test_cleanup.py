"""Cleanup after work that fails halfway."""

from __future__ import annotations

import asyncio

import pytest

from windlass.base.cleanup import on_failure


@pytest.mark.parametrize(
    "kind", [OSError, KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit]
)
def test_any_exception_undoes_the_work_and_goes_on(kind: type[BaseException]) -> None:
    undone: list[str] = []
    with pytest.raises(kind), on_failure(lambda: undone.append("undone")):
        raise kind
    assert undone == ["undone"]


def test_work_that_succeeds_stays() -> None:
    undone: list[str] = []
    with on_failure(lambda: undone.append("undone")):
        pass
    assert not undone


def test_work_that_returns_early_stays() -> None:
    undone: list[str] = []

    def work() -> int:
        with on_failure(lambda: undone.append("undone")):
            return 7

    assert work() == 7
    assert not undone
