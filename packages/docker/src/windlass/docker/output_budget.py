"""Limits the rate at which the output of containers is read, because endlessly writing programs would keep
the server busy.

A container may write much at once, but less in the long run. The output of a container that exceeds its
budget is read in short intervals. Containers of one organization that exceed their budgets share one budget.

An organization has a budget, too: many containers could each stay just below their own. Once it is used up,
the organization's containers that write share its rate.
"""

from __future__ import annotations

import time
from typing import Final

BURST_BYTES: Final = 16 * 1024 * 1024
"""Burst size in bytes, including the time of each line."""
BYTES_PER_SECOND: Final = 256 * 1024
"""Long-term rate in bytes per second."""
SHARED_BYTES_PER_SECOND: Final = 4 * BYTES_PER_SECOND
"""Long-term rate in bytes per second for all containers of an organization that have used up their
budgets."""
RESUME_BYTES: Final = 2 * 1024 * 1024
"""Number of bytes that are available again after a pause."""
ORGANIZATION_BURST_BYTES: Final = 64 * 1024 * 1024
ORGANIZATION_BYTES_PER_SECOND: Final = 2 * SHARED_BYTES_PER_SECOND
"""Long-term rate in bytes per second for all containers of an organization."""
MAX_ORGANIZATIONS: Final = 1000
"""Maximum number of organizations whose budgets are kept. An engine that an organization controls may name
any number of them."""


class OrganizationBudgets:
    """The budgets of the organizations of an engine. They outlive containers: short runs would otherwise have
    a new budget each."""

    def __init__(self) -> None:
        self._budgets: dict[str, OrganizationBudget] = {}

    def __getitem__(self, org: str) -> OrganizationBudget:
        if org not in self._budgets:
            while len(self._budgets) >= MAX_ORGANIZATIONS:
                del self._budgets[next(iter(self._budgets))]
            self._budgets[org] = OrganizationBudget(org)
        return self._budgets[org]


class OrganizationBudget:
    def __init__(self, org: str) -> None:
        self.org = org
        self.used_up: set[OutputBudget] = set()
        """The budgets of containers that are used up."""
        self._sharing: set[OutputBudget] = set()
        """The budgets of containers that have written since the organization's budget was used up."""
        self._left: float = ORGANIZATION_BURST_BYTES
        self._at = time.monotonic()

    @property
    def is_used_up(self) -> bool:
        now = time.monotonic()
        earned = (now - self._at) * ORGANIZATION_BYTES_PER_SECOND
        self._left, self._at = min(self._left + earned, ORGANIZATION_BURST_BYTES), now
        if self._left >= 0:
            self._sharing.clear()
        return self._left < 0

    def spend(self, budget: OutputBudget, count: int) -> None:
        self._left -= count
        if self.is_used_up:
            self._sharing.add(budget)

    def rate(self) -> float:
        """Returns the rate of one container in bytes per second."""
        rate = min(BYTES_PER_SECOND, SHARED_BYTES_PER_SECOND / max(len(self.used_up), 1))
        if self.is_used_up:
            rate = min(rate, ORGANIZATION_BYTES_PER_SECOND / max(len(self._sharing), 1))
        return rate

    def forget(self, budget: OutputBudget) -> None:
        self.used_up.discard(budget)
        self._sharing.discard(budget)


class OutputBudget:
    """The budget of a container."""

    def __init__(self, organization: OrganizationBudget) -> None:
        self._organization = organization
        self._left: float = BYTES_PER_SECOND if organization.is_used_up else BURST_BYTES
        self._at = time.monotonic()

    @property
    def org(self) -> str:
        return self._organization.org

    def spend(self, count: int) -> bool:
        """Records bytes as read. Returns False if the budget is used up."""
        self._refill()
        self._left -= count
        self._organization.spend(self, count)
        return self._left >= 0

    def pause(self) -> float:
        """Marks the budget as used up. Returns the number of seconds for which to pause reading."""
        self._organization.used_up.add(self)
        return (RESUME_BYTES - self._left) / self._organization.rate()

    def end(self) -> None:
        self._organization.forget(self)

    def _refill(self) -> None:
        now = time.monotonic()
        most = RESUME_BYTES if self._organization.is_used_up else BURST_BYTES
        self._left = min(self._left + (now - self._at) * self._organization.rate(), most)
        self._at = now
        if self._left > RESUME_BYTES:
            self._organization.used_up.discard(self)
