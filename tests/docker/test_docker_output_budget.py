"""Floods of output take a bounded part of the server, and containers of other organizations none of it."""

from __future__ import annotations

import pytest

from windlass.docker import output_budget
from windlass.docker.output_budget import BURST_BYTES, BYTES_PER_SECOND, SHARED_BYTES_PER_SECOND, OutputBudget

HOUR = 3600.0


class Flood:
    """A container that writes without end, and what is read of it."""

    def __init__(self, budget: OutputBudget, begins: float) -> None:
        self.budget, self.at = budget, begins
        self.read = 0


@pytest.fixture
def now(monkeypatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: moment[0])
    return moment


def flood(now: list[float], *budgets: OutputBudget) -> list[float]:
    """Returns the bytes that are read of floods in an hour, beyond the first burst."""
    floods, end = [Flood(budget, now[0]) for budget in budgets], now[0] + HOUR
    while (next_one := min(floods, key=lambda flood: flood.at)).at < end:
        now[0] = next_one.at
        while next_one.budget.spend(64 * 1024):
            next_one.read += 64 * 1024
        next_one.at += next_one.budget.pause()
    return [flood.read - BURST_BYTES for flood in floods]


@pytest.mark.parametrize("count", [1, 4, 40])
def test_floods_of_an_organization_are_read_at_a_bounded_rate(now, count):
    used_up: set[OutputBudget] = set()
    read = flood(now, *(OutputBudget("acme", used_up) for _ in range(count)))
    assert sum(read) <= 1.2 * HOUR * min(count * BYTES_PER_SECOND, SHARED_BYTES_PER_SECOND)
    assert min(read) > 0.5 * HOUR * min(BYTES_PER_SECOND, SHARED_BYTES_PER_SECOND / count)


def test_without_the_organization_budget_many_containers_are_read_at_their_full_rate(now, monkeypatch):
    monkeypatch.setattr(output_budget, "SHARED_BYTES_PER_SECOND", 1000 * BYTES_PER_SECOND)
    used_up: set[OutputBudget] = set()
    assert sum(flood(now, *(OutputBudget("acme", used_up) for _ in range(40)))) > 30 * HOUR * BYTES_PER_SECOND


def test_output_floods_of_one_organization_do_not_reduce_the_output_budget_of_another(now):
    used_up: set[OutputBudget] = set()
    flood(now, *(OutputBudget("acme", used_up) for _ in range(40)))
    assert flood(now, OutputBudget("other", used_up))[0] > 0.9 * HOUR * BYTES_PER_SECOND


def test_a_container_that_writes_little_has_its_whole_budget_again(now):
    used_up: set[OutputBudget] = set()
    budget = OutputBudget("acme", used_up)
    assert not budget.spend(BURST_BYTES + 1)
    budget.pause()
    now[0] += BURST_BYTES / BYTES_PER_SECOND + 1
    assert budget.spend(BURST_BYTES - 1)
    assert used_up == set()
