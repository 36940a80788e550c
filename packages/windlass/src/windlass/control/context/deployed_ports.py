"""The ports of ended deployments, which are kept in memory: lists need the ports of all
services, and a workload with megabytes of files takes a tenth of a second to decrypt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.engines.workload import WorkloadPort
from windlass.store import DeploymentRow

_MAX_DEPLOYMENTS: Final = 10_000
Ports = Sequence[WorkloadPort] | None
"""None if a deployment has no workload."""


class DeployedPorts:
    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], Ports] = {}
        """The ports by the id of a deployment and the time of its last change."""

    def knows(self, deployment: DeploymentRow) -> bool:
        return (deployment.id, deployment.changed) in self._ports

    def of(self, deployment: DeploymentRow) -> Ports:
        return self._ports[deployment.id, deployment.changed]

    def keep(self, deployment: DeploymentRow, ports: Ports) -> None:
        """Keeps the ports of a deployment. The workload of an open one may still change."""
        if deployment.status in OPEN_STATES_OF_DEPLOYMENTS:
            return
        if len(self._ports) >= _MAX_DEPLOYMENTS:
            self._ports.clear()
        self._ports[deployment.id, deployment.changed] = ports
