"""Waits for the end of a run of a job, and prints its log meanwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any

import click

from windlass.cli.cells import duration
from windlass.cli.client import Api, ApiAnswer
from windlass.cli.deployments import say, show_below
from windlass.cli.following import LINE, Patience, StreamFollower, insist
from windlass.core.deploy.runs import RunState
from windlass.terminal.stopped import Stopped
from windlass.terminal.tables import plain, print_json


def wait_for_run(api: Api, job: str, run: Mapping[str, Any], *, cancelled: bool, as_json: bool) -> None:
    """Follows a run of the job of this name. Raises Stopped if it ends in another way than it should."""
    path = f"/job/{run['job_id']}/run/{run['id']}"
    say(f"{plain(job)}: run {run['number']}")
    _show_log(api, path)
    ended = insist(lambda: api.get(path), Patience())
    text = _how_it_ended(job, ended)
    if as_json:
        print_json(ended)
    if ended["status"] == RunState.SUCCEEDED or (cancelled and ended["status"] == RunState.CANCELED):
        if not as_json:
            click.echo(text)
        return
    raise Stopped(f"look at its output, and run it again: {text}")


def _show_log(api: Api, path: str) -> None:
    """Prints the log of a run until it has ended."""

    def ask(headers: Mapping[str, str]) -> ApiAnswer:
        return api.call("GET", f"{path}/log", query={"follow": "true"}, headers=headers)

    for event in StreamFollower(ask, insist(lambda: ask({}), Patience())).events():
        if event.kind == LINE:
            show_below(json.loads(event.data)["message"])


def _how_it_ended(job: str, run: Mapping[str, Any]) -> str:
    began, ended = run.get("started_at"), run.get("ended_at")
    took = f" after {duration(began, ended)}" if began and ended else ""
    why = f": {plain(run['message'])}" if run.get("message") else ""
    how = "was cancelled" if run["status"] == RunState.CANCELED else str(run["status"]).lower()
    return f"run {run['number']} of {plain(job)} {how}{took}{why}"


def say_how_to_follow(run: Mapping[str, Any], job: str) -> None:
    """Says where the output of a run appears."""
    say(f"Follow it with: windlass job-run log {run['number']} --job {quote(plain(job))} --follow")
