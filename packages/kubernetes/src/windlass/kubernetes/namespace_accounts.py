"""Accounts for runs that change objects of the cluster themselves.

Each namespace has an account that may do everything in it except change the namespace itself, and nothing
elsewhere. A run gets a token that ends with the run, because it is bound to a Secret of that run. A run that
may change the whole cluster gets an account of its own, in a namespace apart: who may make Pods in a
namespace may take each account there for them.

A run trusts what earlier runs have written into the namespace, such as the record of a release. So no run
that may change the whole cluster begins in a namespace where runs without this right were before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.namespace_access import NamespaceCredential
from windlass.kubernetes import names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.documents import KubeObject, ObjectList
from windlass.kubernetes.instances import number
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.namespaces import Namespaces
from windlass.kubernetes.own_objects import OwnObjects
from windlass.kubernetes.role_rules import read_rules

ACCOUNT: Final = "windlass-runs"
MIN_TOKEN_SECONDS: Final = 600
"""The API server gives no tokens for a shorter time."""
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_BINDINGS: Final = f"{ROLES}/clusterrolebindings"
_ROLE_GROUP: Final = "rbac.authorization.k8s.io"
_FORBIDDEN: Final = 403


class _AccountTokenStatus(Struct):
    token: str


class _AccountToken(Struct):
    status: _AccountTokenStatus


class NamespaceAccounts:
    def __init__(self, api: ClusterApi, options: ClusterOptions) -> None:
        self._api, self._options = api, options
        self._namespaces, self._objects = Namespaces(api, options), OwnObjects(api, options.installation)
        self._home = names.account_namespace(options.installation)

    async def credential(
        self, environment: str, org: str, *, run: str, seconds: float, has_whole_cluster: bool
    ) -> NamespaceCredential:
        """Returns a new credential; see `NamespaceAccess`."""
        name = names.namespace(self._options.installation, environment)
        lifetime = max(MIN_TOKEN_SECONDS, round(seconds))
        try:
            await self._namespaces.add(environment, org)
            if has_whole_cluster:
                await self._refuse_written(name)
            else:
                await self._note_written(name)
            give = self._token_of_cluster if has_whole_cluster else self._token_of_namespace
            token = await give(name, run, lifetime)
        except ClusterUnavailable as error:
            raise EngineUnavailable(str(error)) from error
        except ClusterRefusal as refused:
            raise EngineError(
                "Give the account of Windlass the right to make accounts, roles and tokens in "
                f"{name}: {refused}"
            ) from refused
        return NamespaceCredential(
            server=self._api.server,
            ca_certificate=self._api.authority,
            token=token,
            namespace=name,
            server_name=self._api.server_name,
        )

    async def revoke(self, environment: str, run: str) -> None:
        """Ends the credential of a run. Succeeds if there is none."""
        own = f"{names.selector(self._options.installation)},{names.RUN}={names.run_label(run)}"
        namespace = names.namespace(self._options.installation, environment)
        try:
            await self._api.delete(paths.secrets(namespace), params={"labelSelector": own})
            await self._delete_expired(CLUSTER_BINDINGS, own, at=None)
            await self._delete_expired(paths.accounts(self._home), own, at=None)
        except ClusterUnavailable as error:
            raise EngineUnavailable(str(error)) from error
        except ClusterRefusal as refused:
            raise EngineError(
                "Give the account of Windlass the right to delete Secrets, accounts and bindings of runs: "
                f"{refused}"
            ) from refused

    async def sweep(self) -> None:
        """Deletes the rights in the whole cluster of runs whose end was missed, because a server was
        killed."""
        own, now = names.selector(self._options.installation), time.time()
        await self._delete_expired(CLUSTER_BINDINGS, own, now)
        await self._delete_expired(paths.accounts(self._home), own, now)

    async def _refuse_written(self, namespace: str) -> None:
        """Refuses a namespace to which runs of less rights may have written."""
        mark = await self._api.find(paths.secrets(self._home, namespace), KubeObject)
        if mark or await self._api.find(paths.accounts(namespace, ACCOUNT), KubeObject):
            raise EngineError(
                "Create the service in another environment, and delete this one with skipReconcile: runs "
                "that may change only the namespace were in this environment before, and what they left "
                "there could get rights in the whole cluster"
            )

    async def _note_written(self, namespace: str) -> None:
        """Notes that runs of the namespace write to it. The note is where they cannot remove it, and is
        deleted with the namespace."""
        await self._namespaces.add_empty(self._object("Namespace", self._home))
        owner = await self._api.get(f"{paths.NAMESPACES}/{namespace}", KubeObject)
        mark = self._object("Secret", namespace, self._home)
        mark["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": owner.metadata.uid}
        ]
        await self._objects.create(paths.secrets(self._home), mark, KubeObject)

    async def _token_of_namespace(self, namespace: str, run: str, seconds: int) -> str:
        await self._delete_expired(paths.secrets(namespace), f"{self._selector()},{names.RUN}", time.time())
        await self._objects.create(
            paths.accounts(namespace), self._object("ServiceAccount", ACCOUNT, namespace), KubeObject
        )
        within = f"{ROLES}/namespaces/{namespace}"
        role = {**self._object("Role", ACCOUNT, namespace), "rules": await read_rules(self._api)}
        await self._objects.replace(f"{within}/roles", role)
        binding = {
            **self._object("RoleBinding", ACCOUNT, namespace),
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
            "roleRef": {"apiGroup": _ROLE_GROUP, "kind": "Role", "name": ACCOUNT},
        }
        await self._objects.create(f"{within}/rolebindings", binding, KubeObject)
        secret = self._object("Secret", names.run_account(run), namespace, run=run, seconds=seconds)
        made = await self._objects.create(paths.secrets(namespace), secret, KubeObject)
        if made is None:
            made = await self._api.get(paths.secrets(namespace, names.run_account(run)), KubeObject)
        bound = {"apiVersion": "v1", "kind": "Secret", "name": made.metadata.name, "uid": made.metadata.uid}
        return await self._token(namespace, ACCOUNT, {"expirationSeconds": seconds, "boundObjectRef": bound})

    async def _token_of_cluster(self, namespace: str, run: str, seconds: int) -> str:
        await self._namespaces.add_empty(self._object("Namespace", self._home))
        await self.sweep()
        account = names.run_account(run)
        own = self._object("ServiceAccount", account, self._home, run=run, seconds=seconds)
        await self._objects.create(paths.accounts(self._home), own, KubeObject)
        binding = {
            **self._object("ClusterRoleBinding", f"{self._home}-{account}", run=run, seconds=seconds),
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self._home}],
            "roleRef": {"apiGroup": _ROLE_GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        }
        await self._objects.create(CLUSTER_BINDINGS, binding, KubeObject)
        return await self._token(self._home, account, {"expirationSeconds": seconds})

    async def _token(self, namespace: str, account: str, spec: Mapping[str, Any]) -> str:
        path = f"{paths.accounts(namespace, account)}/token"
        return (await self._api.create(path, {"spec": spec}, _AccountToken)).status.token

    async def _delete_expired(self, path: str, selector: str, at: float | None) -> None:
        """Deletes objects of runs that ended before a moment; all of them without one."""
        try:
            found = await self._api.get(path, ObjectList, {"labelSelector": selector})
        except ClusterRefusal as refused:
            if refused.is_absent or refused.status == _FORBIDDEN:
                return  # an account that may not list them has made none
            raise
        for each in found.items:
            if at is None or _end_of(each) < at:
                await self._api.delete(f"{path}/{each.metadata.name}")

    def _selector(self) -> str:
        return names.selector(self._options.installation)

    def _object(
        self, kind: str, name: str, namespace: str = "", *, run: str = "", seconds: int = 0
    ) -> dict[str, Any]:
        labels = {names.INSTALLATION: names.installation_label(self._options.installation)}
        metadata: dict[str, Any] = {"name": name, "labels": labels}
        if namespace:
            metadata["namespace"] = namespace
        if run:
            labels[names.RUN] = names.run_label(run)
            metadata["annotations"] = {names.EXPIRES: str(round(time.time()) + seconds)}
        return {"kind": kind, "metadata": metadata}


def _end_of(found: KubeObject) -> int:
    """Returns when the token of an object ends; 0 for one of an earlier version, which had no end."""
    return number(found.annotation(names.EXPIRES))
