"""Watches the releases of Helm services after their deployments: their health, changes by others, and the
Pods behind their ports.

Each server watches by itself. The engine says which environments have changed; a release that is not healthy
is looked at again until it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.control.context.context import Context
from windlass.control.deploying.routes import try_refresh
from windlass.control.people.organizations import NO_PARENT
from windlass.control.records.deployments import particulars, record_health, status_of
from windlass.core.deploy.states import ENDING_ACTIONS, Progress, State
from windlass.engines.engine import EngineError
from windlass.engines.releases import (
    SINGLE_POD,
    ReleasedEndpoint,
    ReleasedRoute,
    ReleaseEngine,
    ReleaseState,
)
from windlass.engines.workload import Workload
from windlass.families.organization import organization
from windlass.helm.families.helm import DIFFERENCE, Helm, helm
from windlass.helm.families.shapes import ChartPort
from windlass.helm.health import ReleaseHealth, judge
from windlass.helm.plans import ReleasePlan, plan_in
from windlass.store import DeploymentRow, Reads, Row, Tx

LOOK_INTERVAL: Final = 1.0
"""Seconds between two looks at what has changed. Nothing is sent to a cluster without a change."""
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 30.0
"""Seconds until a release that is not healthy, or is being deployed, is looked at again."""
_FIND_INTERVAL: Final = 60.0
"""Seconds between two searches for environments, in case another server has begun to use one."""
_PATIENCE: Final = 10.0
"""Seconds for which Pods may be unready without a reason, as they are while they are replaced."""
_TIMEOUT: Final = 15.0
_AUTOSCALER: Final = "HorizontalPodAutoscaler"
_PAST: Final = 20
"""Number of deployments among which the released one is searched."""
_log = log("releases")


def release_name(service: str) -> str:
    """Returns the name of a service's release, which does not change with the name of the service."""
    return f"helm-z{service[:8]}"


class ReleaseWatch:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._due: dict[str, float] = {}
        """When each environment is looked at next."""
        self._pauses: dict[str, float] = {}
        self._states: dict[str, ReleaseState] = {}
        """The last state of each environment."""
        self._ports: dict[str, Sequence[ChartPort]] = {}
        """The ports of services, as of the last look at their environments."""
        self._unrouted: set[str] = set()
        """Services whose routes the router has refused."""
        self._unready: dict[str, float] = {}
        """Since when services have been unready without a certain reason."""
        self._next_search = 0.0

    async def run(self) -> None:
        """Watches, in an endless loop."""
        while True:
            try:
                await self.look()
            except Unavailable as error:  # Other loops log that the database is unavailable.
                _log.info("releases are watched later", extra={"why": str(error)})
            await asyncio.sleep(LOOK_INTERVAL)

    async def look(self) -> None:
        """Looks at the environments that are due."""
        now = time.monotonic()
        if now >= self._next_search:
            self._next_search = now + _FIND_INTERVAL
            resources = self._ctx.store.reads.resources
            for org in await resources.of_parent(NO_PARENT, organization.name):
                found = await resources.parents(org.id, helm.name)
                self._due |= {environment: now for environment in found if environment not in self._states}
        for place in self._ctx.places.all():
            if isinstance(place.engine, ReleaseEngine):
                for environment in place.engine.releases.changed():
                    self._due[environment] = now
                    self._pauses.pop(environment, None)
        due = [environment for environment, at in self._due.items() if at <= now]
        await asyncio.gather(*map(self._check, due))

    def endpoints(self, workload: Workload) -> Mapping[str, Sequence[ReleasedEndpoint]] | None:
        """Returns the Pods behind each port, by its name; None if they are not known yet."""
        state = self._states.get(workload.environment)
        if state is None:
            return None
        release = release_name(workload.service)
        own = [route for route in state.routes if route.release == release]
        ports = self._ports.get(workload.service, ())
        return {name_of_port(port): _endpoints_of(port, own) for port in ports}

    async def _check(self, environment: str) -> None:
        """Looks at an environment, and plans the next look."""
        self._due.pop(environment, None)
        is_settled = False
        try:
            async with asyncio.timeout(_TIMEOUT):
                is_settled = await self._look_at(environment)
        except (EngineError, TimeoutError) as error:
            _log.warning(
                "a release is looked at later", extra={"environment": environment, "why": repr(error)}
            )
        finally:
            pause = self._pauses.pop(environment, _FIRST_PAUSE)
            if not is_settled:
                self._pauses[environment] = min(pause * 2, _MAX_PAUSE)
                self._due.setdefault(environment, time.monotonic() + pause)

    async def _look_at(self, environment: str) -> bool:
        """Records the state of an environment's releases. Returns whether no further look is necessary until
        something changes."""
        reads = self._ctx.store.reads
        place = await self._ctx.places.of_environment(reads, environment)
        if not isinstance(place.engine, ReleaseEngine):
            return True
        services = await reads.resources.of_parent(environment, helm.name)
        state = await place.engine.releases.state(environment) if services else ReleaseState()
        if state is None:
            return False
        former, self._states[environment] = self._states.get(environment), state
        is_settled = True
        self._ports |= {service.id: service.read(Helm).ports for service in services}
        for service in services:
            if former is None or former.routes != state.routes or service.id in self._unrouted:
                self._unrouted.discard(service.id)
                if not await try_refresh(self._ctx, service.id):
                    self._unrouted.add(service.id)
                    is_settled = False
            is_settled &= await self._judge(service, state)
        return is_settled

    async def _judge(self, service: Row, state: ReleaseState) -> bool:
        """Records the health of a service. Returns whether it is final until something changes."""
        reads = self._ctx.store.reads
        if await reads.deployments.open(service.id):
            return False
        released = await _released(self._ctx, reads, service.id)
        if released is None:
            self._unready.pop(service.id, None)
            return True
        deployment, plan = released
        own = [each for each in state.controllers if each.release == release_name(service.id)]
        kinds = {change.kind for change in plan.comparison.changes}
        health = judge(plan.controllers, own, scales_itself=_AUTOSCALER in kinds)
        if health.problem and not health.is_certain:
            since = self._unready.setdefault(service.id, time.monotonic())
            if time.monotonic() < since + _PATIENCE:
                return False
        else:
            self._unready.pop(service.id, None)
        await self._record(service, deployment, health)
        # Single Pods are not watched.
        return not health.problem and not any(each.kind == SINGLE_POD for each in own)

    async def _record(self, service: Row, deployment: DeploymentRow, health: ReleaseHealth) -> None:
        state = State.DEPLOYMENT_ERROR if health.problem else State.DEPLOYED
        message = self._ctx.logs.masks.text(deployment.id, health.problem or health.drift)
        status = await status_of(self._ctx.store.reads, service)
        if (status.state, status.message) != (state, message):
            await self._ctx.store.write(partial(_write_health, service, deployment, state, message))


async def _write_health(service: Row, deployment: DeploymentRow, state: State, message: str, tx: Tx) -> None:
    """Records the health, unless the service has changed since."""
    present = await tx.resources.get(service.id)
    newest = await tx.deployments.latest(service.id, 1)
    if present is None or not newest or newest[0].status == Progress.QUEUED:
        return
    if await tx.deployments.open(service.id) or newest[0].number < deployment.number:
        return
    if newest[0].id != deployment.id and particulars(newest[0]).event != DIFFERENCE:
        return
    await record_health(tx, present, state, message, deployment.id)


async def _released(ctx: Context, reads: Reads, service: str) -> tuple[DeploymentRow, ReleasePlan] | None:
    """Returns the deployment whose release is in the cluster, with its plan; None if the last one failed, or
    stopped or removed the release."""
    for deployment in await reads.deployments.latest(service, _PAST):
        if particulars(deployment).event == DIFFERENCE:
            continue
        if deployment.status != Progress.SUCCEEDED or deployment.action in ENDING_ACTIONS:
            return None
        plan = await reads.plans.get(deployment.id)
        return (deployment, plan_in(ctx, plan)) if plan else None
    return None


def name_of_port(port: ChartPort) -> str:
    return port.name or f"p{port.internal_port}"


def _endpoints_of(port: ChartPort, routes: Sequence[ReleasedRoute]) -> list[ReleasedEndpoint]:
    selectors = {(each.key, each.value) for each in port.service_selectors or ()}
    return [
        endpoint
        for route in routes
        if (route.name == port.service_name if port.service_name else selectors <= {*route.labels.items()})
        for endpoint in route.ports.get(port.internal_port, ())
    ]


def is_served(port: ChartPort) -> bool:
    """Returns whether the gateway serves a port: its Service has to be in the namespace of the
    environment."""
    return not port.namespace
