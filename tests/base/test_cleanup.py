"""Cleanup after work that fails halfway."""

from __future__ import annotations

import asyncio

import pytest

from windlass.base.cleanup import on_failure


@pytest.mark.parametrize(
    "kind", [OSError, KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit]
)
def test_on_failure_runs_the_cleanup_for_any_exception_and_reraises(kind: type[BaseException]) -> None:
    undone: list[str] = []
    with pytest.raises(kind), on_failure(lambda: undone.append("undone")):
        raise kind
    assert undone == ["undone"]


def test_on_failure_runs_no_cleanup_after_success() -> None:
    undone: list[str] = []
    with on_failure(lambda: undone.append("undone")):
        pass
    assert not undone


def test_on_failure_runs_no_cleanup_after_an_early_return() -> None:
    undone: list[str] = []

    def work() -> int:
        with on_failure(lambda: undone.append("undone")):
            return 7

    assert work() == 7
    assert not undone
