"""The kinds of event, and the two vocabularies of events that webhooks can subscribe to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Event(StrEnum):
    """A kind of event. An event is stored in the transaction of the change that it reports."""

    CREATED = "CREATE"
    UPDATED = "UPDATE"
    DELETED = "DELETE"
    SIGNED_IN = "SIGN_IN"
    SIGNED_OUT = "SIGN_OUT"
    SESSION_ENDED = "SESSION_ENDED"
    SIGN_IN_REFUSED = "SIGN_IN_REFUSED"
    PASSWORD_CHANGED = "PASSWORD_CHANGED"  # noqa: S105 (the name of an event)
    PASSWORD_LINK_CREATED = "PASSWORD_LINK_CREATED"  # noqa: S105 (the name of an event)
    SECOND_FACTOR_ADDED = "SECOND_FACTOR_ADDED"
    SECOND_FACTOR_REMOVED = "SECOND_FACTOR_REMOVED"
    RECOVERY_CODE_USED = "RECOVERY_CODE_USED"
    TOKEN_USED = "TOKEN_USED"  # noqa: S105 (the name of an event)
    TOKEN_REFUSED = "TOKEN_REFUSED"  # noqa: S105 (the name of an event)
    ACCESS_REFUSED = "ACCESS_REFUSED"
    DEPLOYMENT_QUEUED = "DEPLOY_QUEUED"
    DEPLOYMENT_STARTED = "DEPLOYMENT_STARTED"
    DEPLOYMENT_SUCCEEDED = "DEPLOYMENT_SUCCEEDED"
    DEPLOYMENT_FAILED = "DEPLOYMENT_FAILED"
    DEPLOYMENT_CANCELLED = "DEPLOYMENT_CANCELLED"
    DEPLOYMENT_SUPERSEDED = "DEPLOYMENT_SUPERSEDED"
    CANCEL_ASKED = "TRIGGER_CANCEL"
    RESTART_QUEUED = "RESTART_QUEUED"
    STOP_QUEUED = "STOP_QUEUED"
    STOPPED = "STOPPED"
    STOP_FAILED = "STOP_FAILED"
    STOP_CANCELLED = "STOP_CANCELLED"
    UNINSTALL_QUEUED = "UNINSTALL_QUEUED"
    UNINSTALLED = "UNINSTALLED"
    UNINSTALL_FAILED = "UNINSTALL_FAILED"
    UNINSTALL_CANCELLED = "UNINSTALL_CANCELLED"
    DELETE_QUEUED = "DELETE_QUEUED"
    DELETE_FAILED = "DELETE_FAILED"
    BROKE = "SERVICE_BROKE"
    RECOVERED = "SERVICE_RECOVERED"
    FELL_ASLEEP = "SERVICE_FELL_ASLEEP"
    WOKE_UP = "SERVICE_WOKE_UP"
    RUN_FAILED = "RUN_FAILED"
    RUN_ASKED = "FORCE_RUN_QUEUED"
    FAILED_RUNS_DELETED = "FAILED_RUNS_DELETED"
    STATE_RESTORED = "TERRAFORM_STATE_RESTORED"
    WEBHOOK_DISABLED = "WEBHOOK_DISABLED"
    WEBHOOK_TESTED = "WEBHOOK_TESTED"
    WEBHOOK_REPLAYED = "WEBHOOK_REPLAYED"
    GIT_WEBHOOK_RENEWED = "GIT_WEBHOOK_RENEWED"
    GIT_WEBHOOK_REMOVED = "GIT_WEBHOOK_REMOVED"
    REGISTRY_WEBHOOK_RENEWED = "REGISTRY_WEBHOOK_RENEWED"
    REGISTRY_WEBHOOK_REMOVED = "REGISTRY_WEBHOOK_REMOVED"
    REPORT_SHARED = "EXPORT"
    COMMAND_BEGUN = "SHELL"
    COMMAND_ENDED = "SHELL_ENDED"
    SET_ASIDE = "SERVICE_SET_ASIDE"
    PUT_BACK = "SERVICE_PUT_BACK"
    CLUSTER_LOCKED = "CLUSTER_LOCKED"
    CLUSTER_UNLOCKED = "CLUSTER_UNLOCKED"
    CLUSTER_UNREACHABLE = "CLUSTER_UNREACHABLE"
    CLUSTER_REACHABLE = "CLUSTER_REACHABLE"
    CLUSTER_TAKEN_OVER = "CLUSTER_TAKEN_OVER"
    SEALING_KEY_REPLACED = "SEALING_KEY_REPLACED"
    SEALING_KEY_RETIRED = "SEALING_KEY_RETIRED"


# The contract's word, and the full interface's word for the same event.
_EVENT_WORDS: Final[Mapping[str, str]] = {
    "DEPLOYMENT_STARTED": "DEPLOYMENT_STARTED",
    "DEPLOYMENT_SUCCEEDED": "DEPLOYMENT_SUCCESSFUL",
    "DEPLOYMENT_FAILED": "DEPLOYMENT_FAILURE",
    "DEPLOYMENT_CANCELLED": "DEPLOYMENT_CANCELLED",
}
_CONTRACT_WORDS: Final[Mapping[str, str]] = {full: plain for plain, full in _EVENT_WORDS.items()}

SUBSCRIBABLE_EVENTS: Final = tuple(dict.fromkeys([*_EVENT_WORDS, *_CONTRACT_WORDS]))
"""All words that subscriptions accept, from both vocabularies."""


def is_full(event_word: str) -> bool:
    """Returns whether a word exists only in the full interface."""
    return event_word in _CONTRACT_WORDS and event_word not in _EVENT_WORDS


def plain(event_word: str) -> str:
    """Returns the contract's word for a word of either vocabulary."""
    return _CONTRACT_WORDS.get(event_word, event_word)


def full(event_word: str) -> str:
    """Returns the full interface's word for a word of either vocabulary."""
    return _EVENT_WORDS.get(event_word, event_word)
