"""Waiting for what was started: states and build log as they come, one line at the end.

Nothing is polled: a deployment has a stream, and so have its build log and the statuses of an environment.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import click
from msgspec import Struct

from windlass.cli.client import Api, ApiAnswer
from windlass.cli.following import LINE, Following, Patience, insist
from windlass.core.deploy.states import BUILDS, OPEN, Do, Progress
from windlass.terminal.stopped import Stopped
from windlass.terminal.tables import coloured, plain

_PARTING: Final = 3.0
"""Seconds for the last lines of a build to come, after its deployment has ended."""
_LINES: Final = 20
_MOST_LINES: Final = 10_000
_SETTLED: Final = {Progress.QUEUED, Progress.CANCELED, Progress.SUPERSEDED}


class Started(Struct, frozen=True):
    """A deployment of a service."""

    path: str
    """Of the service: /application/…"""
    name: str
    deployment: str

    @property
    def service(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def itself(self) -> str:
        return f"{self.path}/deployment/{self.deployment}"


class EndedDeployment(Struct, frozen=True):
    """A deployment that is over."""

    started: Started
    deployment: Mapping[str, Any]


class DeploymentFailed(Stopped):
    """It ended, and not as it should."""

    def __init__(self, name: str, deployment: Mapping[str, Any]) -> None:
        self.why = _why(deployment)
        super().__init__(f"{_advice(name, deployment)}: {self.why}")


def _advice(name: str, deployment: Mapping[str, Any]) -> str:
    """Says what to do after a failure."""
    what = f"{_VERBS[Do(deployment['action'])]} {name} again"
    match deployment["status"]:
        case Progress.FAILED:
            return f"mend this and {what}"
        case Progress.SUPERSEDED:
            return f"look at the newer deployment of {name}, which took the place of this one"
        case Progress.CANCELED:
            return f"{what} if you still want to: this deployment was cancelled"
        case _:
            return f"it was too late to cancel the deployment of {name}, which {deployment['status']}"


_VERBS: Final[Mapping[Do, str]] = {
    Do.DEPLOY: "deploy",
    Do.RUN: "deploy",
    Do.RESTART: "restart",
    Do.STOP: "stop",
    Do.UNINSTALL: "uninstall",
    Do.DELETE: "delete",
}


# One service


class DeploymentWait:
    """Waits for one deployment."""

    def __init__(
        self, api: Api, started: Started, *, cancelled: bool = False, seconds: float | None = None
    ) -> None:
        """`cancelled`: the deployment is expected to end as cancelled."""
        self._api = api
        self._started = started
        self._wanted = Progress.CANCELED if cancelled else Progress.SUCCEEDED
        self._until = None if seconds is None else time.monotonic() + seconds
        self._seconds = seconds
        self._news: queue.SimpleQueue[_Heard] = queue.SimpleQueue()
        self._patience = Patience()
        self._build = None if cancelled else BuildLog(api, started, self._news)
        self._shown = ""

    def until_done(self) -> EndedDeployment:
        """Returns the deployment once it has ended; raises `DeploymentFailed` unless it ended as expected."""
        following = Following(self._ask, insist(lambda: self._ask({}), self._patience))
        reader = _StreamReader(following, self._news, "deployment")
        with contextlib.closing(reader), contextlib.closing(self._build or reader):
            deployment = self._last()
            if self._build is not None:
                self._build.show_rest(self._show)
        if deployment["status"] != self._wanted:
            if deployment["status"] == Progress.FAILED:
                self._show_last_lines(deployment)
            raise DeploymentFailed(self._started.name, deployment)
        return EndedDeployment(self._started, deployment)

    def _ask(self, headers: Mapping[str, str]) -> ApiAnswer:
        return self._api.call("GET", f"{self._started.itself}/stream", headers=headers)

    def _last(self) -> Mapping[str, Any]:
        """Prints states and log lines until the deployment ends."""
        deployment: Mapping[str, Any] = {}
        while deployment.get("status", Progress.QUEUED) in OPEN:
            heard = self._next()
            match heard.source:
                case "deployment" if isinstance(heard.data, Stopped):
                    raise heard.data
                case "deployment" if heard.data is None:
                    raise Stopped(f"{self._started.name} was deleted meanwhile")
                case "deployment":
                    deployment = heard.data
                    self._say(_word(deployment))
                    self._follow_build(deployment)
                case _:
                    self._show(heard.data)
        return deployment

    def _next(self) -> _Heard:
        if self._until is None:
            return self._news.get()
        with contextlib.suppress(queue.Empty):
            return self._news.get(timeout=max(0.0, self._until - time.monotonic()))
        raise Stopped(
            f"repeat the command to go on waiting: {self._started.name} is still {self._shown} after "
            f"{self._seconds:.0f} seconds, and goes on by itself"
        )

    def _follow_build(self, deployment: Mapping[str, Any]) -> None:
        """Starts to follow the build log as soon as it can have lines."""
        builds = deployment["action"] in BUILDS and not deployment.get("repeats")
        if self._build is not None and builds and deployment["status"] != Progress.QUEUED:
            self._build.follow()

    def _say(self, state: str) -> None:
        if self._shown != state:
            self._shown = state
            say_state(self._started.name, state)

    def _show(self, line: Any) -> None:
        if isinstance(line, dict):
            show_below(line)

    def _show_last_lines(self, deployment: Mapping[str, Any]) -> None:
        """Prints the last lines of the service; those of the build were printed before."""
        lines = _lines(self._api, self._started.path, since=deployment["created_at"])
        _show_log(self._started.name, lines)


class _Heard(Struct, frozen=True):
    """An event of one of the streams: its data, None at the end, or what went wrong for good."""

    source: str
    data: Any


class _StreamReader:
    """Reads one stream in a thread, into a queue that it shares with others."""

    def __init__(self, following: Following, news: queue.SimpleQueue[_Heard], source: str) -> None:
        self._following = following
        self._news = news
        self._source = source
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        last: Any = None
        try:
            for event in self._following.events():
                if event.kind == LINE:
                    self._news.put(_Heard(self._source, json.loads(event.data)))
        except Stopped as trouble:
            last = trouble
        self._news.put(_Heard(self._source, last))

    def close(self) -> None:
        self._following.hang_up()
        self.thread.join(_PARTING)


class BuildLog:
    """The log of one build, read beside the deployment as it comes."""

    def __init__(self, api: Api, started: Started, news: queue.SimpleQueue[_Heard]) -> None:
        self._api = api
        self._path = f"{started.itself}/log"
        self._news = news
        self._reader: _StreamReader | None = None

    def follow(self) -> None:
        """Starts to read the log, unless it is being read already."""
        if self._reader is None:
            following = Following(self._ask, insist(lambda: self._ask({}), Patience()), quiet=True)
            self._reader = _StreamReader(following, self._news, "build")

    def show_rest(self, show: Any) -> None:
        """Prints the remaining lines of a build whose deployment has ended."""
        if self._reader is None:
            return
        until = time.monotonic() + _PARTING
        with contextlib.suppress(queue.Empty):
            while (left := until - time.monotonic()) > 0:
                heard = self._news.get(timeout=left)
                if heard.source == "build" and not isinstance(heard.data, dict):
                    return
                if heard.source == "build":
                    show(heard.data)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _ask(self, headers: Mapping[str, str]) -> ApiAnswer:
        query = {"follow": "true", "tail": _MOST_LINES}
        return self._api.call("GET", self._path, query=query, headers=headers)


# Several at once


class Together:
    """Waits for the new deployments of an environment. Created before they start, to know the old ones."""

    def __init__(self, api: Api, environment: str, *, cancelled: bool) -> None:
        self._api = api
        self._path = f"/environment/{environment}"
        self._wanted = Progress.CANCELED if cancelled else Progress.SUCCEEDED
        self._before = _by_service(self._api.get(f"{self._path}/statuses"))
        self._shown: dict[str, str] = {}

    def until_done(self, services: Mapping[str, Started]) -> list[EndedDeployment]:
        """Waits for the services of an environment, by id; raises `DeploymentFailed` if one of them fails."""
        ended: list[EndedDeployment] = []
        waited: dict[str, Started] = {}
        first = True
        for statuses in self._changes():
            if first:
                waited = dict(self._started(statuses, services))
                first = False
            ended += list(self._over(statuses, waited))
            if not waited:
                break
        self._judge(ended)
        return ended

    def _changes(self) -> Iterator[dict[str, Any]]:
        """Statuses by service: all, then those that are new."""

        def ask(headers: Mapping[str, str]) -> ApiAnswer:
            return self._api.call("GET", f"{self._path}/status/stream", headers=headers)

        for event in Following(ask, insist(lambda: ask({}), Patience())).events():
            if event.kind == LINE:
                yield _by_service(json.loads(event.data))

    def _started(
        self, now: Mapping[str, Any], services: Mapping[str, Started]
    ) -> Iterator[tuple[str, Started]]:
        """Services with a new deployment, or with one that is to be cancelled."""
        for id, status in now.items():
            deployment, before = status["deployment_request_id"], self._before.get(id)
            is_new = before is None or before["deployment_request_id"] != deployment
            if self._wanted is Progress.CANCELED:
                is_new = before is not None and under_way(before)
            if id in services and deployment is not None and is_new:
                one = services[id]
                yield id, Started(one.path, one.name, deployment)

    def _over(self, statuses: Mapping[str, Any], waited: dict[str, Started]) -> Iterator[EndedDeployment]:
        for id, status in statuses.items():
            one = waited.get(id)
            if one is None:
                continue
            if under_way(status) and status["deployment_request_id"] == one.deployment:
                self._say(one, str(status["state"]))
                continue
            deployment = insist(lambda one=one: self._api.get(one.itself), Patience())  # type: ignore[misc]
            self._say(one, _word(deployment))
            if deployment["status"] not in OPEN:
                del waited[id]
                yield EndedDeployment(one, deployment)

    def _say(self, one: Started, state: str) -> None:
        if self._shown.get(one.path) != state:
            self._shown[one.path] = state
            say_state(one.name, state)

    def _judge(self, ended: Sequence[EndedDeployment]) -> None:
        failed = [one for one in ended if one.deployment["status"] != self._wanted]
        for one in failed:
            if one.deployment["status"] == Progress.FAILED:
                self._show_last_lines(one)
        if len(failed) == 1:
            raise DeploymentFailed(failed[0].started.name, failed[0].deployment)
        for one in failed:
            say(plain(DeploymentFailed(one.started.name, one.deployment).message))
        if failed:
            raise Stopped(f"{len(failed)} of {len(ended)} failed: see above what to do about each")

    def _show_last_lines(self, one: EndedDeployment) -> None:
        lines = _lines(self._api, one.started.path, since=one.deployment["created_at"])
        _show_log(one.started.name, lines or _lines(self._api, one.started.itself))


def _by_service(statuses: Mapping[str, Any]) -> dict[str, Any]:
    lists = (value for name, value in statuses.items() if isinstance(value, list) and name != "removed")
    return {one["id"]: one for listed in lists for one in listed}


def under_way(status: Mapping[str, Any]) -> bool:
    state = str(status["state"])
    return state != "RUNNING" and state.endswith(("ING", "QUEUED"))


# What is said


def summary(ended: EndedDeployment, url: str) -> str:
    """Summarizes in one line how the deployment ended."""
    name, deployment = ended.started.name, ended.deployment
    action = Do(deployment["action"])
    if deployment["status"] == Progress.CANCELED:
        return f"{name}: the deployment v{deployment['number']} is cancelled"
    if action is Do.STOP:
        return f"{name} is stopped ({_took(deployment)}); its data, settings and history stay"
    if action is Do.UNINSTALL:
        return f"{name} is removed with its data ({_took(deployment)}); its settings and history stay"
    if action is Do.RUN:
        return f"{name} ran to its end ({_took(deployment)}, v{deployment['number']})"
    count = int(deployment.get("instances") or 1)
    version = f"v{deployment['number']} {str(deployment.get('git_commit_id') or '')[:7]}".strip()
    facts = f"{count} instance{'s' if count != 1 else ''}, {_took(deployment)}, {version}"
    place = f"live at {click.style(url, bold=True)}" if url else "live, without a public address"
    return f"{name} is {place} ({facts})"


def serves(ended: EndedDeployment) -> bool:
    """True if the service runs now and may have an address."""
    action, status = ended.deployment["action"], ended.deployment["status"]
    return status == Progress.SUCCEEDED and action in {Do.DEPLOY, Do.RESTART}


def first_address(api: Api, path: str) -> str:
    """Returns the address of the default port of a service, or an empty text."""
    links = insist(lambda: api.get(f"{path}/link"), Patience())["results"]
    return str(links[0]["url"]) if links else ""


def _took(deployment: Mapping[str, Any]) -> str:
    """Formats the time from the request to the end of the deployment."""
    began, ended = (_seconds(str(deployment[name])) for name in ("created_at", "finished_at"))
    seconds = max(0.0, ended - began)
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _word(deployment: Mapping[str, Any]) -> str:
    """What it is about. The state of the service may be about another deployment: an earlier or a later."""
    return str(deployment["status"] if deployment["status"] in _SETTLED else deployment["state"])


def _why(deployment: Mapping[str, Any]) -> str:
    return str(deployment.get("message") or "no reason was given")


def _lines(api: Api, path: str, **query: Any) -> list[Any]:
    found: list[Any] = insist(lambda: api.get(f"{path}/log", tail=_LINES, **query), Patience())["results"]
    return found


def _show_log(name: str, lines: Sequence[Any]) -> None:
    if lines:
        say(f"The last lines of the log of {name}:")
        for line in lines:
            show_below(line)


def show_below(line: Mapping[str, Any]) -> None:
    say(click.style(f"  {plain(line['message'])}", dim=True))


def say_state(name: str, state: str) -> None:
    say(f"{plain(name)}: {coloured(state)}")


def say(message: str) -> None:
    """Beside the answer, which alone goes to the standard output."""
    click.echo(message, err=True)
