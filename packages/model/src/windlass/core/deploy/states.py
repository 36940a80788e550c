"""The states of services and deployments, and their words in each vocabulary.

The code uses the words of the full interface. The contract uses RUNNING, STOPPED and ERROR instead of several
of them. Words for work in progress are the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

OUTPUT_FOLLOWS: Final = "\nIts last lines were:\n"
"""Separates the reason from the service's last log lines in the message of a failed deployment."""


class State(StrEnum):
    BUILDING = "BUILDING"
    BUILD_ERROR = "BUILD_ERROR"
    CANCELED = "CANCELED"
    CANCELING = "CANCELING"
    DELETED = "DELETED"
    DELETE_ERROR = "DELETE_ERROR"
    DELETE_QUEUED = "DELETE_QUEUED"
    DELETING = "DELETING"
    DEPLOYED = "DEPLOYED"
    DEPLOYING = "DEPLOYING"
    DEPLOYMENT_ERROR = "DEPLOYMENT_ERROR"
    DEPLOYMENT_QUEUED = "DEPLOYMENT_QUEUED"
    EXECUTING = "EXECUTING"
    QUEUED = "QUEUED"
    READY = "READY"
    RECAP = "RECAP"
    RESTARTED = "RESTARTED"
    RESTARTING = "RESTARTING"
    RESTART_ERROR = "RESTART_ERROR"
    RESTART_QUEUED = "RESTART_QUEUED"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    STOP_ERROR = "STOP_ERROR"
    STOP_QUEUED = "STOP_QUEUED"
    UNAVAILABLE = "UNAVAILABLE"
    WAITING_DELETING = "WAITING_DELETING"
    WAITING_RESTARTING = "WAITING_RESTARTING"
    WAITING_RUNNING = "WAITING_RUNNING"
    WAITING_STOPPING = "WAITING_STOPPING"


class Sleep(StrEnum):
    """Whether a service sleeps because it had no requests. Its state is STOPPED meanwhile, and the version
    that serves stays the same."""

    NONE = ""
    ASLEEP = "ASLEEP"
    WAKING = "WAKING"
    """Its instances are being started."""


class Progress(StrEnum):
    """The progress of a deployment. The last four values are final."""

    QUEUED = "QUEUED"
    BUILDING = "BUILDING"
    DEPLOYING = "DEPLOYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUPERSEDED = "SUPERSEDED"


class DeploymentPhase(StrEnum):
    """A part of a deployment, which its log lines contain as `stage`."""

    FETCH = "FETCH"
    BUILD = "BUILD"
    COMMAND = "COMMAND"
    """The release command or the command of a one-off run is running."""
    START = "START"


OPEN_STATES_OF_DEPLOYMENTS = frozenset({Progress.QUEUED, Progress.BUILDING, Progress.DEPLOYING})


class Do(StrEnum):
    """The action of a deployment."""

    DEPLOY = "DEPLOY"
    RUN = "RUN"
    """Run the program to completion once."""
    RESTART = "RESTART"
    STOP = "STOP"
    UNINSTALL = "UNINSTALL"
    DELETE = "DELETE"


ACTIONS_WITH_BUILD: Final = frozenset({Do.DEPLOY, Do.RUN})
"""Actions that begin with a build, unless the deployment repeats an earlier one."""

ENDING_ACTIONS: Final = frozenset({Do.STOP, Do.UNINSTALL, Do.DELETE})
"""Actions after which no version serves."""

ACTIONS_WITH_RELEASE: Final = frozenset({Do.DEPLOY, Do.RESTART})
"""Actions after which a version serves: the new version or the previous one."""


class ActionStates(NamedTuple):
    """The states of a service during an action."""

    queued: State
    under_way: State
    done: State
    failed: State


STATES_OF_ACTIONS: Final[Mapping[Do, ActionStates]] = {
    Do.DEPLOY: ActionStates(State.QUEUED, State.DEPLOYING, State.DEPLOYED, State.DEPLOYMENT_ERROR),
    Do.RUN: ActionStates(State.QUEUED, State.EXECUTING, State.DEPLOYED, State.DEPLOYMENT_ERROR),
    Do.RESTART: ActionStates(State.RESTART_QUEUED, State.RESTARTING, State.RESTARTED, State.RESTART_ERROR),
    Do.STOP: ActionStates(State.STOP_QUEUED, State.STOPPING, State.STOPPED, State.STOP_ERROR),
    Do.UNINSTALL: ActionStates(State.DELETE_QUEUED, State.DELETING, State.READY, State.DELETE_ERROR),
    Do.DELETE: ActionStates(State.DELETE_QUEUED, State.DELETING, State.DELETED, State.DELETE_ERROR),
}

STATES_OF_RUNNING_SERVICES: Final = frozenset({State.DEPLOYED, State.RESTARTED})
STATES_WITHOUT_INSTANCES: Final = frozenset({State.READY, State.STOPPED})
"""States of services that should not have instances."""


def is_failure(state: str) -> bool:
    return state.endswith("_ERROR")


def contract_state(state: str) -> str:
    """Returns the contract's word for a state."""
    if state in STATES_OF_RUNNING_SERVICES:
        return "RUNNING"
    if state in STATES_WITHOUT_INSTANCES:
        return "STOPPED"
    if is_failure(state):
        return "ERROR"
    return "QUEUED" if state.endswith("_QUEUED") else state


def full_state(state: str) -> str:
    """Returns the full interface's word for a state. Its clients recognize queued work by the suffix
    `_QUEUED`."""
    return State.DEPLOYMENT_QUEUED if state == State.QUEUED else state


def action_status(state: str) -> str:
    """Returns the result of the last action on a service, in the vocabulary of the full interface."""
    if state == State.READY:
        return "NEVER"
    if is_failure(state):
        return "ERROR"
    if state.endswith("QUEUED"):
        return "QUEUED"
    if state in {State.CANCELED, State.CANCELING}:
        return state
    return "ONGOING" if state.endswith("ING") else "SUCCESS"


def logged(state: State) -> str:
    """Returns the word for a state in deployment logs, which have their own vocabulary."""
    if state in _LOG_WORDS:
        return _LOG_WORDS[state]
    if is_failure(state):
        return "DEPLOYMENT_ERROR"
    return "WAITING" if state.endswith("QUEUED") else "DEPLOYMENT_IN_PROGRESS"


_LOG_WORDS: Final[Mapping[State, str]] = {
    State.CANCELED: "CANCELED",
    State.CANCELING: "CANCELING",
    State.DEPLOYED: "DEPLOYED",
    State.RESTARTED: "DEPLOYED",
    State.STOP_ERROR: "PAUSE_ERROR",
    State.DELETE_ERROR: "DELETE_ERROR",
    State.STOPPING: "PAUSE_IN_PROGRESS",
    State.STOPPED: "PAUSED",
    State.DELETING: "DELETE_IN_PROGRESS",
    State.DELETED: "DELETED",
    State.READY: "DELETED",  # the end state of a deployment that has removed the instances
}


def full_action(state: str) -> str:
    """Returns the last action on a service, in the vocabulary of the full interface."""
    for word in ("RESTART", "STOP", "DELET"):
        if state.startswith(word):
            return "DELETE" if word == "DELET" else word
    return "UNKNOWN" if state == State.READY else "DEPLOY"


# States by precedence: work in progress, then failures, then states at rest.
_STATE_PRECEDENCE = (
    *(state for state in State if state.endswith(("ING", "_QUEUED"))),
    State.QUEUED,
    *(state for state in State if is_failure(state)),
    State.UNAVAILABLE,
    State.CANCELED,
    State.DEPLOYED,
    State.RESTARTED,
    State.STOPPED,
    State.READY,
)


def together(states: Iterable[str]) -> State:
    """Returns the state of an environment: the state of its services with the highest precedence."""
    present = set(states)
    return next((state for state in _STATE_PRECEDENCE if state in present), State.READY)
