"""Waits for all new deployments of an environment: prints the states of its services as they change.

The statuses of an environment are an event stream, so nothing is polled. `waiting` waits for one deployment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.cli.client import Api, ApiAnswer, ApiRefused
from windlass.cli.deployments import (
    EndedDeployment,
    ServiceDeleted,
    StartedDeployment,
    failure_of,
    is_gone,
    is_under_way,
    last_lines,
    last_lines_of_build,
    print_state,
    say,
    show_below,
    show_log,
    state_of,
)
from windlass.cli.following import LINE_EVENT, RetryTimer, StreamFollower, retry_until_done
from windlass.cli.names import ResolvedResource
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS, Progress
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.tables import plain


class EnvironmentWait:
    """Waits for the new deployments of an environment. Has to be created before they start, to tell them from
    earlier deployments."""

    def __init__(self, api: Api, environment: ResolvedResource, *, cancelled: bool) -> None:
        self._api = api
        self._name = environment.name
        self._path = f"/environment/{environment.id}"
        self._wanted = Progress.CANCELED if cancelled else Progress.SUCCEEDED
        self._before = _by_service(self._api.get(f"{self._path}/statuses"))
        self._shown: dict[str, tuple[str, str]] = {}

    def until_done(self, services: Mapping[str, StartedDeployment]) -> list[EndedDeployment]:
        """Waits for deployments of these services, which are keyed by id. Raises `CommandFailed` if one of
        them fails."""
        ended: list[EndedDeployment] = []
        waited: dict[str, StartedDeployment] = {}
        deleted: list[StartedDeployment] = []
        first = True
        for event in self._status_changes():
            statuses = _by_service(event)
            if first:
                waited = dict(self._started_services(statuses, services))
                first = False
            deleted += [waited.pop(id) for id in event["removed"] if id in waited]
            ended += list(self._collect_ended(statuses, waited))
            if not waited:
                break
        # If the environment itself is deleted, the stream ends earlier.
        self._check_results(ended, [*deleted, *waited.values()])
        return ended

    def _status_changes(self) -> Iterator[dict[str, Any]]:
        """Yields statuses of the environment: first of all services, then of changed services. Raises
        ServiceDeleted if the environment was deleted."""

        def ask(headers: Mapping[str, str]) -> ApiAnswer:
            return self._api.call("GET", f"{self._path}/status/stream", headers=headers)

        try:
            for event in StreamFollower(ask, retry_until_done(lambda: ask({}), RetryTimer())).events():
                if event.kind == LINE_EVENT:
                    yield json.loads(event.data)
        except ApiRefused as refused:
            if is_gone(refused):
                raise ServiceDeleted(self._name) from refused
            raise

    def _started_services(
        self, now: Mapping[str, Any], services: Mapping[str, StartedDeployment]
    ) -> Iterator[tuple[str, StartedDeployment]]:
        """Yields the services that have a new deployment, or whose deployment is being cancelled."""
        for id, status in now.items():
            deployment, before = status["deployment_request_id"], self._before.get(id)
            is_new = before is None or before["deployment_request_id"] != deployment
            if self._wanted is Progress.CANCELED:
                is_new = before is not None and is_under_way(before)
            if id in services and deployment is not None and is_new:
                service = services[id]
                yield id, StartedDeployment(service.path, service.name, deployment)

    def _collect_ended(
        self, statuses: Mapping[str, Any], awaited_deployments: dict[str, StartedDeployment]
    ) -> Iterator[EndedDeployment]:
        for id, started in [(id, awaited_deployments[id]) for id in statuses if id in awaited_deployments]:
            status = statuses[id]
            if is_under_way(status) and status["deployment_request_id"] == started.deployment:
                self._print_state(started, str(status["state"]), str(status["message"]))
                continue
            deployment = self._read(started)
            if deployment is None:
                continue  # just deleted: the next event of the stream reports it
            self._print_state(started, state_of(deployment))
            if deployment["status"] not in OPEN_STATES_OF_DEPLOYMENTS:
                del awaited_deployments[id]
                yield EndedDeployment(started, deployment)

    def _read(self, deployment: StartedDeployment) -> Any:
        """Returns the deployment. None if its service was deleted."""
        try:
            return retry_until_done(lambda: self._api.get(deployment.deployment_path), RetryTimer())
        except ApiRefused as refused:
            if is_gone(refused):
                return None
            raise

    def _print_state(self, deployment: StartedDeployment, state: str, waits: str = "") -> None:
        """Prints the state of a service and why it waits, if they have changed."""
        before = self._shown.get(deployment.path, ("", ""))
        self._shown[deployment.path] = state, waits
        if before[0] != state:
            print_state(deployment.name, state)
        if waits and before[1] != waits:
            show_below(f"{deployment.name}: {waits}")

    def _check_results(
        self, ended_deployments: Sequence[EndedDeployment], deleted: Sequence[StartedDeployment]
    ) -> None:
        failed = [end for end in ended_deployments if end.deployment["status"] != self._wanted]
        for end in failed:
            if end.deployment["status"] == Progress.FAILED:
                self._show_last_lines(end)
        failures = [failure_of(self._api, end.started, end.deployment) for end in failed]
        failures += [ServiceDeleted(started.name) for started in deleted]
        if len(failures) == 1:
            raise failures[0]
        for failure in failures:
            say(plain(failure.message))
        if failures:
            count = len(ended_deployments) + len(deleted)
            raise CommandFailed(f"{len(failures)} of {count} failed: see above what to do about each")

    def _show_last_lines(self, ended_deployment: EndedDeployment) -> None:
        show_log(
            ended_deployment.started.name,
            last_lines(ended_deployment.deployment)
            or last_lines_of_build(self._api, ended_deployment.started),
        )


def _by_service(statuses: Mapping[str, Any]) -> dict[str, Any]:
    lists = (value for name, value in statuses.items() if isinstance(value, list) and name != "removed")
    return {status["id"]: status for listed in lists for status in listed}
