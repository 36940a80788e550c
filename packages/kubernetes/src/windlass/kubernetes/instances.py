"""Converts Pods of the cluster to instances and outcomes."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from datetime import datetime
from typing import Final

from windlass.base.clock import instant
from windlass.engines.workload import Instance, Outcome, Phase
from windlass.kubernetes import names
from windlass.kubernetes.documents import ContainerStatus, Pod, TerminatedState
from windlass.kubernetes.reasons import pending_reason

OUT_OF_MEMORY: Final = "OOMKilled"
_MAX_DIGITS: Final = 18
_KILLED_CODE: Final = 137
_SHELL_EXIT_CODES: Final = {126: ": the command cannot be run", 127: ": the command was not found"}
_PLACEMENT_MS: Final = 2_500
"""Milliseconds in which a Pod usually gets a node."""
_ENDED_PHASES: Final = ("Succeeded", "Failed")


def app_status(pod: Pod) -> ContainerStatus | None:
    """Returns the status of the container with the program; None before the node knows the Pod."""
    found = pod.status.container_statuses or ()
    return next((status for status in found if status.name == names.CONTAINER), None)


def restart_count(pod: Pod) -> int:
    status = app_status(pod)
    return status.restart_count if status else 0


def has_ended(pod: Pod) -> bool:
    """Returns whether no program of a Pod runs, or will run again."""
    return pod.status.phase in _ENDED_PHASES


def is_running(pod: Pod) -> bool:
    status = app_status(pod)
    return status is not None and status.state.running is not None


def passes_probes(pod: Pod) -> bool:
    """Returns whether the node reports a Pod as ready."""
    status = app_status(pod)
    return status is not None and status.ready and status.started is not False


def is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def instance(pod: Pod, index: int) -> Instance | None:
    """Returns the instance of a Pod; None if its program has not started, and nothing hinders it."""
    status = app_status(pod)
    state = status.state if status else None
    running = state.running if state else None
    ended = (state.terminated or status.last_state.terminated) if state and status else None
    hindered = "" if running else hindrance(pod)
    if running is None and ended is None and not hindered and not has_ended(pod):
        return None
    phase = Phase.RUNNING if running else Phase.EXITED if has_ended(pod) else Phase.WAITING
    return Instance(
        id=pod.metadata.name,
        service=pod.label(names.SERVICE),
        generation=number(pod.label(names.GENERATION)),
        index=index,
        phase=phase,
        address=pod.status.pod_ip,
        ports={port: port for port in _ports(pod)} if running else {},
        inside=pod.status.pod_ip if running else "",
        exit_code=exit_code(ended) if ended else None,
        reason=exit_reason(ended, pod) if ended else hindered or _pod_reason(pod, phase),
        restarts=status.restart_count if status else 0,
        started_at=milliseconds(running.started_at) if running else 0,
        unready=_unready(pod) if running else "",
    )


def outcome(pod: Pod) -> Outcome | None:
    """Returns the outcome of a run; None before its end."""
    if not has_ended(pod):
        return None
    status = app_status(pod)
    end = status.state.terminated if status else None
    if end is None or (end.reason == "ContainerStatusUnknown"):
        return Outcome(exit_code=None, reason=_pod_reason(pod, Phase.EXITED), started_at=0, ended_at=0)
    ended_at = milliseconds(end.finished_at)
    return Outcome(
        exit_code=exit_code(end),
        reason=exit_reason(end, pod),
        started_at=min(milliseconds(end.started_at), ended_at) or ended_at,
        ended_at=ended_at,
    )


def exit_code(end: TerminatedState) -> int:
    """Returns the exit code of a program. A shell whose child was killed for its memory may end with 0."""
    return _KILLED_CODE if end.reason == OUT_OF_MEMORY else end.exit_code


def exit_reason(end: TerminatedState, pod: Pod) -> str:
    if end.reason == OUT_OF_MEMORY:
        return f"was killed: out of memory (it may use {pod.annotation(names.MEMORY)} MB)"
    if end.reason in ("ContainerCannotRun", "StartError"):
        return f"could not be started: {end.message[:300]}"
    if end.exit_code > 128:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(end.exit_code - 128).name}"
    return f"exited with code {end.exit_code}{_SHELL_EXIT_CODES.get(end.exit_code, '')}"


def hindrance(pod: Pod) -> str:
    """Returns why the program of a Pod does not start; empty if no obstacle is known. A new Pod may have to
    wait for its volume and its node for a moment."""
    reason = pending_reason(pod)
    is_new = app_status(pod) is None and time.time() * 1000 < _created_at(pod) + _PLACEMENT_MS
    return "" if is_new else reason


def _created_at(pod: Pod) -> int:
    return milliseconds(pod.metadata.creation_timestamp)


def milliseconds(stamp: str | None) -> int:
    if not stamp:
        return 0
    with suppress(ValueError):
        return max(0, instant(datetime.fromisoformat(stamp)))
    return 0


def number(text: str) -> int:
    """Returns a number of a label or an annotation; 0 for any other text. An API server may tell any text,
    such as superscript digits."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0


def _ports(pod: Pod) -> list[int]:
    found = map(number, pod.annotation(names.PORTS).split(","))
    return [port for port in found if 0 < port < 1 << 16]


def _unready(pod: Pod) -> str:
    """Returns why a running instance must not get requests. A derived probe counts only while Windlass waits
    for the start."""
    if is_leaving(pod):
        return "it is about to end"
    is_watched = bool(pod.annotation(names.WATCHED))
    return "it does not pass its readiness probe" if is_watched and not passes_probes(pod) else ""


def _pod_reason(pod: Pod, phase: Phase) -> str:
    """Returns why a Pod does not run although its program has no state of its own."""
    if phase is Phase.RUNNING:
        return ""
    if pod.status.reason == "NodeLost" or pod.status.phase == "Unknown":
        return "was lost with its node"
    said = " ".join(filter(None, (pod.status.reason, pod.status.message)))[:300]
    return f"was ended by the cluster: {said}" if said else "was ended by the cluster"
