"""Knows in which namespace each service is: that of its environment, which the control plane tells.

Who may write to a namespace can give its objects the labels of any service. So labels do not say where a
service is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.engines.environment_spaces import FindEnvironments
from windlass.kubernetes import names

_RETRY_PAUSE: Final = 1.0
Located = Callable[[Collection[str]], None]
"""Callback with services whose namespaces have become known."""
_log = log("engines.kubernetes")


async def find_nothing(services: Collection[str]) -> Mapping[str, str]:
    """Returns no environment, for an engine without a control plane."""
    return {}


class ServiceHomes:
    def __init__(self, installation: str) -> None:
        self._installation = installation
        self.find: FindEnvironments = find_nothing
        self._known: dict[str, str] = {}
        """The namespaces of services; empty for a service that the control plane does not have."""
        self._pending: set[str] = set()
        self._has_pending = asyncio.Event()

    def contains(self, service: str, namespace: str) -> bool:
        """Returns whether objects in this namespace count for a service. All count for a service that the
        control plane does not have: nothing leads to its instances, and they may only be ended. None count
        before the control plane has answered."""
        home = self._known.get(service) if service else ""
        return home is not None and home in ("", namespace)

    def note(self, service: str, environment: str) -> None:
        """Notes the environment of a service that is deployed."""
        self._known[service] = names.namespace(self._installation, environment)
        self._pending.discard(service)

    def want(self, service: str) -> None:
        """Asks the control plane for the environment of a service, unless it is known."""
        if service and service not in self._known:
            self._pending.add(service)
            self._has_pending.set()

    def forget_others(self, present: Collection[str]) -> None:
        """Forgets services without objects, which are looked up again if they get some."""
        self._known = {service: home for service, home in self._known.items() if service in present}

    @property
    def pending(self) -> Collection[str]:
        """The services that the control plane was not asked for yet."""
        return self._pending

    async def run(self, located: Located) -> None:
        """Asks the control plane for the services that are wanted, in an endless loop."""
        while True:
            await self._has_pending.wait()
            wanted = tuple(self._pending)
            try:
                environments = await self.find(wanted)
            except Unavailable as error:
                _log.warning("environments of services are looked up later", extra={"reason": str(error)})
                await asyncio.sleep(_RETRY_PAUSE)
                continue
            for service in wanted:
                if environment := environments.get(service):
                    self.note(service, environment)
                elif service in self._pending:  # it was not deployed meanwhile
                    self._known[service] = ""
            self._pending.difference_update(wanted)
            if not self._pending:
                self._has_pending.clear()
            located(wanted)
