"""Formats deployments for the command line: states, last log lines, and results.

`waiting` and `waiting_for_all` read the event streams.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from shlex import quote
from typing import Any, Final

import click
from msgspec import Struct

from windlass.cli.client import Api, ApiRefused
from windlass.cli.following import RetryTimer, retry_until_done
from windlass.cli.formatting import duration
from windlass.core.declare.registry import sub_actions_of
from windlass.core.deploy.states import OUTPUT_FOLLOWS, Do, Progress
from windlass.core.words.naming import kebab
from windlass.families import registry
from windlass.terminal.command_errors import CommandFailed, in_sentence
from windlass.terminal.tables import paint, plain

_MAX_LOG_LINES: Final = 20
_FAILED_SUFFIX: Final = "ERROR"
_STOPPED_STATE: Final = "STOPPED"
_UNBEGUN_PROGRESS: Final = {Progress.QUEUED, Progress.CANCELED, Progress.SUPERSEDED}


class StartedDeployment(Struct, frozen=True):
    """A deployment that the command has started."""

    path: str
    """The API path of the service: /application/…"""
    name: str
    deployment: str
    command: str = ""
    """The command line that the user can run to deploy again; empty if there is no short one."""

    @property
    def service(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def deployment_path(self) -> str:
        return f"{self.path}/deployment/{self.deployment}"


class EndedDeployment(Struct, frozen=True):
    """A deployment that is finished."""

    started: StartedDeployment
    deployment: Mapping[str, Any]


class DeploymentFailed(CommandFailed):
    """A deployment did not end as expected."""

    def __init__(
        self,
        name: str,
        deployment: Mapping[str, Any],
        *,
        has_newer: bool = False,
        command: str = "",
        retry: str = "",
    ) -> None:
        """`command`: the command whose option solves the problem. `retry`: the command that deploys again,
        which is printed as the last line."""
        # The reason ends with the service's last log lines, which were printed before.
        self.why = _reason_text(deployment).partition(OUTPUT_FOLLOWS)[0]
        if has_newer or deployment["status"] == Progress.SUPERSEDED:  # the reason names the newer deployment
            super().__init__(in_sentence(self.why))
        else:
            advice = (
                f"run `{command}` and deploy {name} again"
                if command
                else _deployment_advice(name, deployment)
            )
            last = f"\nThen try again: {retry}" if retry and retry not in self.why else ""
            super().__init__(f"{advice}: {self.why}{last}")


class ServiceDeleted(CommandFailed):
    """The service was deleted while a command waited for its deployment."""

    def __init__(self, name: str, why: str = "") -> None:
        reason = why or f"{name} was deleted"
        super().__init__(f"create {name} again if you still need it: {reason} while this command waited")


def failure_of(
    api: Api, started_deployment: StartedDeployment, deployment: Mapping[str, Any]
) -> CommandFailed:
    """Returns the exception for a deployment that did not end as expected."""
    if deployment["status"] != Progress.CANCELED:
        retry = started_deployment.command if deployment["status"] == Progress.FAILED else ""
        command = _command_for(api, started_deployment, deployment)
        return DeploymentFailed(started_deployment.name, deployment, command=command, retry=retry)
    newest = _newest_deployment(api, started_deployment)
    if newest is None or newest["action"] == Do.DELETE:
        return ServiceDeleted(started_deployment.name, _reason_text(deployment))
    return DeploymentFailed(started_deployment.name, deployment, has_newer=newest["id"] != deployment["id"])


def _command_for(api: Api, started_deployment: StartedDeployment, deployment: Mapping[str, Any]) -> str:
    """Returns the command that sets the field at the beginning of the reason; empty if there is none.

    `--port` replaces the whole list of ports by one public port, so it is suggested only if the list contains
    one port.
    """
    match = _SET_FIELD_PATTERN.match(_reason_text(deployment))
    if match is None:
        return ""
    field, of_port, value = match.groups()
    if of_port:
        try:
            ports = (
                retry_until_done(lambda: api.get(started_deployment.path), RetryTimer()).get("ports") or []
            )
        except ApiRefused:
            return ""
        if len(ports) != 1 or not _is_plain(ports[0]):
            return ""
    option = "--port" if of_port else f"--{kebab(field)}"
    family = started_deployment.path.split("/")[1]
    return f"windlass {kebab(family)} edit {shlex.quote(started_deployment.name)} {option} {value}"


def _is_plain(port: Mapping[str, Any]) -> bool:
    """Returns whether a port is a public HTTP port without other settings, so its name is derived from its
    number."""
    usual: dict[str, tuple[Any, ...]] = {
        "publicly_accessible": (True,),
        "protocol": ("HTTP",),
        "name": (None, f"p{port['internal_port']}"),
        "external_port": (None, 443),
    }
    free = ("id", "internal_port", "is_default")
    return all(port[name] in usual.get(name, (None, "")) for name in port if name not in free)


def _newest_deployment(api: Api, deployment: StartedDeployment) -> Mapping[str, Any] | None:
    """Returns the newest deployment of a service. None if the service was deleted."""
    try:
        newest = retry_until_done(
            lambda: api.get(f"{deployment.path}/deployment", page_size=1), RetryTimer()
        )["results"]
    except ApiRefused as refused:
        if is_gone(refused):
            return None
        raise
    return dict(newest[0])


def is_gone(problem: Exception) -> bool:
    """Returns whether the error means that the resource no longer exists."""
    return isinstance(problem, ApiRefused) and problem.status == HTTPStatus.NOT_FOUND


def _deployment_advice(name: str, deployment: Mapping[str, Any]) -> str:
    """Returns the advice for a deployment that was cancelled, failed, or could not be cancelled in time."""
    what = f"{_ACTION_VERBS[Do(deployment['action'])]} {name} again"
    match deployment["status"]:
        case Progress.FAILED:
            return f"fix this and {what}"
        case Progress.CANCELED:
            return f"{what} if you still want to: this deployment was cancelled"
        case _:
            return f"it was too late to cancel the deployment of {name}, which {deployment['status']}"


_SET_FIELD_PATTERN: Final = re.compile(r"Set ([a-z_]+)(\[0\]\.internal_port)? to ([A-Z]+|[0-9]+)\b")
_ACTION_VERBS: Final[Mapping[Do, str]] = {
    Do.DEPLOY: "deploy",
    Do.RUN: "deploy",
    Do.RESTART: "restart",
    Do.STOP: "stop",
    Do.UNINSTALL: "uninstall",
    Do.DELETE: "delete",
}


def is_under_way(status: Mapping[str, Any]) -> bool:
    state = str(status["state"])
    return state != "RUNNING" and state.endswith(("ING", "QUEUED"))


def seen_state(service: Mapping[str, Any]) -> str:
    """Returns the state of a service as people see it: one that sleeps is STOPPED for programs."""
    return "SLEEPING" if service.get("sleeping") else str(service["state"])


def summary(ended_deployment: EndedDeployment, url: str, *, lacks_port: bool = False) -> str:
    """Returns one line about the result of the deployment. `lacks_port`: no port leads to the service, and
    no setting says that it needs none."""
    name, deployment = ended_deployment.started.name, ended_deployment.deployment
    action = Do(deployment["action"])
    if deployment["status"] == Progress.CANCELED:
        return f"{name}: the deployment v{deployment['number']} is cancelled"
    if action is Do.STOP:
        return f"{name} is stopped ({_duration_of(deployment)}); its data, settings and history stay"
    if action is Do.UNINSTALL:
        return f"{name} is removed with its data ({_duration_of(deployment)}); its settings and history stay"
    if action is Do.RUN:
        return f"{name} {_outcome_of_run(deployment)} ({_duration_of(deployment)}, v{deployment['number']})"
    count = int(deployment.get("instances", 1))
    # A static site has no instances: the gateway serves its files.
    instances = f"{count} instance{'s' if count != 1 else ''}, " if count else ""
    version = f"v{deployment['number']} {str(deployment.get('git_commit_id') or '')[:7]}".strip()
    facts = f"{instances}{_duration_of(deployment)}, {version}"
    if deployment.get("state") == _FAILED_SUFFIX:  # the service failed after the deployment had succeeded
        command = f"windlass logs {quote(name)}"
        return f"Look at its log, with `{command}`: {name} was deployed, and fails now ({facts})"
    if deployment.get("state") == _STOPPED_STATE:  # its settings ask for no instances
        again = f"windlass scale {quote(name)}=1"
        return f"{name} is stopped: 0 instances ({facts}). Start one with: {again}"
    nowhere = "live, without a public address"
    place = f"live at {click.style(url, bold=True)}" if url else nowhere
    if lacks_port:
        place = click.style(nowhere, fg="yellow")
    return f"{name} is {place} ({facts})"


def _outcome_of_run(deployment: Mapping[str, Any]) -> str:
    word = (deployment.get("status_details") or {}).get("sub_action", "")
    for family in registry().families.values():
        if found := sub_actions_of(family).get(word):
            return found.outcome
    return "is deployed"


def serves(ended_deployment: EndedDeployment) -> bool:
    """Returns whether the service runs after the deployment and may have an address."""
    action, status = ended_deployment.deployment["action"], ended_deployment.deployment["status"]
    return status == Progress.SUCCEEDED and action in {Do.DEPLOY, Do.RESTART}


def first_address(api: Api, path: str) -> str:
    """Returns the address of a service's default port; empty if there is none."""
    links = retry_until_done(lambda: api.get(f"{path}/link"), RetryTimer())["results"]
    return str(links[0]["url"]) if links else ""


def lacks_port(api: Api, path: str) -> bool:
    """Returns whether Windlass was to choose the port of a service, and found none."""
    service = retry_until_done(lambda: api.get(path), RetryTimer())
    return service.get("automatic_port") is True and service.get("ports") == [] and not service.get("process")


def _duration_of(deployment: Mapping[str, Any]) -> str:
    """Returns the time from the request to the end of the deployment as text."""
    return duration(str(deployment["created_at"]), str(deployment["finished_at"]))


def state_of(deployment: Mapping[str, Any]) -> str:
    """Returns the state of a deployment. The service's state may belong to an earlier or later deployment."""
    return str(deployment["status"] if deployment["status"] in _UNBEGUN_PROGRESS else deployment["state"])


def _reason_text(deployment: Mapping[str, Any]) -> str:
    return str(deployment.get("message") or "no reason was given")


def last_lines(deployment: Mapping[str, Any]) -> list[str]:
    """Returns the last log lines of the deployed program, which follow the reason of a failure."""
    return _reason_text(deployment).partition(OUTPUT_FOLLOWS)[2].splitlines()


def last_lines_of_build(api: Api, deployment: StartedDeployment) -> list[str]:
    lines = retry_until_done(
        lambda: api.get(f"{deployment.deployment_path}/log", tail=_MAX_LOG_LINES), RetryTimer()
    )["results"]
    return [line["message"] for line in lines]


def show_log(name: str, lines: Sequence[str]) -> None:
    if lines:
        say(f"The last lines of the log of {name}:")
        for line in lines:
            show_below(line)


def show_below(line: str) -> None:
    say(click.style(f"  {plain(line)}", dim=True))


def print_state(name: str, state: str) -> None:
    say(f"{plain(name)}: {paint(state)}")


def say(message: str) -> None:
    """Prints a message on standard error. Standard output is reserved for results."""
    click.echo(message, err=True)
