"""The vocabulary of the audit: maps events, families and origins to the words of the full interface.

Events without a word in the full interface have a word of Windlass. Clients of the full interface fail on
unknown words, so responses under `/compat` contain the most similar known word. The exact word is then in
`change`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.core.words.events import Event
from windlass.core.words.naming import enum_value

EVENT_TYPES: Final = (
    "CREATE", "UPDATE", "DELETE", "ACCEPT", "EXPORT", "CLONE", "DEPLOY_QUEUED", "STOP_QUEUED",
    "RESTART_QUEUED", "DELETE_QUEUED", "UNINSTALL_QUEUED", "MAINTENANCE", "DRY_RUN", "TRIGGER_REDEPLOY",
    "TRIGGER_CANCEL", "FORCE_RUN_QUEUED", "FORCE_RUN_QUEUED_DEPLOY", "FORCE_RUN_QUEUED_STOP",
    "FORCE_RUN_QUEUED_DELETE", "TRIGGER_DEPLOY", "TRIGGER_STOP", "TRIGGER_RESTART", "TRIGGER_DELETE",
    "TRIGGER_UNINSTALL", "TRIGGER_DEPLOY_DRY_RUN", "TRIGGER_TERRAFORM_FORCE_UNLOCK",
    "TRIGGER_TERRAFORM_MIGRATE_STATE", "TRIGGER_FORCE_RUN", "TRIGGER_FORCE_RUN_DEPLOY",
    "TRIGGER_FORCE_RUN_STOP", "TRIGGER_FORCE_RUN_DELETE", "DEPLOYED", "STOPPED", "DELETED", "UNINSTALLED",
    "RESTARTED", "DEPLOYED_DRY_RUN", "FORCE_RUN_SUCCEEDED", "TERRAFORM_FORCE_UNLOCK_SUCCEEDED",
    "TERRAFORM_MIGRATE_STATE_SUCCEEDED", "DEPLOY_FAILED", "STOP_FAILED", "DELETE_FAILED",
    "UNINSTALL_FAILED", "RESTART_FAILED", "DEPLOYED_DRY_RUN_FAILED", "FORCE_RUN_FAILED",
    "TERRAFORM_FORCE_UNLOCK_FAILED", "TERRAFORM_MIGRATE_STATE_FAILED", "SHELL", "PORT_FORWARD",
    "REMOTE_DEBUG", "MCP", "IMPORT", "LOCK", "UNLOCK", "POLICY_FAILED",
)  # fmt: skip
TARGET_TYPES: Final = (
    "AGENTIC_WORKFLOW", "APPLICATION", "CLUSTER", "CONTAINER", "CONTAINER_REGISTRY", "DATABASE",
    "ENTERPRISE_CONNECTION", "ENVIRONMENT", "JOB", "HELM", "HELM_REPOSITORY", "MEMBERS_AND_ROLES",
    "ORGANIZATION", "PROJECT", "WEBHOOK", "TERRAFORM",
)  # fmt: skip
SUB_TARGETS: Final = (
    "ADVANCED_SETTINGS", "ALERT_RECEIVER", "ALERT_RULE", "ANNOTATIONS_GROUP", "API_TOKEN",
    "ARGOCD_CLUSTER_MAPPING", "ARGOCD_CONFIGURATION", "BILLING_INFO", "BILLING_USAGE_REPORT",
    "BLUEPRINT_MIGRATION", "CLOUD_PROVIDER_CREDENTIALS", "CLUSTER_CREDENTIALS", "CLUSTER_ROUTING_TABLE",
    "CONFIG", "CREDIT_CARD", "CREDIT_CODE", "CUSTOM_DOMAIN", "CUSTOM_ROLE", "DEPLOYMENT_RULE",
    "DEPLOYMENT_STAGE", "DNS_PROVIDER", "GITHUB_APP", "GIT_REPOSITORY", "GIT_TOKEN", "INVITATION",
    "JWT_TOKEN_FORGED", "KUBERNETES_CONFIGURATION", "KUBERNETES_CREDENTIALS", "LABELS_GROUP", "MCP_SERVER",
    "MEMBER_ROLE", "PLAN", "POLICY_API_TOKEN", "REMOTE_ACCESS", "SECRET", "SSO", "TERRAFORM", "TOOL_CALL",
    "TRANSFER_OWNERSHIP", "VARIABLE",
)  # fmt: skip
OURS, THEIRS = "WINDLASS", "QOVERY_INTERNAL"
"""The origin of automatic changes: Windlass's word and the full interface's word."""
ORIGINS: Final = ("API", "CLI", "CONSOLE", "GIT", THEIRS, "SKILL", "TERRAFORM_PROVIDER", OURS)

# Events that have another name in the full interface.
_EXACT_WORDS: Final[Mapping[str, str]] = {
    Event.DEPLOYMENT_SUCCEEDED: "DEPLOYED",
    Event.DEPLOYMENT_FAILED: "DEPLOY_FAILED",
}
_RESTART_EVENTS: Final[Mapping[str, str]] = {"DEPLOYED": "RESTARTED", "DEPLOY_FAILED": "RESTART_FAILED"}
# The most similar words for events that the full interface does not have.
_NEAREST_WORDS: Final[Mapping[str, str]] = {
    Event.SIGNED_IN: "ACCEPT",
    Event.TOKEN_USED: "ACCEPT",
    Event.SIGN_IN_REFUSED: "POLICY_FAILED",
    Event.TOKEN_REFUSED: "POLICY_FAILED",
    Event.ACCESS_REFUSED: "POLICY_FAILED",
    Event.DEPLOYMENT_STARTED: "TRIGGER_DEPLOY",
    Event.DEPLOYMENT_CANCELLED: "TRIGGER_CANCEL",
    Event.DEPLOYMENT_SUPERSEDED: "TRIGGER_CANCEL",
    Event.STOP_CANCELLED: "TRIGGER_CANCEL",
    Event.UNINSTALL_CANCELLED: "TRIGGER_CANCEL",
    Event.BROKE: "DEPLOY_FAILED",
    Event.RECOVERED: "DEPLOYED",
    Event.FELL_ASLEEP: "STOPPED",
    Event.WOKE_UP: "DEPLOYED",
    Event.RUN_FAILED: "FORCE_RUN_FAILED",
    Event.COMMAND_ENDED: "SHELL",
}
_DEFAULT_WORD = "UPDATE"

WORDS: Final = tuple(dict.fromkeys([*EVENT_TYPES, *(event.value for event in Event)]))
"""All words that clients may filter by, including the contract's words for deployments."""


def type_of(kind: str, action: str, *, is_full_interface: bool) -> str:
    """Returns the word for an event. `action`: the action of the event's deployment; empty without a
    deployment."""
    word = _EXACT_WORDS.get(kind, kind)
    if is_full_interface and word not in EVENT_TYPES:
        word = _NEAREST_WORDS.get(kind, _DEFAULT_WORD)
    return _RESTART_EVENTS.get(word, word) if action == "RESTART" else word


def kinds_of(audit_word: str, *, is_full_interface: bool) -> tuple[str, ...]:
    """Returns the kinds of event that a word may stand for. Windlass's own words are accepted, too."""
    return tuple(
        kind
        for kind in Event
        if audit_word
        in {
            kind,
            type_of(kind, "", is_full_interface=is_full_interface),
            type_of(kind, "RESTART", is_full_interface=is_full_interface),
        }
    )


class AuditWords(Struct, frozen=True, kw_only=True):
    """The audit's words for a family, if they are not derived from its name, such as GIT_TOKEN from
    `gitToken`."""

    target: str = ""
    """The target type of events about a resource of the family, one of `TARGET_TYPES`."""
    sub_target: str = ""
    """The sub-target type of events about a resource that belongs to another one, one of SUB_TARGETS."""
    is_part: bool = False
    """Returns whether events are listed under the owner of the resource, such as a variable's service."""


AUDIT_WORDS: Final = AuditWords()


class AuditNames:
    """Maps families to the audit's words, and words to families."""

    def __init__(self, audit_words: Mapping[str, AuditWords]) -> None:
        self._targets = {family: entry.target or enum_value(family) for family, entry in audit_words.items()}
        self._sub_targets = {
            family: entry.sub_target for family, entry in audit_words.items() if entry.sub_target
        }
        self._parts = {family for family, entry in audit_words.items() if entry.is_part}

    def is_part(self, family: str) -> bool:
        return family in self._parts

    def target(self, family: str) -> str:
        return self._targets.get(family, enum_value(family))

    def families_of(self, target: str) -> tuple[str, ...]:
        """Returns the families with this target word. Without a match, returns the word itself, which matches
        nothing."""
        return tuple(family for family, word in self._targets.items() if word == target) or (target,)

    def sub_target(self, family: str) -> str | None:
        return self._sub_targets.get(family)

    def family_of(self, sub_target: str) -> str | None:
        """Returns the family with this sub-target word; None if there is none."""
        return next((family for family, word in self._sub_targets.items() if word == sub_target), None)


def origin_of(origin: str, *, is_full_interface: bool) -> str:
    return THEIRS if is_full_interface and origin == OURS else origin


def origin_kept(origin: str) -> str:
    """Returns the stored form of an origin from either vocabulary."""
    return OURS if origin == THEIRS else origin
