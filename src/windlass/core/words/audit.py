"""The words of the audit: how our events, families and origins are called in the full interface.

Its words are used wherever it has one. Where it has none, ours is kept; but clients of the full interface
stop at a word that they do not know, so under its base they hear the nearest, and the exact one in `change`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.core.words.events import Event
from windlass.core.words.naming import snake

TYPES: Final = (
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
TARGETS: Final = (
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
"""What nobody asked for: how we call its origin, and how the full interface does."""
ORIGINS: Final = ("API", "CLI", "CONSOLE", "GIT", THEIRS, "SKILL", "TERRAFORM_PROVIDER", OURS)

# Ours that the full interface calls otherwise.
_EXACT: Final[Mapping[str, str]] = {
    Event.DEPLOYMENT_SUCCEEDED: "DEPLOYED",
    Event.DEPLOYMENT_FAILED: "DEPLOY_FAILED",
}
_OF_A_RESTART: Final[Mapping[str, str]] = {"DEPLOYED": "RESTARTED", "DEPLOY_FAILED": "RESTART_FAILED"}
# Ours for which it has no word, with the nearest.
_NEAREST: Final[Mapping[str, str]] = {
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
}
_OTHERWISE = "UPDATE"

WORDS: Final = tuple(dict.fromkeys([*TYPES, *(event.value for event in Event)]))
"""Every word that may be asked for; the contract's for deployments too."""


def type_of(kind: str, action: str, *, full: bool) -> str:
    """How an event is called. `action` is that of its deployment, if it is about one."""
    word = _EXACT.get(kind, kind)
    if full and word not in TYPES:
        word = _NEAREST.get(kind, _OTHERWISE)
    return _OF_A_RESTART.get(word, word) if action == "RESTART" else word


def kinds_of(word: str, *, full: bool) -> tuple[str, ...]:
    """The events that may be called so; also ours by its own name."""
    return tuple(
        kind
        for kind in Event
        if word in {kind, type_of(kind, "", full=full), type_of(kind, "RESTART", full=full)}
    )


class AuditWords(Struct, frozen=True, kw_only=True):
    """What the audit calls a family, where that does not follow from its name: `gitToken` is GIT_TOKEN."""

    target: str = ""
    """One of TARGETS, for events about a resource of the family."""
    sub_target: str = ""
    """One of SUB_TARGETS, for what belongs to another resource."""
    is_part: bool = False
    """True if its events are found where it belongs: those of a variable at its service."""


AUDIT_WORDS: Final = AuditWords()


class AuditNames:
    """The audit's words for all families, and the families that a word stands for."""

    def __init__(self, words: Mapping[str, AuditWords]) -> None:
        self._targets = {family: said.target or snake(family).upper() for family, said in words.items()}
        self._sub_targets = {family: said.sub_target for family, said in words.items() if said.sub_target}
        self._parts = {family for family, said in words.items() if said.is_part}

    def is_part(self, family: str) -> bool:
        return family in self._parts

    def target(self, family: str) -> str:
        return self._targets.get(family, snake(family).upper())

    def families_of(self, target: str) -> tuple[str, ...]:
        """All families with this word. Where there is none, a name that no family has: it finds nothing."""
        return tuple(family for family, word in self._targets.items() if word == target) or (target,)

    def sub_target(self, family: str) -> str | None:
        return self._sub_targets.get(family)

    def family_of(self, sub_target: str) -> str | None:
        """The family of a part; None if there is none of this kind here."""
        return next((family for family, word in self._sub_targets.items() if word == sub_target), None)


def origin_of(origin: str, *, full: bool) -> str:
    return THEIRS if full and origin == OURS else origin


def origin_kept(origin: str) -> str:
    """As it is kept, whoever asks for it in which words."""
    return OURS if origin == THEIRS else origin
