"""Waiting for what was started: its states and its build log as they come, and why it did not work out."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from msgspec import Struct

from windlass.base.show import plain
from windlass.base.stopped import Stopped
from windlass.cli.client import Answer, Api
from windlass.cli.following import LINE, Following, Patience, pauses
from windlass.core.access import Scope
from windlass.core.registry import Operation, Registry
from windlass.core.states import OPEN, Do, Progress
from windlass.core.traits import Deployment
from windlass.families.environment import environment

_SOONEST, _LATEST = 0.2, 5.0
"""Seconds between two looks at a state; there are only so many requests in an hour."""
_PARTING: Final = 2.0
"""Seconds for somebody to stop reading who may just be connecting again."""
_LINES: Final = 20
_MOST_LINES: Final = 10_000


def waits(operation: Operation) -> bool:
    """Whether it starts something that goes on after its answer: that, and nothing else, needs Deploy."""
    return operation.need is Scope.DEPLOY


class Started(Struct, frozen=True):
    """A deployment of a service."""

    path: str
    """Of the service: /application/…"""
    name: str
    deployment: str

    @property
    def service(self) -> str:
        return self.path.rpartition("/")[2]


class Failed(Stopped):
    """It ended, and not as it should."""

    def __init__(self, name: str, why: str, progress: str) -> None:
        super().__init__(f"{name} ended in {progress}: {why}")
        self.why = why


# What was started


class Before:
    """What there is to compare with, taken before anything is started."""

    def __init__(self, api: Api, registry: Registry, operation: Operation, path: str) -> None:
        self._api = api
        self._registry = registry
        self._operation = operation
        self._path = path
        self._cancels = "cancel" in operation.handler.lower()
        self._home = path.split("/")[2] if operation.family is environment else ""
        self._statuses = self._look()

    def wait(self, answer: Any) -> Any:
        """Until all is done that the call has started; then how it is: what the call would answer now."""
        started = self._several() if self._home else self._one(answer)
        if not started:
            return answer
        ended = Waiting(self._api, started, self._home, cancelled=self._cancels).until_done()
        if not self._home:
            return ended[0]
        return self._api.get(f"/environment/{self._home}/status") if self._operation.answer else answer

    def _one(self, answer: Any) -> list[Started]:
        if answer is None:
            return []  # There was nothing to do.
        assert self._operation.answer is Deployment
        assert self._operation.family is not None
        family = self._operation.parent if self._operation.family.nested else self._operation.family
        assert family is not None
        path = f"/{family.name}/{answer['service_id']}"
        return [Started(path, str(self._api.get(path)["name"]), answer["deployment_request_id"])]

    def _several(self) -> list[Started]:
        """Of the services of an environment: those that have a new deployment, or had one to be cancelled."""
        then, now = self._statuses, self._statuses if self._cancels else self._look()
        known = self._services() if now else {}
        return [
            Started(*known[service], status["deployment_request_id"])
            for service, status in now.items()
            if service in known
            and (under_way(status) if self._cancels else _is_new(status, then.get(service)))
        ]

    def _look(self) -> dict[str, Any]:
        return _statuses(self._api, self._home) if self._home else {}

    def _services(self) -> dict[str, tuple[str, str]]:
        """Path and name of each service, by its id."""
        families = [
            family
            for family in self._registry.children(environment)
            if any(action.answer is Deployment for action in family.actions)
        ]
        return {
            one["id"]: (f"/{family.name}/{one['id']}", one["name"])
            for family in families
            for one in self._api.everything(f"/environment/{self._home}/{family.name}")
        }


def _statuses(api: Api, home: str) -> dict[str, Any]:
    """How each service of an environment is, by its id."""
    answer = api.get(f"/environment/{home}/statuses")
    return {one["id"]: one for group in answer.values() if isinstance(group, list) for one in group}


def _is_new(status: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    deployment = status["deployment_request_id"]
    return deployment is not None and (before is None or before["deployment_request_id"] != deployment)


def under_way(status: Mapping[str, Any]) -> bool:
    state = str(status["state"])
    return state != "RUNNING" and state.endswith(("ING", "QUEUED"))


# Until it is done


class Waiting:
    def __init__(
        self,
        api: Api,
        started: Sequence[Started],
        home: str = "",
        *,
        cancelled: bool = False,
        patience: float | None = None,
    ) -> None:
        """`home` is the environment of several; `cancelled`, whether they shall end like that."""
        self._api = api
        self._home = home
        self._open = list(started)
        self._wanted = Progress.CANCELED if cancelled else Progress.SUCCEEDED
        self._seconds = patience
        self._patience = Patience()
        self._said: dict[str, str] = {}
        self._ended: list[tuple[Started, Any]] = []
        self._build = BuildLog(api, started[0]) if len(started) == 1 and not cancelled else None
        """Of one, that is shown; of several at once, it would be a muddle."""

    def until_done(self) -> list[Any]:
        """The deployments as they ended; `Failed` if one of them ended otherwise than it should."""
        began = time.monotonic()
        with contextlib.closing(self._build) if self._build else contextlib.nullcontext():
            for pause in pauses(_SOONEST, _LATEST):
                pause = self._looked() or pause
                if not self._open:
                    break
                if self._seconds is not None and time.monotonic() - began > self._seconds:
                    raise self._too_late()
                self._between(pause)
            self._judge()
        return [deployment for _, deployment in self._ended]

    def _looked(self) -> float:
        """Says what is new. What passes by itself is waited out: for so many seconds."""
        try:
            self._look()
        except Stopped as trouble:
            return self._patience.pause(trouble)
        self._patience.restored()
        return 0.0

    def _look(self) -> None:
        states = _statuses(self._api, self._home) if self._home else {}
        if states:
            self._patience.over()
        for one in list(self._open):
            state = states.get(one.service)
            if state and under_way(state) and state["deployment_request_id"] == one.deployment:
                self._say(one, state["state"])
                continue
            deployment = self._api.get(f"{one.path}/deployment/{one.deployment}")
            self._patience.over()
            over = deployment["status"] not in OPEN
            if self._build is not None and deployment["action"] == Do.DEPLOY:
                self._show_build(self._build, deployment["status"], over=over)
            if over:
                self._open.remove(one)
                self._ended.append((one, deployment))
            self._say(one, _word(deployment))

    def _say(self, one: Started, state: str) -> None:
        if self._said.get(one.path) != state:
            self._said[one.path] = state
            say(f"{one.name}: {state}")

    def _between(self, seconds: float) -> None:
        if self._build is None:
            time.sleep(seconds)
        else:
            self._build.show_for(seconds)

    def _show_build(self, build: BuildLog, progress: str, *, over: bool) -> None:
        if over:
            build.show_rest()
        elif progress == Progress.BUILDING:
            build.follow()

    def _judge(self) -> None:
        failed = [
            Failed(one.name, _why(deployment), deployment["status"])
            for one, deployment in self._ended
            if deployment["status"] != self._wanted
        ]
        for one, deployment in self._ended:
            if deployment["status"] == Progress.FAILED != self._wanted:
                self._show_last_lines(one, deployment)
        if len(failed) == 1:
            raise failed[0]
        if failed:
            for failure in failed:
                say(plain(failure.message))
            raise Stopped(f"{len(failed)} of {len(self._ended)} did not end as they should")

    def _show_last_lines(self, one: Started, deployment: Any) -> None:
        """Of the service, if it came so far, or else of the build, unless that was shown as it came."""
        lines = self._api.get(f"{one.path}/log", tail=_LINES, since=deployment["created_at"])["results"]
        if not lines and self._build is None:
            lines = self._api.get(f"{one.path}/deployment/{one.deployment}/log", tail=_LINES)["results"]
        if lines:
            say(f"The last lines of the log of {one.name}:")
            for line in lines:
                show_below(line)

    def _too_late(self) -> Stopped:
        names = ", ".join(f"{one.name} is still {self._said[one.path]}" for one in self._open)
        return Stopped(
            f"{names} after {self._seconds:.0f} seconds. It goes on by itself: the same command waits for "
            "it again"
        )


def _word(deployment: Mapping[str, Any]) -> str:
    """What it is about. The state of the service may be about another deployment: an earlier or a later."""
    if deployment["status"] in {Progress.QUEUED, Progress.CANCELED, Progress.SUPERSEDED}:
        return str(deployment["status"])
    return str(deployment["state"])


def _why(deployment: Mapping[str, Any]) -> str:
    return str(deployment.get("message") or "nobody said why")


class BuildLog:
    """The log of one build: read in a thread beside as it comes, and shown in this one."""

    def __init__(self, api: Api, one: Started) -> None:
        self._api = api
        self._path = f"{one.path}/deployment/{one.deployment}/log"
        self._lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._last = ""
        self._following: Following | None = None
        self._thread: threading.Thread | None = None

    def follow(self) -> None:
        """Begins to; does nothing if it has begun already."""
        if self._following is None:
            self._following = Following(self._ask, self._ask({}), quiet=True)
            self._thread = threading.Thread(target=self._read, args=(self._following,), daemon=True)
            self._thread.start()

    def show_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._following is None:
                time.sleep(left)
            else:
                with contextlib.suppress(queue.Empty):
                    self._show(self._lines.get(timeout=left))

    def show_rest(self) -> None:
        """All that is not shown yet, of a build that is over."""
        self.close()
        while not self._lines.empty():
            self._show(self._lines.get())
        lines = self._api.get(self._path, tail=_MOST_LINES)["results"]
        ids = [line["id"] for line in lines]
        for line in lines[ids.index(self._last) + 1 if self._last in ids else 0 :]:
            self._show(line)

    def close(self) -> None:
        if self._following is not None and self._thread is not None:
            self._following.hang_up()
            self._thread.join(_PARTING)

    def _ask(self, headers: Mapping[str, str]) -> Answer:
        return self._api.call(
            "GET", self._path, query={"follow": "true", "tail": _MOST_LINES}, headers=headers
        )

    def _read(self, following: Following) -> None:
        # What goes wrong for good here does so, too, for whoever asks how the deployment is; and whatever is
        # missing in the end is read then.
        with contextlib.suppress(Stopped):
            for event in following.events():
                if event.kind == LINE:
                    self._lines.put(json.loads(event.data))

    def _show(self, line: Mapping[str, Any]) -> None:
        self._last = line["id"]
        show_below(line)


def show_below(line: Mapping[str, Any]) -> None:
    say(click.style(f"  {plain(line['message'])}", dim=True))


def say(message: str) -> None:
    """Beside the answer, which alone goes to the standard output."""
    click.echo(message, err=True)
