"""Floods of output take a bounded part of the server, and containers of other organizations none of it."""

from __future__ import annotations

import pytest

from windlass.docker import output_budget
from windlass.docker.output_budget import (
    BURST_BYTES,
    BYTES_PER_SECOND,
    MAX_ORGANIZATIONS,
    ORGANIZATION_BURST_BYTES,
    ORGANIZATION_BYTES_PER_SECOND,
    SHARED_BYTES_PER_SECOND,
    OrganizationBudgets,
    OutputBudget,
)

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


def budgets(count: int, organizations: OrganizationBudgets, org: str = "acme") -> list[OutputBudget]:
    return [OutputBudget(organizations[org]) for _ in range(count)]


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
    read = flood(now, *budgets(count, OrganizationBudgets()))
    assert sum(read) <= 1.2 * HOUR * min(count * BYTES_PER_SECOND, SHARED_BYTES_PER_SECOND)
    assert min(read) > 0.5 * HOUR * min(BYTES_PER_SECOND, SHARED_BYTES_PER_SECOND / count)


def test_without_the_organization_budget_many_containers_are_read_at_their_full_rate(now, monkeypatch):
    monkeypatch.setattr(output_budget, "SHARED_BYTES_PER_SECOND", 1000 * BYTES_PER_SECOND)
    monkeypatch.setattr(output_budget, "ORGANIZATION_BYTES_PER_SECOND", 1000 * BYTES_PER_SECOND)
    assert sum(flood(now, *budgets(40, OrganizationBudgets()))) > 30 * HOUR * BYTES_PER_SECOND


def test_output_floods_of_one_organization_do_not_reduce_the_output_budget_of_another(now):
    organizations = OrganizationBudgets()
    flood(now, *budgets(40, organizations))
    assert flood(now, *budgets(1, organizations, "other"))[0] > 0.9 * HOUR * BYTES_PER_SECOND


def test_a_container_that_writes_little_has_its_whole_budget_again(now):
    organizations = OrganizationBudgets()
    (budget,) = budgets(1, organizations)
    assert not budget.spend(BURST_BYTES + 1)
    budget.pause()
    now[0] += BURST_BYTES / BYTES_PER_SECOND + 1
    assert budget.spend(BURST_BYTES - 1)
    assert organizations["acme"].used_up == set()


def write_steadily(now: list[float], written: list[OutputBudget], rate: int) -> int:
    """Returns the bytes that are read in an hour of containers that each write `rate` bytes a second."""
    read, resumes, end = 0, dict.fromkeys(written, now[0]), now[0] + HOUR
    while now[0] < end:
        now[0] += 1
        for budget in written:
            if now[0] >= resumes[budget]:
                read += rate
                if not budget.spend(rate):
                    resumes[budget] = now[0] + budget.pause()
    return read


BELOW_ITS_OWN = BYTES_PER_SECOND * 9 // 10


def test_many_containers_just_below_their_own_budgets_are_read_at_a_bounded_rate(now):
    read = write_steadily(now, budgets(40, OrganizationBudgets()), BELOW_ITS_OWN)
    assert read - ORGANIZATION_BURST_BYTES <= 1.2 * HOUR * ORGANIZATION_BYTES_PER_SECOND
    assert read > 0.5 * HOUR * ORGANIZATION_BYTES_PER_SECOND


def test_without_the_rate_of_an_organization_they_are_read_whole(now, monkeypatch):
    monkeypatch.setattr(output_budget, "ORGANIZATION_BYTES_PER_SECOND", 1000 * BYTES_PER_SECOND)
    read = write_steadily(now, budgets(40, OrganizationBudgets()), BELOW_ITS_OWN)
    assert read == 40 * HOUR * BELOW_ITS_OWN


def test_short_runs_have_no_new_bursts(now):
    organizations, read, end = OrganizationBudgets(), 0, now[0] + HOUR
    while now[0] < end:
        (run,) = budgets(1, organizations)
        while run.spend(64 * 1024):
            read += 64 * 1024
        run.end()
        now[0] += 1
    assert read - ORGANIZATION_BURST_BYTES <= 1.2 * HOUR * ORGANIZATION_BYTES_PER_SECOND


def test_a_quiet_container_is_read_whole_beside_many_that_write_much(now):
    organizations = OrganizationBudgets()
    write_steadily(now, budgets(40, organizations), BELOW_ITS_OWN)
    (quiet,) = budgets(1, organizations)
    loud = budgets(40, organizations)
    for _ in range(600):
        now[0] += 1
        for budget in loud:
            budget.spend(BELOW_ITS_OWN)
        assert quiet.spend(10_000)


def test_an_engine_that_invents_organizations_takes_no_memory():
    organizations = OrganizationBudgets()
    for number in range(2 * MAX_ORGANIZATIONS):
        organizations[str(number)]
    assert len(organizations._budgets) == MAX_ORGANIZATIONS
