"""`windlass run`: runs a command once in the build of a service, and returns its output and exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Final

import click

from windlass.cli.client import Api, ApiAnswer
from windlass.cli.deployments import StartedDeployment, say
from windlass.cli.everyday.call import EverydayCall, everyday, service_option
from windlass.cli.everyday.changes import detach_option
from windlass.cli.everyday.terminal import NOT_FOUND, CommandLineOfService, explain_name
from windlass.cli.following import LINE_EVENT, RetryTimer, StreamFollower, retry_until_done
from windlass.cli.outcomes import start
from windlass.core.deploy.states import Progress
from windlass.terminal.command_errors import INTERRUPTED_EXIT_CODE, CommandFailed, in_sentence
from windlass.terminal.tables import FORMAT_PARAMETER, plain, print_json

_MAX_LINES: Final = 10_000


@everyday(
    "run",
    click.Argument(["command"], nargs=-1, required=True, metavar="COMMAND…", type=click.UNPROCESSED),
    service_option(),
    detach_option(),
    kind=CommandLineOfService,
)
def run(command: Sequence[str], name: str | None, detach: bool, **options: Any) -> None:
    """Run a command once in the build of the service: windlass run web -- python manage.py migrate

    It has the variables of the service, and runs beside its instances. Its output and its exit code are those
    of this command. Ctrl-C cancels it.
    """
    call = EverydayCall(options)
    service = call.service(name)
    begun = start(call.api, service.path, service.name, "run", {"command": [*command]})
    assert begun is not None, "a run is always started"
    started, answer = begun
    wants_json = options.get(FORMAT_PARAMETER) is True
    if detach:
        _show_begun(started, answer, as_json=wants_json)
        return
    try:
        _show_output(call.api, started, as_json=wants_json)
        deployment = retry_until_done(lambda: call.api.get(started.deployment_path), RetryTimer())
    except KeyboardInterrupt:
        _cancel(call.api, started)
        click.get_current_context().exit(INTERRUPTED_EXIT_CODE)
    if wants_json:
        print_json(deployment)
    code = _exit_code(deployment)
    if code in NOT_FOUND:
        explain_name(call, command, "run")
    click.get_current_context().exit(code)


run.context_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def _show_output(api: Api, deployment: StartedDeployment, *, as_json: bool) -> None:
    """Prints the log of the run until the run has ended."""

    def ask(headers: Mapping[str, str]) -> ApiAnswer:
        query = {"follow": "true", "tail": _MAX_LINES}
        return api.call("GET", f"{deployment.deployment_path}/log", query=query, headers=headers)

    for event in StreamFollower(ask, retry_until_done(lambda: ask({}), RetryTimer())).events():
        if event.kind == LINE_EVENT:
            click.echo(plain(json.loads(event.data)["message"]), err=as_json)


def _exit_code(deployment: Mapping[str, Any]) -> int:
    code = (deployment.get("run") or {}).get("exit_code")
    if code is not None and deployment["status"] in (Progress.SUCCEEDED, Progress.FAILED):
        return int(code)
    message = plain(str(deployment.get("message") or "it did not end by itself"))
    raise CommandFailed(f"run it again if you still need it: {in_sentence(message)}")


def _cancel(api: Api, deployment: StartedDeployment) -> None:
    api.call("POST", f"{deployment.deployment_path}/cancel")
    say("The command is being cancelled.")


def _show_begun(deployment: StartedDeployment, answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        number = answer["number"]
        follow = f"windlass deployment log {number} --follow --application {quote(plain(deployment.name))}"
        click.echo(f"{plain(deployment.name)}: the command runs, as run {number}. See: {follow}")
