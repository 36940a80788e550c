"""The control plane of tests is a real one, without a node."""

from __future__ import annotations

import json
import subprocess
import urllib.error

import pytest

from tests.kubernetes.programs import CLUSTER, require_control_plane

pytestmark = pytest.mark.slow


def test_a_deployment_gets_a_pod_that_waits_for_a_node(plane):
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "windlass.test/web:1"}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    plane.apply("/apis/apps/v1/namespaces/default/deployments/web", body)

    def reasons() -> list[str]:
        pods = plane.ask("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb")["items"]
        return [each["reason"] for pod in pods for each in pod["status"].get("conditions", ())]

    plane.wait(reasons, "a pod")
    assert reasons() == ["Unschedulable"]


def test_a_user_with_a_certificate_has_the_rights_of_its_groups(plane):
    certificate, key = plane.client_certificate("reader", "nobody:in-particular")
    files = plane.folder / "reader.crt", plane.folder / "reader.key"
    for file, text in zip(files, (certificate, key), strict=True):
        file.write_text(text)
    names = {"client-certificate": str(files[0]), "client-key": str(files[1])}
    config = plane.folder / "reader.kubeconfig"
    config.write_text(json.dumps(plane.kubeconfig(**names)))
    asked = ("auth", "whoami", "--output=json", f"--kubeconfig={config}")
    user = json.loads(plane.kubectl(*asked))["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("reader", ["nobody:in-particular", "system:authenticated"])
    with pytest.raises(AssertionError, match='User "reader" cannot list resource "pods"'):
        plane.kubectl("get", "pods", f"--kubeconfig={config}")


def test_a_killed_api_server_comes_back_with_the_same_objects_and_version(plane):
    plane.add_namespace("kept")
    plane.kill("kube-apiserver")
    with pytest.raises(urllib.error.URLError):
        plane.ask("/api/v1/namespaces/kept")
    plane.start_api_server()
    assert plane.ask("/api/v1/namespaces/kept")["status"]["phase"] == "Active"
    assert plane.ask("/version")["gitVersion"] == plane.kubectl("version", "--client").split()[2]


def test_an_unknown_program_is_refused_with_the_names_of_those_there_are():
    require_control_plane()
    done = subprocess.run([CLUSTER, "kubctl"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "kubelet" in done.stderr
