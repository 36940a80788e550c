"""The rights in a cluster that the engine uses, as rules of a ClusterRole. The chart of Windlass gives its
account these and no others.

`python -m windlass.kubernetes.engine_rights > deploy/chart/files/rights.yaml` writes them for the chart.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

Rule = Mapping[str, Sequence[str]]

_READ: Final = ("get", "list", "watch")
_OBJECT: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_RBAC: Final = "rbac.authorization.k8s.io"


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Rule:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


ENGINE_RIGHTS: Final[Sequence[Rule]] = (
    _rule("", ["namespaces"], ["create", "delete", "get", "list"]),
    _rule("", ["pods", "persistentvolumeclaims", "secrets", "services"], _OBJECT),
    _rule("", ["pods/log"], ["get"]),
    _rule("", ["pods/exec"], ["create", "get"]),
    # What others have in a namespace, which then stays; accounts of Pods; reasons.
    _rule("", ["configmaps", "events", "serviceaccounts"], ["get", "list"]),
    _rule("apps", ["deployments", "statefulsets"], _OBJECT),
    _rule("apps", ["daemonsets", "replicasets"], _READ),
    _rule("batch", ["cronjobs", "jobs"], _READ),
    _rule("discovery.k8s.io", ["endpointslices"], _READ),
    _rule("networking.k8s.io", ["networkpolicies"], ["create", "get", "list", "update"]),
    _rule("storage.k8s.io", ["storageclasses"], ["get", "list"]),
    # Capacity and usage.
    _rule("", ["nodes"], ["get", "list"]),
    _rule("", ["nodes/proxy"], ["get"]),
)
"""The rights for services, jobs and databases."""

ACCOUNT_RIGHTS: Final[Sequence[Rule]] = (
    # Such a run gets an account with a role in the namespace of its environment. The API server lets
    # only those give rights who have them, or `escalate` and `bind`.
    _rule("", ["serviceaccounts"], ["create", "delete"]),
    _rule("", ["serviceaccounts/token"], ["create"]),
    _rule(_RBAC, ["roles"], ["create", "escalate", "get", "update"]),
    _rule(_RBAC, ["rolebindings"], ["create", "get"]),
    _rule(_RBAC, ["roles", "clusterroles"], ["bind"]),
    _rule(_RBAC, ["clusterrolebindings"], ["create", "delete", "list"]),
)
"""The further rights for runs with accounts of their own. Who has them can give itself every right in the
cluster."""


def text() -> str:
    """Returns the rules as the chart reads them."""
    rules = {"engine": list(ENGINE_RIGHTS), "charts": list(ACCOUNT_RIGHTS)}
    return "# Written by `python -m windlass.kubernetes.engine_rights`.\n" + yaml.safe_dump(rules)


if __name__ == "__main__":
    sys.stdout.write(text())
