"""The role of a run covers everything in a namespace except the namespace itself."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.kubernetes.role_rules import ApiGroup, namespace_rules


def group(name: str, **scopes: str) -> ApiGroup:
    """Returns a group; `scopes`: Namespaced or Cluster by resource, each with the subresource `status`."""
    resources: list[dict[str, Any]] = [
        {"resource": resource, "scope": scope, "subresources": [{"subresource": "status"}]}
        for resource, scope in scopes.items()
    ]
    document = {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": resources}]}
    return msgspec.convert(document, ApiGroup)


INSIDE = "Namespaced"
GROUPS = (
    group("", pods=INSIDE, resourcequotas=INSIDE, namespaces="Cluster", nodes="Cluster"),
    group("apps", deployments=INSIDE),
    group("rbac.authorization.k8s.io", roles=INSIDE, clusterroles="Cluster"),
)


def test_the_core_group_is_covered_by_name():
    core, read_only, others, roles = namespace_rules(GROUPS)
    assert core["apiGroups"] == [""]
    assert {"pods", "deployments", "deployments/status"} <= {*core["resources"]}
    assert not {"*", "namespaces", "namespaces/status", "nodes", "resourcequotas"} & {*core["resources"]}
    assert {"resourcequotas", "resourcequotas/status"} <= {*read_only["resources"]}
    assert read_only["verbs"] == ["get", "list", "watch"]
    assert others["apiGroups"] == ["apps", "extensions"]
    assert not {"*", "escalate", "bind"} & {*roles["verbs"]}


def test_the_addresses_of_pods_are_not_written_by_runs():
    """The gateway connects to them."""
    core, read_only, *_ = namespace_rules(GROUPS)
    assert "pods/status" not in core["resources"]
    assert "pods/status" in read_only["resources"]


def test_a_custom_resource_does_not_open_the_namespace():
    """Its name is written into the rule of the core group, too."""
    core, *_ = namespace_rules([*GROUPS, group("shop.example.com", namespaces=INSIDE, orders=INSIDE)])
    assert "orders" in core["resources"]
    assert not {"namespaces", "namespaces/status"} & {*core["resources"]}
