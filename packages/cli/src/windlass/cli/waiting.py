"""Waits for one deployment: prints its states and build log as they arrive.

The deployment and its build log are event streams, so nothing is polled. A thread per stream writes the
events into one queue.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Mapping
from enum import Enum, auto
from shlex import quote
from typing import Any, Final

import click
from msgspec import Struct

from windlass.cli.client import Api, ApiAnswer, ApiRefused
from windlass.cli.deployments import (
    EndedDeployment,
    ServiceDeleted,
    StartedDeployment,
    failure_of,
    is_gone,
    last_lines,
    print_state,
    say,
    show_below,
    show_log,
    state_of,
)
from windlass.cli.following import LINE_EVENT, RetryTimer, StreamFollower, retry_until_done
from windlass.cli.formatting import duration
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, OPEN_STATES_OF_DEPLOYMENTS, Progress
from windlass.engines.job_plans import RunState
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.tables import plain, print_json


def wait_for_run(api: Api, job: str, run: Mapping[str, Any], *, cancelled: bool, as_json: bool) -> None:
    """Prints the log of a run of the named job. Raises CommandFailed if the run does not end as expected."""
    path = f"/job/{run['job_id']}/run/{run['id']}"
    say(f"{plain(job)}: run {run['number']}")
    _show_log(api, path)
    ended = retry_until_done(lambda: api.get(path), RetryTimer())
    text = _describe_end(job, ended)
    if as_json:
        print_json(ended)
    if ended["status"] == RunState.SUCCEEDED or (cancelled and ended["status"] == RunState.CANCELED):
        if not as_json:
            click.echo(text)
        return
    raise CommandFailed(f"look at its output, and run it again: {text}")


def _show_log(api: Api, path: str) -> None:
    """Prints the log of a run until the run has ended."""

    def ask(headers: Mapping[str, str]) -> ApiAnswer:
        return api.call("GET", f"{path}/log", query={"follow": "true"}, headers=headers)

    for event in StreamFollower(ask, retry_until_done(lambda: ask({}), RetryTimer())).events():
        if event.kind == LINE_EVENT:
            show_below(json.loads(event.data)["message"])


def _describe_end(job: str, run: Mapping[str, Any]) -> str:
    began, ended = run.get("started_at"), run.get("ended_at")
    took = f" after {duration(began, ended)}" if began and ended else ""
    why = f": {plain(run['message'])}" if run.get("message") else ""
    how = "was cancelled" if run["status"] == RunState.CANCELED else str(run["status"]).lower()
    return f"run {run['number']} of {plain(job)} {how}{took}{why}"


def print_follow_hint(run: Mapping[str, Any], job: str) -> None:
    """Prints the command that shows the output of a run."""
    say(f"Follow it with: windlass job-run log {run['number']} --job {quote(plain(job))} --follow")


_LAST_LINES_TIMEOUT: Final = 3.0
"""Seconds to wait for the last lines of a build log after the deployment has ended."""
_MAX_LINES: Final = 10_000
_REASON_PREFIX: Final = "Failed: "
"""The prefix of a failure in the last line of a build log. The error message of the command repeats the
failure with the remedy."""


class DeploymentWait:
    """Waits for the end of one deployment."""

    def __init__(
        self,
        api: Api,
        deployment: StartedDeployment,
        *,
        cancelled: bool = False,
        seconds: float | None = None,
    ) -> None:
        """`cancelled`: the deployment is expected to end as cancelled."""
        self._api = api
        self._started = deployment
        self._wanted = Progress.CANCELED if cancelled else Progress.SUCCEEDED
        self._until = None if seconds is None else time.monotonic() + seconds
        self._seconds = seconds
        self._news: queue.SimpleQueue[_FollowedEvent] = queue.SimpleQueue()
        self._patience = RetryTimer()
        self._build = None if cancelled else BuildLog(api, deployment, self._news)
        self._shown = ""
        self._waits = ""
        self._held = ""
        """The last log line, held back because the error message may repeat it."""

    def until_done(self) -> EndedDeployment:
        """Returns the deployment after its end. Raises `CommandFailed` if it did not end as expected."""
        try:
            return self._until_done()
        except ApiRefused as refused:  # from the stream of the deployment or of its log
            if is_gone(refused):
                raise ServiceDeleted(self._started.name) from refused
            raise

    def _until_done(self) -> EndedDeployment:
        following = StreamFollower(
            self._open_stream, retry_until_done(lambda: self._open_stream({}), self._patience)
        )
        reader = _StreamReader(following, self._news, _Source.DEPLOYMENT)
        with contextlib.closing(reader), contextlib.closing(self._build or reader):
            deployment = self._print_until_end()
            if self._build is not None:
                self._build.show_rest(self._print_line)
        if self._held.removeprefix(_REASON_PREFIX) not in str(deployment.get("message") or ""):
            self._show_held()
        if deployment["status"] != self._wanted:
            if deployment["status"] == Progress.FAILED:
                show_log(self._started.name, last_lines(deployment))
            raise failure_of(self._api, self._started, deployment)
        return EndedDeployment(self._started, deployment)

    def _open_stream(self, headers: Mapping[str, str]) -> ApiAnswer:
        return self._api.call("GET", f"{self._started.deployment_path}/stream", headers=headers)

    def _print_until_end(self) -> Mapping[str, Any]:
        """Prints states and log lines until the deployment ends."""
        deployment: Mapping[str, Any] = {}
        while deployment.get("status", Progress.QUEUED) in OPEN_STATES_OF_DEPLOYMENTS:
            received = self._next_event()
            match received.source:
                case _Source.DEPLOYMENT if received.data is None or is_gone(received.data):
                    raise ServiceDeleted(self._started.name)
                case _Source.DEPLOYMENT if isinstance(received.data, CommandFailed):
                    raise received.data
                case _Source.DEPLOYMENT:
                    deployment = received.data
                    self._print_state(state_of(deployment))
                    self._follow_build(deployment)
                    self._say_waiting(deployment)
                case _:
                    self._print_line(received.data)
        return deployment

    def _next_event(self) -> _FollowedEvent:
        if self._until is None:
            return self._news.get()
        with contextlib.suppress(queue.Empty):
            return self._news.get(timeout=max(0.0, self._until - time.monotonic()))
        raise CommandFailed(
            f"repeat the command to continue waiting: {self._started.name} is still {self._shown} after "
            f"{self._seconds:.0f} seconds, and continues in the background"
        )

    def _follow_build(self, deployment: Mapping[str, Any]) -> None:
        """Starts to follow the build log as soon as the deployment builds."""
        builds = deployment["action"] in ACTIONS_WITH_BUILD and not deployment.get("repeats")
        if self._build is not None and builds and deployment["status"] != Progress.QUEUED:
            self._build.follow()

    def _print_state(self, state: str) -> None:
        if self._shown != state:
            self._shown = state
            print_state(self._started.name, state)

    def _say_waiting(self, deployment: Mapping[str, Any]) -> None:
        """Prints why the deployment waits, unless its log is shown and contains the reason."""
        waits = (
            str(deployment.get("message") or "") if deployment["status"] in OPEN_STATES_OF_DEPLOYMENTS else ""
        )
        if waits and waits != self._waits and not (self._build and self._build.is_followed):
            show_below(waits)
        self._waits = waits

    def _print_line(self, line: Any) -> None:
        if not isinstance(line, dict):
            return
        self._show_held()
        if str(line["message"]).startswith(_REASON_PREFIX):
            self._held = str(line["message"])
        else:
            show_below(line["message"])

    def _show_held(self) -> None:
        if self._held:
            show_below(self._held)
        self._held = ""


class _Source(Enum):
    DEPLOYMENT = auto()
    BUILD = auto()


class _FollowedEvent(Struct, frozen=True):
    """An event of one of the streams. `data` is None at the end of the stream, or an exception after a
    failure."""

    source: _Source
    data: Any


class _StreamReader:
    """Reads a stream in a thread, and writes its events into a shared queue."""

    def __init__(
        self, follower: StreamFollower, event_queue: queue.SimpleQueue[_FollowedEvent], source: _Source
    ) -> None:
        self._following = follower
        self._news = event_queue
        self._source = source
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    @property
    def problem(self) -> Exception | None:
        return self._following.problem

    def _read(self) -> None:
        last: Any = None
        try:
            for event in self._following.events():
                if event.kind == LINE_EVENT:
                    self._news.put(_FollowedEvent(self._source, json.loads(event.data)))
        except CommandFailed as problem:
            last = problem
        self._news.put(_FollowedEvent(self._source, last))

    def close(self) -> None:
        self._following.hang_up()
        self.thread.join(_LAST_LINES_TIMEOUT)


class BuildLog:
    """The log of a build, read while the deployment runs."""

    def __init__(
        self, api: Api, deployment: StartedDeployment, event_queue: queue.SimpleQueue[_FollowedEvent]
    ) -> None:
        self._api = api
        self._path = f"{deployment.deployment_path}/log"
        self._news = event_queue
        self._reader: _StreamReader | None = None

    @property
    def is_followed(self) -> bool:
        return self._reader is not None and self._reader.problem is None

    def follow(self) -> None:
        """Starts to read the log, unless it is already being read. If the server cannot read the log, as for
        a service on another machine, the command still waits for the deployment."""
        if self._reader is None:
            self._reader = _StreamReader(
                StreamFollower(self._open_stream, None, quiet=True), self._news, _Source.BUILD
            )

    def show_rest(self, show: Any) -> None:
        """Prints the remaining lines of the build log after the deployment has ended."""
        if self._reader is None:
            return
        if self._reader.problem is not None:
            show_below(f"The log of the build could not be read. {self._reader.problem}")
            return
        until = time.monotonic() + _LAST_LINES_TIMEOUT
        with contextlib.suppress(queue.Empty):
            while (left := until - time.monotonic()) > 0:
                received = self._news.get(timeout=left)
                if received.source is _Source.BUILD and not isinstance(received.data, dict):
                    return
                if received.source is _Source.BUILD:
                    show(received.data)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _open_stream(self, headers: Mapping[str, str]) -> ApiAnswer:
        query = {"follow": "true", "tail": _MAX_LINES}
        return self._api.call("GET", self._path, query=query, headers=headers)
