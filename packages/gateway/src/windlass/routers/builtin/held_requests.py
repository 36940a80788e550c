"""Holds requests to sleeping services until their instances are ready.

The first request asks for the service to be woken. A request that waits keeps its connection and what has
arrived of its body, so the number of waiting requests is limited for each organization.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import Final, TypeVar

MAX_HELD: Final = 512
"""Maximum number of held requests of an organization. Further ones are answered at once with status 503. One
client, as `network_of` tells clients apart, may have half of them."""
_AT_ONCE: Final = 32
"""Maximum number of requests that are resumed in one turn of the event loop."""

K = TypeVar("K")


class HeldRequest:
    """A request, or a TCP connection, that waits for a sleeping service."""

    __slots__ = ("give_up", "network", "organization", "resume", "service", "timer")

    def __init__(
        self,
        service: str,
        organization: str,
        network: str,
        resume: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        """`network`: that of the client; empty for a trusted proxy, which has many clients. `resume` is
        called when the service no longer sleeps; `give_up` if it takes too long."""
        self.service, self.organization, self.network = service, organization, network
        self.resume, self.give_up = resume, give_up
        self.timer: asyncio.TimerHandle | None = None


class HeldRequests:
    def __init__(self) -> None:
        self.ask: Callable[[str], bool] = lambda service: False
        """Asks for a service to be woken. Returns whether anything can wake it."""
        self._held: dict[str, dict[HeldRequest, None]] = {}
        """The held requests by service, in the order of their arrival."""
        self._numbers: Counter[str] = Counter()
        """The number of held requests of each organization."""
        self._by_network: Counter[tuple[str, str]] = Counter()
        """The same, by organization and network of the client."""
        self._going_on: deque[HeldRequest] = deque()

    @property
    def services(self) -> Collection[str]:
        """Returns the services for which requests wait."""
        return self._held.keys()

    def hold(self, request: HeldRequest, seconds: float) -> bool:
        """Holds a request for a time. Returns False if its organization or its client has too many already,
        or if nothing can wake the service now."""
        # Also if there is no room: else a service that cannot be woken would keep all others asleep.
        if request.service not in self._held and not self.ask(request.service):
            return False
        if self._numbers[request.organization] >= MAX_HELD:
            return False
        client = request.organization, request.network
        if request.network and self._by_network[client] >= MAX_HELD // 2:
            return False
        self._held.setdefault(request.service, {})[request] = None
        self._numbers[request.organization] += 1
        self._by_network[client] += 1
        loop = asyncio.get_running_loop()
        request.timer = loop.call_later(seconds, self._give_up, request)
        return True

    def drop(self, request: HeldRequest) -> None:
        """Removes a request, because its client has disconnected or it has been answered."""
        if request.timer is None:
            return
        request.timer.cancel()
        request.timer = None
        _subtract(self._numbers, request.organization)
        _subtract(self._by_network, (request.organization, request.network))
        held = self._held.get(request.service, {})
        held.pop(request, None)
        if not held:
            self._held.pop(request.service, None)

    def release(self, service: str) -> None:
        """Resumes the requests to a service, because its routes have changed."""
        if held := self._held.pop(service, None):
            if not self._going_on:
                asyncio.get_running_loop().call_soon(self._go_on)
            self._going_on.extend(held)

    def give_up_all(self) -> None:
        """Answers all held requests with an error, because this router gets no further routes."""
        for held in [*self._held.values()]:
            for request in [*held]:
                self._give_up(request)

    def _go_on(self) -> None:
        try:
            for _ in range(min(_AT_ONCE, len(self._going_on))):
                request = self._going_on.popleft()
                if request.timer is not None:  # its client is still there
                    self.drop(request)
                    request.resume()
        finally:  # an error in one of them must not keep the others waiting
            if self._going_on:
                asyncio.get_running_loop().call_soon(self._go_on)

    def _give_up(self, request: HeldRequest) -> None:
        self.drop(request)
        request.give_up()


def _subtract(numbers: Counter[K], key: K) -> None:
    numbers[key] -= 1
    if not numbers[key]:
        del numbers[key]
