"""A run that changes objects of the cluster gets a token of its own, for the namespace of its environment."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.programs import HELM, require_helm
from windlass.base.addresses import Reach
from windlass.base.subprocesses import in_thread
from windlass.engines.engine import EngineError
from windlass.engines.namespace_access import NamespaceAccess, NamespaceCredential
from windlass.kubernetes import manifests, names, paths
from windlass.kubernetes.access import read_kubeconfig
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.engine import KubernetesEngine
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.namespace_accounts import ACCOUNT, CLUSTER_BINDINGS, ROLES, NamespaceAccounts

pytestmark = pytest.mark.slow
INSTALLATION = "accounts"
OPTIONS = ClusterOptions(installation=INSTALLATION, helper_image="none", allowed_sources=("gateway",))
ALL_RIGHTS = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
MERGE = "application/merge-patch+json"


@pytest.fixture
async def accounts(plane: ControlPlane) -> AsyncIterator[NamespaceAccounts]:
    access = read_kubeconfig(json.dumps(plane.kubeconfig()))
    api = ClusterApi(access, Reach(("0.0.0.0/0", "::/0")))
    yield NamespaceAccounts(api, OPTIONS)
    await api.close()


def status_of(
    credential: NamespaceCredential, path: str, method: str = "GET", body: object = None, kind: str = MERGE
) -> int:
    trust = ssl.create_default_context(cadata=credential.ca_certificate)
    headers = {"Authorization": f"Bearer {credential.token}", "Content-Type": kind}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(credential.server + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


async def given(accounts: NamespaceAccounts, environment: str, run: str = "r", **options: Any) -> Any:
    wanted = {"has_whole_cluster": False, **options}
    return await accounts.credential(environment, "acme", run=run, seconds=60, **wanted)


async def create(credential: NamespaceCredential, path: str, body: object) -> int:
    return await in_thread(status_of, credential, path, "POST", body, "application/json")


async def change_level(credential: NamespaceCredential) -> int:
    """Tries to lower the Pod Security level of the namespace, with which a Pod could take over its node."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    path = f"{paths.NAMESPACES}/{credential.namespace}"
    return await in_thread(status_of, credential, path, "PATCH", {"metadata": {"labels": labels}})


def put_old_role(plane: ControlPlane, namespace: str) -> None:
    """Gives the account of a namespace the role that earlier versions made."""
    path = f"{ROLES}/namespaces/{namespace}/roles"
    metadata = {"name": ACCOUNT, "namespace": namespace}
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata}
    plane.ask(f"{path}/{ACCOUNT}", {**body, "rules": ALL_RIGHTS}, method="PUT")


async def until_refused(credential: NamespaceCredential, path: str) -> None:
    """Waits until the API server accepts a token no more. It remembers tokens for some seconds."""
    async with asyncio.timeout(60):
        while await in_thread(status_of, credential, path) != 401:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.5)


async def test_an_account_may_do_everything_in_its_namespace_and_nothing_elsewhere(
    accounts: NamespaceAccounts,
):
    first = await given(accounts, "one")
    other = await given(accounts, "two")
    own, foreign = (f"/api/v1/namespaces/{item.namespace}/secrets" for item in (first, other))
    listed = (own, foreign, "/api/v1/secrets")
    assert [await in_thread(status_of, first, path) for path in listed] == [200, 403, 403]
    assert first.token not in repr(first)
    again = await given(accounts, "one")
    assert (again.namespace, again.token == first.token) == (first.namespace, False)


async def test_an_account_may_not_change_its_namespace(accounts: NamespaceAccounts, plane: ControlPlane):
    first = await given(accounts, "level")
    assert await change_level(first) == 403
    path = f"{paths.NAMESPACES}/{first.namespace}"
    assert await in_thread(status_of, first, path, "DELETE") == 403
    assert await in_thread(status_of, first, path) == 403
    put_old_role(plane, first.namespace)
    assert await change_level(first) == 200


async def test_a_run_replaces_the_role_of_an_earlier_version(
    accounts: NamespaceAccounts, plane: ControlPlane
):
    first = await given(accounts, "before")
    put_old_role(plane, first.namespace)
    second = await given(accounts, "before", run="second")
    assert await change_level(second) == 403


async def test_an_account_may_not_give_itself_more_rights(accounts: NamespaceAccounts, plane: ControlPlane):
    first = await given(accounts, "rights")
    within = f"{ROLES}/namespaces/{first.namespace}"
    role = {"metadata": {"name": "more"}, "rules": ALL_RIGHTS}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": first.namespace}
    admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "more"}, "subjects": [subject], "roleRef": admin}

    async def attempts() -> list[int]:
        made = [await create(first, f"{within}/{kind}", body) for kind, body in kinds]
        limits = f"/api/v1/namespaces/{first.namespace}/resourcequotas"
        return [*made, await in_thread(status_of, first, limits, "DELETE")]

    kinds = (("roles", role), ("rolebindings", binding))
    assert await attempts() == [403, 403, 403]
    put_old_role(plane, first.namespace)
    assert await attempts() == [201, 201, 200]


async def test_an_account_may_make_what_charts_contain(accounts: NamespaceAccounts):
    first = await given(accounts, "chart")
    core = f"/api/v1/namespaces/{first.namespace}"
    rules = [{"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "watch"]}]
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "none"}]}}
    deployment = {"selector": {"matchLabels": labels}, "template": pod}
    made: tuple[tuple[str, dict[str, Any]], ...] = (
        (f"{core}/configmaps", {}),
        (f"{core}/secrets", {}),
        (f"{core}/serviceaccounts", {}),
        (f"{core}/services", {"spec": {"ports": [{"port": 80}]}}),
        (f"{ROLES}/namespaces/{first.namespace}/roles", {"rules": rules}),
        (f"/apis/apps/v1/namespaces/{first.namespace}/deployments", {"spec": deployment}),
        (f"/apis/policy/v1/namespaces/{first.namespace}/poddisruptionbudgets", {"spec": {}}),
    )
    assert [await create(first, path, {"metadata": {"name": "web"}, **body}) for path, body in made] == [
        201
    ] * len(made)


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
    "templates/all.yaml": """
apiVersion: v1
kind: ServiceAccount
metadata: {name: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: shop}
rules: [{apiGroups: ["", "apps", "extensions"], resources: [pods, deployments], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: shop}
subjects: [{kind: ServiceAccount, name: shop}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shop}
data: {number: {{ .Release.Revision | quote }}}
""",
}


async def test_helm_releases_a_chart_with_such_a_credential(
    accounts: NamespaceAccounts, plane: ControlPlane, tmp_path: Path
):
    require_helm()
    for name, text in CHART.items():
        file = tmp_path / "shop" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for revision in ("1", "2"):
        own = await given(accounts, "helm", run=revision)
        config = tmp_path / "kubeconfig"
        config.write_text(json.dumps(plane.kubeconfig(own.token, own.namespace)))
        command = [str(HELM), "upgrade", "--install", "shop", str(tmp_path / "shop")]
        environment = {"KUBECONFIG": str(config), "HOME": str(tmp_path), "HELM_CACHE_HOME": str(tmp_path)}
        done = await in_thread(
            partial(subprocess.run, command, env=environment, capture_output=True, text=True, check=False)
        )
        assert done.returncode == 0, done.stderr
        path = f"/api/v1/namespaces/{own.namespace}/configmaps/shop"
        assert plane.ask(path)["data"] == {"number": revision}
        await accounts.revoke("helm", revision)


async def test_a_credential_has_the_name_of_the_certificate_of_the_api_server(plane: ControlPlane):
    access = replace(read_kubeconfig(json.dumps(plane.kubeconfig())), server_name="kubernetes.default")
    api = ClusterApi(access, Reach(("0.0.0.0/0", "::/0")))
    own = await given(NamespaceAccounts(api, OPTIONS), "named")
    await api.close()
    assert own.server_name == "kubernetes.default"


async def test_no_label_of_a_namespace_opens_the_environments(
    accounts: NamespaceAccounts, plane: ControlPlane
):
    """The policy chooses namespaces by a label that the API server keeps."""
    first = await given(accounts, "closed")
    other = await given(accounts, "opener")
    plane.add_namespace("gateway")
    without = {"metadata": {"labels": {names.ENVIRONMENT: None, manifests.NAMESPACE_NAME: "gateway"}}}
    plane.ask(f"{paths.NAMESPACES}/{other.namespace}", without, "PATCH", kind=MERGE)
    policy = plane.ask(paths.policies(first.namespace, "windlass-environment"))
    own, outside = policy["spec"]["ingress"][0]["from"]
    assert own == {"podSelector": {}}
    (chosen,) = outside["namespaceSelector"]["matchExpressions"]
    assert chosen["operator"] == "In"

    def selected(query: str) -> set[str]:
        return {found["metadata"]["name"] for found in plane.ask(f"{paths.NAMESPACES}?{query}")["items"]}

    assert selected(f"labelSelector={chosen['key']}%3D{chosen['values'][0]}") == {"gateway"}
    assert other.namespace in selected(f"labelSelector=!{names.ENVIRONMENT}")


async def test_a_policy_of_an_earlier_version_is_replaced(accounts: NamespaceAccounts, plane: ControlPlane):
    first = await given(accounts, "policy")
    path = paths.policies(first.namespace, "windlass-environment")
    selector = {"matchExpressions": [{"key": names.ENVIRONMENT, "operator": "DoesNotExist"}]}
    open_rule = {"ingress": [{"from": [{"namespaceSelector": selector}]}]}
    old = {"metadata": {"annotations": {names.DIGEST: None}}, "spec": open_rule}
    plane.ask(path, old, "PATCH", kind=MERGE)
    assert "DoesNotExist" in str(plane.ask(path)["spec"])
    await given(accounts, "policy")
    assert "DoesNotExist" not in str(plane.ask(path)["spec"])


async def test_the_token_of_a_run_ends_with_the_run(accounts: NamespaceAccounts, plane: ControlPlane):
    ended = await given(accounts, "tokens", run="ended")
    other = await given(accounts, "tokens", run="other")
    path = f"/api/v1/namespaces/{ended.namespace}/secrets"
    assert [await in_thread(status_of, each, path) for each in (ended, other)] == [200, 200]
    await accounts.revoke("tokens", "ended")
    await until_refused(ended, path)
    assert await in_thread(status_of, other, path) == 200
    await accounts.revoke("tokens", "ended")


async def test_an_account_of_the_whole_cluster_is_another_one_and_ends_with_its_run(
    accounts: NamespaceAccounts, plane: ControlPlane
):
    whole = await given(accounts, "three", run="whole", has_whole_cluster=True)
    assert await in_thread(status_of, whole, "/api/v1/secrets") == 200
    own = await given(accounts, "three", run="own")
    assert await in_thread(status_of, own, "/api/v1/secrets") == 403
    await accounts.revoke("three", "whole")
    await until_refused(whole, "/api/v1/secrets")
    assert not bindings_of_runs(plane)
    await accounts.revoke("never", "was")


async def test_no_run_of_the_whole_cluster_trusts_what_other_runs_may_have_written(
    accounts: NamespaceAccounts, plane: ControlPlane
):
    """The record of a release is such a thing. The note is where a run of the namespace cannot remove it."""
    own = await given(accounts, "forged", run="own")
    note = f"{paths.secrets(names.account_namespace(INSTALLATION))}/{own.namespace}"
    assert await in_thread(status_of, own, note, "DELETE") == 403
    account = f"{paths.accounts(own.namespace)}/{ACCOUNT}"
    assert await in_thread(status_of, own, account, "DELETE") == 200
    with pytest.raises(EngineError, match="Create the service in another environment"):
        await given(accounts, "forged", run="whole", has_whole_cluster=True)
    assert not bindings_of_runs(plane)
    owner = plane.ask(note)["metadata"]["ownerReferences"][0]
    assert owner["uid"] == plane.ask(f"{paths.NAMESPACES}/{own.namespace}")["metadata"]["uid"]
    plane.ask(note, method="DELETE")  # the control: without the note, nothing stops it
    await given(accounts, "forged", run="whole", has_whole_cluster=True)
    await accounts.revoke("forged", "whole")


async def test_rights_that_a_killed_server_left_are_deleted(accounts: NamespaceAccounts, plane: ControlPlane):
    """An object without an end is one of an earlier version."""
    for run in ("left", "going-on"):
        await given(accounts, "four", run=run, has_whole_cluster=True)
    left, kept = (
        f"{names.account_namespace(INSTALLATION)}-{names.run_account(run)}" for run in ("left", "going-on")
    )
    late = {"metadata": {"annotations": {names.EXPIRES: None}}}
    plane.ask(f"{CLUSTER_BINDINGS}/{left}", late, "PATCH", kind=MERGE)
    assert bindings_of_runs(plane) == {left, kept}
    await accounts.sweep()
    assert bindings_of_runs(plane) == {kept}
    await accounts.revoke("four", "going-on")


def bindings_of_runs(plane: ControlPlane) -> set[str]:
    own = f"labelSelector={names.INSTALLATION}%3D{names.installation_label(INSTALLATION)}"
    return {found["metadata"]["name"] for found in plane.ask(f"{CLUSTER_BINDINGS}?{own}")["items"]}


async def test_a_namespace_of_another_owner_is_refused_and_stays(
    accounts: NamespaceAccounts, plane: ControlPlane
):
    name = names.namespace(INSTALLATION, "taken")
    plane.add_namespace(name)
    with pytest.raises(EngineError, match="it does not belong to this Windlass"):
        await given(accounts, "taken")
    found = plane.ask(f"/api/v1/namespaces/{name}/serviceaccounts")
    assert "windlass-runs" not in {item["metadata"]["name"] for item in found["items"]}


def test_the_engine_gives_such_credentials():
    assert issubclass(KubernetesEngine, NamespaceAccess)
