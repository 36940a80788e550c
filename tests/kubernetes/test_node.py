"""The node of the tests' cluster is a real one: images, traffic, claims, names, commands and output."""

from __future__ import annotations

import urllib.request

import pytest

pytestmark = pytest.mark.slow

SERVES = """
from http.server import BaseHTTPRequestHandler, HTTPServer


class Hello(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello from " + self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


print("listening", flush=True)
HTTPServer(("0.0.0.0", 8080), Hello).serve_forever()
"""


@pytest.fixture
def web(cluster, namespace):
    """The name of a deployment of one pod that answers HTTP, with a service of that name."""
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": cluster.registry.program(SERVES),
        "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
        "resources": {"limits": {"memory": "128Mi"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    cluster.apply(f"/apis/apps/v1/namespaces/{namespace}/deployments/web", deployment)
    cluster.apply(f"/api/v1/namespaces/{namespace}/services/web", service)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    cluster.wait(lambda: cluster.ask(path)["status"]["availableReplicas"] == 1, "the deployment web")
    return "web"


def test_a_deployment_of_a_pushed_image_answers_at_its_pod_and_its_service(cluster, namespace, web):
    (pod,) = cluster.ask(f"/api/v1/namespaces/{namespace}/pods")["items"]
    service = cluster.ask(f"/api/v1/namespaces/{namespace}/services/{web}")
    assert http(f"http://{pod['status']['podIP']}:8080/pod") == "hello from /pod"
    address = service["spec"]["clusterIP"]
    cluster.wait(lambda: http(f"http://{address}/") == "hello from /", "a route to the service")
    assert http(f"http://{address}/service") == "hello from /service"


def test_pods_reach_a_service_by_its_name(cluster, namespace, web):
    script = f"until wget -q -O - http://{web}.{namespace}/named; do sleep 0.1; done"
    where = (f"--namespace={namespace}", f"deployment/{web}")
    assert cluster.kubectl("exec", *where, "--", "sh", "-c", script) == "hello from /named"


def test_commands_run_in_a_pod_and_its_output_is_read(cluster, namespace, web):
    where = (f"--namespace={namespace}", f"deployment/{web}")
    assert cluster.kubectl("exec", *where, "-i", "--", "cat", given="read back") == "read back"
    assert cluster.kubectl("logs", *where).splitlines()[0] == "listening"


def test_files_of_a_claim_outlive_the_pod_that_wrote_them(cluster, namespace):
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"
    cluster.apply(path, claim)
    cluster.wait(lambda: cluster.ask(path)["status"]["phase"] == "Bound", "a volume for the claim")
    assert run_with_claim(cluster, namespace, "writer", "echo kept > /data/file; cat /data/file") == "kept\n"
    assert run_with_claim(cluster, namespace, "reader", "cat /data/file") == "kept\n"


def run_with_claim(cluster, namespace: str, name: str, script: str) -> str:
    """Runs a script in a pod with the claim, which is removed afterwards; returns its output."""
    container = {
        "name": "box",
        "image": cluster.registry.box(),
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.ask(path, {"metadata": {"name": name}, "spec": spec})
    ended = ("Succeeded", "Failed")
    cluster.wait(lambda: cluster.ask(f"{path}/{name}")["status"]["phase"] in ended, f"the end of {name}")
    said = cluster.ask(f"{path}/{name}/log")
    cluster.ask(f"{path}/{name}", method="DELETE")
    assert isinstance(said, str)
    return said


def http(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read(), "utf-8")
