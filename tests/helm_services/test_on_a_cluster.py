"""Helm services on a whole Windlass, with the real program and a real cluster: install, upgrade, plan,
remove, and a run that is killed at six points.

The runs are processes of this machine. The engine gets the access to the cluster from the test, because only
an engine of Kubernetes clusters has it by itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.free_ports import free_port
from tests.kubernetes.cluster import Cluster, shared_cluster
from tests.kubernetes.programs import HELM, require_helm, require_node
from tests.marks import nightly
from tests.repositories import Repository
from tests.whole import Place, Windlass, page, place, until
from windlass.base.subprocesses import in_thread
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.engines.namespace_access import NamespaceCredential
from windlass.helm.release_watch import release_name
from windlass.process.engine import ProcessEngine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

HOOK = """\
{{- if .Values.hook.at }}
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations:
    helm.sh/hook: {{ .Values.hook.at }}
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  backoffLimit: 0
  template:
    metadata:
      labels: {app.kubernetes.io/instance: {{ .Release.Name }}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - name: hook
        image: {{ .Values.image }}
        command: [sh, -c, "echo it-migrates; sleep {{ .Values.hook.seconds }}; exit {{ .Values.hook.code }}"]
{{- end }}
"""
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web, app.kubernetes.io/instance: {{ .Release.Name }}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: {{ .Values.image }}
        command: [sh, -c, "sleep {{ .Values.delay }}; {{ .Values.serve }}; touch /tmp/ready; sleep 1000000 \
          # {{ .Values.text }}"]
        readinessProbe: {exec: {command: [cat, /tmp/ready]}, periodSeconds: 1}
"""
CLAIM = """\
{{- if .Values.claim }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  labels: {app.kubernetes.io/instance: {{ .Release.Name }}}
  annotations: {helm.sh/resource-policy: keep}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
{{- end }}
"""
SETTINGS = """\
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: {{ .Values.password }}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
"""
CHART: dict[str, str | bytes] = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
    "values.yaml": (
        "image: none\nserve: 'true'\ntext: first\nreplicas: 1\ndelay: 0\npassword: chart\n"
        "hook: {at: '', seconds: 0, code: 0}\nclaim: false\n"
    ),
    "templates/claim.yaml": CLAIM,
    "templates/hook.yaml": HOOK,
    "templates/web.yaml": WEB,
    "templates/settings.yaml": SETTINGS,
}


class Access:
    """The access to the cluster, as an engine of the cluster gives it: an account of the namespace for each
    run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespaces: set[str] = set()

    async def credential(
        self, environment: str, org: str, *, run: str, seconds: float, has_whole_cluster: bool
    ) -> NamespaceCredential:
        return await in_thread(self._make, f"wl-{environment}", round(seconds))

    def _make(self, namespace: str, seconds: int) -> NamespaceCredential:
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if namespace not in self.namespaces:
            self.cluster.add_namespace(namespace)
            self.namespaces.add(namespace)
            self.cluster.ask(accounts, {"metadata": {"name": "runs"}})
            group = "rbac.authorization.k8s.io"
            binding = {
                "metadata": {"name": "runs"},
                "subjects": [{"kind": "ServiceAccount", "name": "runs", "namespace": namespace}],
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            }
            self.cluster.ask(f"/apis/{group}/v1/namespaces/{namespace}/rolebindings", binding)
        lifetime = {"spec": {"expirationSeconds": max(600, seconds)}}
        token = self.cluster.ask(f"{accounts}/runs/token", lifetime)["status"]["token"]
        return NamespaceCredential(
            server=self.cluster.url,
            ca_certificate=self.cluster.ca_certificate,
            token=token,
            namespace=namespace,
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    require_node()
    require_helm()
    with shared_cluster() as shared:
        yield shared


@pytest.fixture
def access(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Access]:
    made = Access(cluster)

    async def credential(
        engine: ProcessEngine, environment: str, org: str, **options: Any
    ) -> NamespaceCredential:
        return await made.credential(environment, org, **options)

    async def revoke(engine: ProcessEngine, environment: str, run: str) -> None:
        """Leaves the account of the namespace to the end of the test."""

    monkeypatch.setattr(ProcessEngine, "namespace_credential", credential, raising=False)
    monkeypatch.setattr(ProcessEngine, "revoke_credential", revoke, raising=False)
    monkeypatch.setenv("PATH", f"{HELM.parent}:{os.environ['PATH']}")
    yield made
    for namespace in made.namespaces:
        cluster.ask(f"/api/v1/namespaces/{namespace}", method="DELETE")


@pytest.fixture
async def windlass(access: Access) -> AsyncIterator[Windlass]:
    network = access.cluster.url.partition("://")[2].rpartition(":")[0]
    house: Place
    async with (
        place(
            "process",
            port=free_port(),
            git_allow_local=True,
            network_allow=(network,),
            stop_seconds=1,
            settle_seconds=0,
        ) as house,
        house.windlass() as started,
    ):
        yield started


async def connected(windlass: Windlass, cluster: Cluster) -> str:
    """Returns an environment on the cluster, which is connected by its kubeconfig."""
    call = windlass.call
    org = (await call("GET", "/organization"))["id"]
    body = {"name": "east", "engine": "KUBERNETES", "kubeconfig": json.dumps(cluster.kubeconfig())}
    made = await call("POST", f"/organization/{org}/cluster", body)
    project = (await call("POST", f"/organization/{org}/project", {"name": "shop"}))["id"]
    fields = {"name": "production", "cluster_id": made["id"]}
    return str((await call("POST", f"/project/{project}/environment", fields))["id"])


class Release:
    """A Helm service, as its clients see it, and its objects."""

    def __init__(self, windlass: Windlass, access: Access, repository: Repository) -> None:
        self.windlass, self.access, self.repository = windlass, access, repository
        self.id = self.namespace = ""

    @property
    def name(self) -> str:
        return release_name(self.id)

    async def make(self, **values: Any) -> None:
        call = self.windlass.call
        org = (await call("GET", "/organization"))["id"]
        project = (await call("POST", f"/organization/{org}/project", {"name": "shop"}))["id"]
        environment = (await call("POST", f"/project/{project}/environment", {"name": "production"}))["id"]
        self.namespace = f"wl-{environment}"
        body = {
            "name": "shop",
            "timeout_sec": 90,
            "source": {"git_repository": {"url": self.repository.url}},
            "values_override": self.values(values),
        }
        self.id = str((await call("POST", f"/environment/{environment}/helm", body))["id"])
        self.environment = str(environment)

    def values(self, values: dict[str, Any]) -> Any:
        image = self.access.cluster.registry.box()
        content = json.dumps({"image": image, **values})
        return {"file": {"raw": {"values": [{"name": "values.yaml", "content": content}]}}}

    async def edit(self, **values: Any) -> None:
        await self.windlass.call("PATCH", f"/helm/{self.id}", {"values_override": self.values(values)})

    async def begin(self, query: str = "") -> str:
        return str((await self.windlass.call("POST", f"/helm/{self.id}/deploy{query}", {}))["id"])

    async def run(self, query: str = "") -> Any:
        return await self.ended(await self.begin(query))

    async def ended(self, deployment: str) -> Any:
        at = f"/helm/{self.id}/deployment/{deployment}"

        async def has_ended() -> bool:
            return (await self.windlass.call("GET", at))["status"] not in OPEN_STATES_OF_DEPLOYMENTS

        await until(has_ended)
        return await self.windlass.call("GET", at)

    async def results(self, what: str) -> list[Any]:
        return list((await self.windlass.call("GET", f"/helm/{self.id}/{what}"))["results"])

    async def log(self) -> str:
        return "\n".join(line["message"] for line in await self.results("log?tail=2000"))

    def ask(self, path: str) -> Any:
        """Asks the API server about objects of the namespace; a kubectl for each question would take most of
        the processor."""
        group = "/apis/apps/v1" if path.startswith("deployments") else "/api/v1"
        return self.access.cluster.ask(f"{group}/namespaces/{self.namespace}/{path}")

    def objects(self, kind: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.ask(f"{kind}s")["items"]]

    def text(self) -> str:
        """The text of the Deployment that is in the cluster."""
        (container,) = self.ask("deployments/web")["spec"]["template"]["spec"]["containers"]
        return str(container["command"][2]).partition("# ")[2]

    def states(self) -> dict[int, str]:
        """The state of each revision, as Helm has stored it."""
        listed = self.ask(f"secrets?labelSelector=owner%3Dhelm,name%3D{self.name}")["items"]
        labels = [item["metadata"]["labels"] for item in listed]
        return {int(label["version"]): label["status"] for label in labels}


@pytest.fixture
async def release(windlass: Windlass, access: Access, tmp_path: Path) -> Release:
    repository = Repository(tmp_path / "repository")
    repository.put(CHART)
    repository.commit("A chart")
    return Release(windlass, access, repository)


async def test_a_chart_is_installed_upgraded_planned_and_removed(release: Release):
    await release.make(password="qovery.env.PASSWORD")
    secret = {"key": "PASSWORD", "value": "s3cret-of-the-shop"}
    await release.windlass.call("POST", f"/environment/{release.environment}/secret", secret)
    first = await release.run()
    assert first["status"] == "SUCCEEDED", first
    assert release.states() == {1: "deployed"}
    assert [item["metadata"]["name"] for item in await release.results("listServices")] == ["web"]

    await release.edit(text="second", replicas=2, password="another-secret")
    planned = await release.run("?forceEvent=DIFF")
    assert planned["status"] == "SUCCEEDED", planned
    assert release.text() == "first"
    plan = (await release.results("plan"))[0]
    assert (plan["added"], plan["changed"], plan["destroyed"], plan["revision"]) == (0, 2, 0, 1)
    changed = {item["address"]: item["difference"] for item in plan["resources"]}
    assert "+  replicas: 2" in changed["Deployment/web"]
    assert "another value" in changed["Secret/login"]
    assert "s3cret" not in json.dumps(await release.results("plan"))
    assert "another-secret" not in json.dumps(await release.results("plan"))

    upgraded = await release.run()
    assert upgraded["status"] == "SUCCEEDED", upgraded
    assert release.text() == "second"
    assert release.states() == {1: "superseded", 2: "deployed"}

    back = await release.windlass.call("POST", f"/helm/{release.id}/rollback", {"deployment_id": first["id"]})
    assert (await release.ended(back["id"]))["status"] == "SUCCEEDED"
    assert release.text() == "first"
    assert "s3cret" not in await release.log()

    await release.windlass.call("DELETE", f"/helm/{release.id}")

    async def is_gone() -> bool:
        return release.states() == {}

    await until(is_gone)
    assert "web" not in release.objects("deployment")


async def test_a_hook_that_fails_is_explained_by_its_last_lines(release: Release):
    await release.make(hook={"at": "pre-install", "seconds": 0, "code": 3})
    ended = await release.run()
    assert ended["status"] == "FAILED"
    assert "The hook hook has failed. Its last lines: it-migrates" in ended["message"], ended
    await release.edit()
    assert (await release.run())["status"] == "SUCCEEDED"


async def test_a_number_of_pods_that_somebody_else_has_set_is_replaced_or_told(release: Release):
    await release.make()
    assert (await release.run())["status"] == "SUCCEEDED"
    words = ("--namespace", release.namespace, "scale", "deployment/web", "--replicas=0")
    release.access.cluster.kubectl(*words)
    await release.edit(replicas=2)
    ended = await release.run()
    if ended["status"] == "FAILED":  # it depends on the version of Helm
        assert ended["message"].startswith("Arguments: add --force-conflicts"), ended
        await release.windlass.call("PATCH", f"/helm/{release.id}", {"arguments": ["--force-conflicts"]})
        assert (await release.run())["status"] == "SUCCEEDED"
    assert len(release.objects("pod")) == 2


async def test_a_stopped_release_has_no_pods_until_it_is_deployed(release: Release):
    await release.make(replicas=2)
    assert (await release.run())["status"] == "SUCCEEDED"
    stopped = await release.windlass.call("POST", f"/helm/{release.id}/stop")
    assert (await release.ended(stopped["id"]))["status"] == "SUCCEEDED"

    async def is_empty() -> bool:
        return release.objects("pod") == []

    await until(is_empty)
    assert (await release.windlass.call("GET", f"/helm/{release.id}/status"))["deployment_state"] == "STOPPED"
    await release.edit(replicas=3, text="second")
    resumed = await release.run()
    assert resumed["status"] == "SUCCEEDED", resumed
    assert (len(release.objects("pod")), release.text()) == (3, "second")


async def test_an_uninstall_tells_about_claims_that_stay(release: Release):
    await release.make(claim=True)
    ended = await release.run()
    assert ended["status"] == "SUCCEEDED", (ended, await release.log())
    removed = await release.windlass.call("POST", f"/helm/{release.id}/uninstall", {})
    assert (await release.ended(removed["id"]))["status"] == "SUCCEEDED"
    assert f"the claims data stay in the namespace {release.namespace}" in await release.log()
    assert release.objects("persistentvolumeclaim") == ["data"]
    assert release.objects("deployment") == []


SERVE = "mkdir -p /tmp/www; echo hello-of-the-chart > /tmp/www/index.html; httpd -p 8080 -h /tmp/www"


async def is_watched(release: Release, namespace: str) -> None:
    """The gateway leads to the Pods of the chart, and the status follows what happens to them."""
    cluster = release.access.cluster

    async def shows(state: str, words: str) -> bool:
        status = await release.windlass.call("GET", f"/helm/{release.id}/status")
        return status["deployment_state"] == state and words in status["message"]

    (link,) = await release.results("link")

    async def is_served() -> bool:
        return "hello-of-the-chart" in (await page(link["url"])).text

    await until(is_served)
    kubectl = partial(in_thread, cluster.kubectl, "--namespace", namespace)
    await kubectl("scale", "deployment/web", "--replicas=2")
    await until(partial(shows, "DEPLOYED", "Deployment/web was scaled from 1 to 2 Pods in the cluster"))
    path = "/spec/template/spec/containers/0/command"
    crash = json.dumps(
        [
            {"op": "replace", "path": "/spec/strategy", "value": {"type": "Recreate"}},
            {"op": "replace", "path": path, "value": ["sh", "-c", "exit 3"]},
        ]
    )
    await kubectl("patch", "deployment/web", "--type=json", f"--patch={crash}")
    await until(partial(shows, "DEPLOYMENT_ERROR", "exited with 3"))
    pods = await release.results("pods")
    assert "exited with 3" in " ".join(pod["reason"] for pod in pods)
    assert all(pod["node"] and pod["created_at"] for pod in pods)
    told = await release.results("clusterEvents")
    assert {"Deployment/web", f"Pod/{pods[0]['name']}"} <= {event["address"] for event in told}
    await kubectl("delete", "deployment/web")
    await until(partial(shows, "DEPLOYMENT_ERROR", "Deploy again: Deployment/web was deleted"))
    ended = await release.run()
    assert ended["status"] == "SUCCEEDED", (ended, await release.log())
    await until(partial(shows, "DEPLOYED", ""))
    await until(is_served)


async def test_a_connected_cluster_gets_the_releases_of_its_environments(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without the access of the test: the engine of the cluster gives the credential of each run."""
    monkeypatch.setenv("PATH", f"{HELM.parent}:{os.environ['PATH']}")
    repository = Repository(tmp_path / "repository")
    repository.put(CHART)
    repository.commit("A chart")
    network = cluster.url.partition("://")[2].rpartition(":")[0]
    async with (
        place(
            "process",
            port=free_port(),
            git_allow_local=True,
            network_allow=(network,),
            outbound_allow=("10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", network),
            stop_seconds=1,
            settle_seconds=0,
        ) as house,
        house.windlass() as started,
    ):
        release = Release(started, Access(cluster), repository)
        environment = await connected(started, cluster)
        body = {
            "name": "shop",
            "timeout_sec": 90,
            "source": {"git_repository": {"url": repository.url}},
            "values_override": release.values({"text": "connected", "serve": SERVE}),
            "ports": [{"internal_port": 80, "service_name": "web", "is_default": True}],
        }
        release.id = str((await started.call("POST", f"/environment/{environment}/helm", body))["id"])
        ended = await release.run()
        assert ended["status"] == "SUCCEEDED", (ended, await release.log())
        found = cluster.ask("/apis/apps/v1/deployments")["items"]
        names = [item["metadata"] for item in found if environment in item["metadata"]["namespace"]]
        assert [name["name"] for name in names] == ["web"]
        await is_watched(release, names[0]["namespace"])
        removed = await started.call("POST", f"/helm/{release.id}/uninstall", {})
        assert (await release.ended(removed["id"]))["status"] == "SUCCEEDED"
        cluster.ask(f"/api/v1/namespaces/{names[0]['namespace']}", method="DELETE")


# A run that is killed


def processes(release: str, word: str) -> list[int]:
    """The ids of Helm's processes that do something with a release, and of the launchers that have started
    them."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if words[0] == str(HELM) and release in words and words[1] == word:
            found += [parent, int(folder.name)]
    return found


async def kill_run(release: Release, word: str, is_there: Callable[[], bool]) -> None:
    """Kills the program and its launcher with SIGKILL, as soon as the run has come so far."""

    async def has_come() -> bool:
        return bool(processes(release.name, word)) and await in_thread(is_there)

    await until(has_come)
    for id in processes(release.name, word):
        os.kill(id, signal.SIGKILL)


HOOK_RUNS = {"seconds": 60, "code": 0}
POINTS: dict[str, tuple[dict[str, Any], bool, str]] = {
    "in a hook before the first install": (
        {"hook": {"at": "pre-install", **HOOK_RUNS}},
        False,
        "pending-install",
    ),
    "while the first install waits": ({"delay": 60}, False, "pending-install"),
    "in a hook after the first install": (
        {"hook": {"at": "post-install", **HOOK_RUNS}},
        False,
        "pending-install",
    ),
    "in a hook before an upgrade": ({"hook": {"at": "pre-upgrade", **HOOK_RUNS}}, True, "pending-upgrade"),
    "while an upgrade waits": ({"delay": 60, "text": "second"}, True, "pending-upgrade"),
    "in a hook after an upgrade": (
        {"hook": {"at": "post-upgrade", **HOOK_RUNS}, "text": "second"},
        True,
        "pending-upgrade",
    ),
}
"""Where the run is killed: the values, whether a release is there before, and the state in which it leaves
that."""
USUAL_POINTS = ("while the first install waits", "in a hook before an upgrade")


@pytest.mark.parametrize(
    "point", [*USUAL_POINTS, *nightly(*(point for point in POINTS if point not in USUAL_POINTS))]
)
async def test_a_run_that_is_killed_heals_itself_at_the_next_deployment(release: Release, point: str):
    values, is_upgrade, left = POINTS[point]
    if is_upgrade:
        await release.make()
        assert (await release.run())["status"] == "SUCCEEDED"
        await release.edit(**values)
    else:
        await release.make(**values)
    deployment = await release.begin()

    def is_there() -> bool:
        hook = values.get("hook")
        has_hook = hook is None or any(name.startswith("hook-") for name in release.objects("pod"))
        has_web = hook is not None or "web" in release.objects("deployment")
        return has_hook and has_web and left in release.states().values()

    await kill_run(release, "upgrade", is_there)
    assert (await release.ended(deployment))["status"] == "FAILED"
    assert left in release.states().values()

    await release.edit(text="healed")
    healed = await release.run()
    assert healed["status"] == "SUCCEEDED", (healed, await release.log())
    assert release.text() == "healed"
    states = release.states()
    assert states[max(states)] == "deployed"
    assert not [state for state in states.values() if state.startswith("pending")]
    assert f"an earlier run left the release {left}" in await release.log()


async def test_a_healing_run_that_is_killed_too_is_healed_by_the_next_one(release: Release):
    await release.make()
    assert (await release.run())["status"] == "SUCCEEDED"
    await release.edit(delay=60, text="second")
    deployment = await release.begin()
    await kill_run(release, "upgrade", lambda: "pending-upgrade" in release.states().values())
    await release.ended(deployment)
    deployment = await release.begin()
    await kill_run(release, "rollback", lambda: True)
    assert (await release.ended(deployment))["status"] == "FAILED"
    await release.edit(text="healed")
    assert (await release.run())["status"] == "SUCCEEDED"
    assert release.text() == "healed"
