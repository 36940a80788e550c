"""Starts a deployment, waits for its end, and prints the result: one line as text, or the deployment as
JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from windlass.cli.client import Api
from windlass.cli.deployments import StartedDeployment, first_address, lacks_port, say, serves, summary
from windlass.cli.following import wait_for_budget
from windlass.cli.overviews import print_address_hint
from windlass.cli.waiting import DeploymentWait
from windlass.core.declare.resource import Family
from windlass.terminal.command_errors import ended_by_user
from windlass.terminal.tables import paint, plain, print_json

GOES_ON = "It continues in the background: `windlass ps` shows its state."


def start(
    api: Api, service: str, name: str, action: str, body: Mapping[str, Any] | None = None, command: str = ""
) -> tuple[StartedDeployment, Any] | None:
    """Starts an action on a service. Returns None if there is nothing to do. `command`: the command line that
    starts the action again."""
    api.enable_retries(wait_for_budget)
    sent = None if body is None else msgspec.json.encode(body)
    answer = api.call("POST", f"{service}/{action}", sent).json
    if answer is None:
        say(f"{plain(name)}: there was nothing to do")
        return None
    return StartedDeployment(service, name, answer["deployment_request_id"], command), answer


def wait_and_show(
    api: Api, deployment: StartedDeployment, family: Family | None, *, as_json: bool, cancelled: bool = False
) -> None:
    ended = DeploymentWait(api, deployment, cancelled=cancelled).until_done()
    if as_json:
        print_json(ended.deployment)
        return
    url = first_address(api, deployment.path) if serves(ended) else ""
    lacks = serves(ended) and not url and lacks_port(api, deployment.path)
    click.echo(summary(ended, url, lacks_port=lacks))
    print_address_hint(family, ended, url)


def follow_to_its_end(
    api: Api,
    begun: tuple[StartedDeployment, Any] | None,
    family: Family | None,
    *,
    as_json: bool,
    detach: bool,
) -> None:
    """Waits for the end of the deployment, or with `detach` only prints that it was started. Ctrl-C ends the
    command but not the deployment."""
    if begun is None:
        return
    started, answer = begun
    if not detach:
        with ended_by_user(GOES_ON):
            wait_and_show(api, started, family, as_json=as_json)
    elif as_json:
        print_json(answer)
    else:
        what = f"{plain(answer['action'])} v{answer['number']}"
        click.echo(f"{plain(started.name)}: {what} is {paint(answer['status'])}. {GOES_ON}")
