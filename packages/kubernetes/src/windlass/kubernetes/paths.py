"""Paths of the API server."""

from __future__ import annotations

NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"


def pods(namespace: str, name: str = "") -> str:
    return _in("/api/v1", namespace, "pods", name)


def secrets(namespace: str, name: str = "") -> str:
    return _in("/api/v1", namespace, "secrets", name)


def claims(namespace: str, name: str = "") -> str:
    return _in("/api/v1", namespace, "persistentvolumeclaims", name)


def services(namespace: str, name: str = "") -> str:
    return _in("/api/v1", namespace, "services", name)


def events(namespace: str) -> str:
    return _in("/api/v1", namespace, "events")


def accounts(namespace: str, name: str = "") -> str:
    return _in("/api/v1", namespace, "serviceaccounts", name)


def policies(namespace: str, name: str = "") -> str:
    return _in("/apis/networking.k8s.io/v1", namespace, "networkpolicies", name)


def budgets(namespace: str, name: str = "") -> str:
    return _in("/apis/policy/v1", namespace, "poddisruptionbudgets", name)


def deployments(namespace: str, name: str = "") -> str:
    return _in("/apis/apps/v1", namespace, "deployments", name)


def stateful_sets(namespace: str, name: str = "") -> str:
    return _in("/apis/apps/v1", namespace, "statefulsets", name)


def _in(group: str, namespace: str, kind: str, name: str = "") -> str:
    return f"{group}/namespaces/{namespace}/{kind}" + (f"/{name}" if name else "")
