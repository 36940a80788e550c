"""What a router remembers of the requests to a service, beyond a change of its routes."""

from __future__ import annotations

from windlass.routers.builtin.rate_limits import RequestRates
from windlass.routers.builtin.retries import RetryBudget


class ServiceMemory:
    __slots__ = ("rates", "retry_budget")

    def __init__(self) -> None:
        self.rates = RequestRates()
        self.retry_budget = RetryBudget()
