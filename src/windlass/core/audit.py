"""The words of the audit: how our events, families and origins are called in the full interface.

Its words are used wherever it has one. Where it has none, ours is kept; but clients of the full interface
stop at a word that they do not know, so under its base they hear the nearest, and the exact one in `change`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from windlass.core.events import Event

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


# Whose events are those of what it is part of.
_PARTS: Final[Mapping[str, str]] = {
    "environmentVariable": "VARIABLE",
    "secret": "SECRET",
    "apiToken": "API_TOKEN",
    "gitToken": "GIT_TOKEN",
}
_SUBS: Final[Mapping[str, str]] = {**_PARTS, "inviteMember": "INVITATION"}
_MEMBERS: Final = ("member", "inviteMember")
_TARGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "MEMBERS_AND_ROLES": _MEMBERS,
    "CONTAINER_REGISTRY": ("containerRegistry",),
    "HELM_REPOSITORY": ("helmRepository",),
    "AGENTIC_WORKFLOW": ("agenticWorkflow",),
    "ENTERPRISE_CONNECTION": ("enterpriseConnection",),
}
_TARGET_OF: Final = {family: word for word, families in _TARGETS.items() for family in families}


def is_part(family: str) -> bool:
    """Whether people look for its events where it belongs: a variable's are those of its service."""
    return family in _PARTS


def target_type(subject_family: str) -> str:
    return _TARGET_OF.get(subject_family, subject_family.upper())


def families_of(target: str) -> tuple[str, ...]:
    return _TARGETS.get(target, (target.lower(),))


def sub_target(family: str) -> str | None:
    return _SUBS.get(family)


def family_of(sub: str) -> str | None:
    """The family of a part; None if there is none of this kind here."""
    return next((family for family, word in _SUBS.items() if word == sub), None)


def origin_of(origin: str, *, full: bool) -> str:
    return THEIRS if full and origin == OURS else origin


def origin_kept(origin: str) -> str:
    """As it is kept, whoever asks for it in which words."""
    return OURS if origin == THEIRS else origin
