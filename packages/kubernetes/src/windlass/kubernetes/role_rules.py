"""The rules of the role with which a run may change everything in a namespace, but not the namespace itself,
and not what nodes report about Pods.

A role with `*` for the core group also covers the Namespace object, whose path names it as its own namespace:
its account could lower the Pod Security level, and start Pods that take over their node.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec import Struct

from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.documents import ObjectMetadata

CORE: Final = "/api"
GROUPS: Final = "/apis"
_WHOLE_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The form in which one answer has the resources of all groups."""
_ROLE_GROUP: Final = "rbac.authorization.k8s.io"
_FORMER_GROUP: Final = "extensions"
"""A group that clusters have no more, and that older roles still name beside its successors."""
_OBJECT_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""All verbs except `escalate` and `bind`, which would give a role or an account more rights than this one
has."""
_READ_VERBS: Final = ("get", "list", "watch")
_LIMITS: Final = frozenset({"limitranges", "resourcequotas"})
"""Resources with which the operator of a cluster limits a namespace."""
_POD_STATUS: Final = "pods/status"
"""Has the address of a Pod, to which the gateway connects. Only nodes write it."""
_NAMESPACES: Final = "namespaces"

Rule = dict[str, Any]


class _Subresource(Struct, frozen=True):
    subresource: str = ""


class _Resource(Struct, frozen=True):
    resource: str = ""
    scope: str = ""
    subresources: list[_Subresource] | None = None


class _GroupVersion(Struct, frozen=True):
    resources: list[_Resource] | None = None


class ApiGroup(Struct, frozen=True):
    """The resources of one group of an API server. The name of the core group is empty."""

    metadata: ObjectMetadata = ObjectMetadata()
    versions: list[_GroupVersion] = []

    def namespaced(self) -> set[str]:
        """Returns the resources and subresources in namespaces, such as `pods` and `pods/log`."""
        found: set[str] = set()
        for version in self.versions:
            for each in version.resources or ():
                if each.scope == "Namespaced" and each.resource:
                    parts = (f"{each.resource}/{part.subresource}" for part in each.subresources or ())
                    found |= {each.resource, *parts}
        return found


class _ApiGroups(Struct, frozen=True):
    items: list[ApiGroup] = []


async def read_rules(api: ClusterApi) -> list[Rule]:
    """Returns the rules for the resources that a cluster has now."""
    core = await api.get(CORE, _ApiGroups, accept=_WHOLE_DISCOVERY)
    others = await api.get(GROUPS, _ApiGroups, accept=_WHOLE_DISCOVERY)
    return namespace_rules([*core.items, *others.items])


def namespace_rules(groups: Sequence[ApiGroup]) -> list[Rule]:
    # A role that a run makes names groups and resources together, such as `deployments` of the core group
    # and of `apps`. An account may give only rights that it has, so it has those to resources that do not
    # exist too.
    inside = {name for group in groups for name in group.namespaced() if _first(name) != _NAMESPACES}
    read_only = {name for name in inside if _first(name) in _LIMITS or name == _POD_STATUS}
    others = {group.metadata.name for group in groups} - {"", _ROLE_GROUP} | {_FORMER_GROUP}
    rules = (
        _rule([""], inside - read_only, ["*"]),
        _rule([""], read_only, _READ_VERBS),
        _rule(others, ["*"], ["*"]),
        _rule([_ROLE_GROUP], ["roles", "rolebindings"], _OBJECT_VERBS),
    )
    return [rule for rule in rules if rule["resources"]]


def _first(resource: str) -> str:
    return resource.partition("/")[0]


def _rule(groups: Collection[str], resources: Collection[str], verbs: Sequence[str]) -> Rule:
    return {"apiGroups": sorted(groups), "resources": sorted(resources), "verbs": [*verbs]}
