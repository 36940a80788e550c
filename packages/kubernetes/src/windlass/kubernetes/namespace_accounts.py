"""Accounts of the namespaces of environments, for runs that change objects of the cluster themselves.

Each namespace has an account that may do everything in it, and nothing elsewhere. One account, which is made
when it is first needed, may change the whole cluster. It has a namespace of its own: who may make Pods in a
namespace may take each account there for them. Each run gets a token of its own, which ends soon after the
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.namespace_access import NamespaceCredential
from windlass.kubernetes import manifests, names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.documents import KubeObject
from windlass.kubernetes.manifests import ClusterOptions, Manifest

T = TypeVar("T")
ACCOUNT: Final = "windlass-runs"
CLUSTER_ACCOUNT: Final = "windlass-cluster-runs"
MIN_TOKEN_SECONDS: Final = 600
"""The API server gives no tokens for a shorter time."""
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1"
_EVERYTHING: Final = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


class _AccountTokenStatus(Struct):
    token: str


class _AccountToken(Struct):
    status: _AccountTokenStatus


class NamespaceAccounts:
    def __init__(self, api: ClusterApi, options: ClusterOptions) -> None:
        self._api, self._options = api, options

    async def credential(
        self, environment: str, org: str, *, seconds: float, has_whole_cluster: bool
    ) -> NamespaceCredential:
        """Returns a new credential; see `NamespaceAccess`."""
        namespace = manifests.namespace(self._options, environment, org)
        name: str = namespace["metadata"]["name"]
        account, home = ACCOUNT, name
        try:
            await self._add_namespace(namespace)
            if has_whole_cluster:
                account, home = CLUSTER_ACCOUNT, names.account_namespace(self._options.installation)
                await self._add_namespace(self._object(home))
            await self._add_account(home, account, has_whole_cluster=has_whole_cluster)
            token = await self._token(home, account, seconds)
        except ClusterUnavailable as error:
            raise EngineUnavailable(str(error)) from error
        except ClusterRefusal as refused:
            raise EngineError(
                "Give the account of Windlass the right to make accounts, roles and tokens in "
                f"{name}: {refused}"
            ) from refused
        return NamespaceCredential(
            server=self._api.server, ca_certificate=self._api.authority, token=token, namespace=name
        )

    async def _add_namespace(self, wanted: Manifest) -> None:
        name = wanted["metadata"]["name"]
        if await self._create(paths.NAMESPACES, wanted, KubeObject) is not None:
            return
        found = await self._api.get(f"{paths.NAMESPACES}/{name}", KubeObject)
        if found.label(names.INSTALLATION) != names.installation_label(self._options.installation):
            raise EngineError(
                f"Rename or remove the namespace {name} of the cluster: it is not of this Windlass, and "
                "stays as it is"
            )

    async def _add_account(self, namespace: str, account: str, *, has_whole_cluster: bool) -> None:
        await self._create(paths.accounts(namespace), self._object(account, namespace), KubeObject)
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        group = "rbac.authorization.k8s.io"
        if has_whole_cluster:
            role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
            binding = {**self._object(f"{account}-{namespace}"), "subjects": [subject], "roleRef": role}
            await self._create(f"{_ROLES}/clusterrolebindings", binding, KubeObject)
            return
        within = f"{_ROLES}/namespaces/{namespace}"
        own = {**self._object(account, namespace), "rules": _EVERYTHING}
        await self._create(f"{within}/roles", own, KubeObject)
        role = {"apiGroup": group, "kind": "Role", "name": account}
        binding = {**self._object(account, namespace), "subjects": [subject], "roleRef": role}
        await self._create(f"{within}/rolebindings", binding, KubeObject)

    async def _token(self, namespace: str, account: str, seconds: float) -> str:
        wanted: Mapping[str, Any] = {"spec": {"expirationSeconds": max(MIN_TOKEN_SECONDS, round(seconds))}}
        answer = await self._api.create(f"{paths.accounts(namespace, account)}/token", wanted, _AccountToken)
        return answer.status.token

    def _object(self, name: str, namespace: str = "") -> dict[str, Any]:
        labels = {names.INSTALLATION: names.installation_label(self._options.installation)}
        place = {"namespace": namespace} if namespace else {}
        return {"metadata": {"name": name, "labels": labels, **place}}

    async def _create(self, path: str, wanted: Mapping[str, Any], type: type[T]) -> T | None:
        """Creates an object; returns None if one of this name exists."""
        try:
            return await self._api.create(path, wanted, type)
        except ClusterRefusal as refused:
            if refused.is_conflict and refused.reason == "AlreadyExists":
                return None
            raise
