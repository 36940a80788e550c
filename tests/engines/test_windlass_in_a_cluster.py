"""The chart of Windlass is installed on a real cluster, and Windlass runs a container there."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.engines.server_image import server_image
from tests.kubernetes.cluster import Cluster, shared_cluster
from tests.kubernetes.programs import HELM, require_helm
from tests.source import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400)]

SERVES = "mkdir -p /tmp/www && echo hello > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"


@pytest.fixture
def database(postgres: Any) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url


async def test_the_chart_installs_a_server_that_runs_a_container_and_is_upgraded(
    tmp_path: Path, database: str
):
    require_helm()
    with shared_cluster() as cluster:
        async with reachable(database, cluster) as url:
            installed = Installed(cluster, tmp_path)
            try:
                await asyncio.to_thread(story, installed, url)
            finally:
                await asyncio.to_thread(installed.remove)


def story(installed: Installed, database: str) -> None:
    installed.install(database)
    assert installed.read("/healthz").startswith(b"{")
    environment, path = installed.container()
    try:
        installed.ask("POST", f"{path}/deploy", {})
        installed.until(lambda: installed.ask("GET", f"{path}/status")["state"] == "RUNNING", path)
        (link,) = installed.ask("GET", f"{path}/link")["results"]
        host = urlsplit(link["url"]).netloc
        assert installed.read("/", host=host, port=8081) == b"hello\n"
        former = installed.pods(environment)
        assert len(former) == 1
        installed.helm("upgrade", "--set", "settings.log_level=warning")
        installed.until(lambda: installed.read("/", host=host, port=8081) == b"hello\n", "the gateway")
        assert installed.pods(environment) == former
        installed.until(lambda: installed.ask("GET", f"{path}/status")["state"] == "RUNNING", path)
    finally:
        installed.remove_namespaces(environment)


class Installed:
    """A release of the chart, in a namespace of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.namespace = f"windlass-{uuid.uuid4().hex[:8]}"
        self.token = secrets.token_hex(24)
        self.image = ""

    def install(self, database: str) -> None:
        image = server_image()
        tag = hashlib.sha256(image.manifest).hexdigest()[:16]
        self.image = self.cluster.registry.push("windlass/server", tag, image)
        self.cluster.add_namespace(self.namespace)
        values = {"database-url": database, "key": secrets.token_hex(32), "admin-token": self.token}
        secret = {"metadata": {"name": "windlass"}, "stringData": values}
        self.cluster.ask(f"/api/v1/namespaces/{self.namespace}/secrets", secret)
        (self.folder / "kubeconfig").write_text(json.dumps(self.cluster.kubeconfig()))
        self.helm("install")

    def helm(self, verb: str, *more: str) -> None:
        repository, _, digest = self.image.partition("@")
        values = (
            f"image.repository={repository}",
            f"image.digest={digest}",
            "data.enabled=false",
            "settings.public_domain=apps.test",
        )
        chosen = [word for value in values for word in ("--set", value)]
        self._helm(
            verb, "windlass", str(ROOT / "deploy" / "chart"), *chosen, *more, "--wait", "--timeout=60s"
        )

    def _helm(self, *words: str) -> None:
        environment = {
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "PATH": os.environ["PATH"],
        }
        command = [str(HELM), *words, f"--namespace={self.namespace}"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, (done.stderr, self.logs())

    def logs(self) -> str:
        """Returns what the Pods of the release say, and the cluster of them."""
        where = f"--namespace={self.namespace}"
        chosen = "--selector=app.kubernetes.io/instance=windlass"
        said = [self.cluster.kubectl("describe", where, "pods", chosen)[-4000:]]
        for more in ((), ("--previous",)):
            with contextlib.suppress(AssertionError):
                said.append(self.cluster.kubectl("logs", where, chosen, "--tail=40", *more))
        return "\n".join(said)

    def remove(self) -> None:
        role = f"{self.namespace}-windlass"
        for kind, name in (("clusterroles", role), ("clusterrolebindings", role)):
            self._delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/{name}")
        self._delete(f"/api/v1/namespaces/{self.namespace}")

    def remove_namespaces(self, environment: str) -> None:
        selector = f"windlass.dev/environment%3D{environment}"
        for found in self.cluster.ask(f"/api/v1/namespaces?labelSelector={selector}")["items"]:
            self._delete(f"/api/v1/namespaces/{found['metadata']['name']}")

    def _delete(self, path: str) -> None:
        with contextlib.suppress(urllib.error.HTTPError):
            self.cluster.ask(path, method="DELETE")

    def pods(self, environment: str) -> list[str]:
        selector = f"windlass.dev/environment%3D{environment}"
        found = self.cluster.ask(f"/api/v1/pods?labelSelector={selector}")["items"]
        return [pod["metadata"]["uid"] for pod in found]

    def container(self) -> tuple[str, str]:
        """Makes a container. Returns the id of its environment, and its path."""
        image = self.cluster.registry.box().partition("@")[0]
        org = self.ask("GET", "/organization")["results"][0]["id"]
        project = self.ask("POST", f"/organization/{org}/project", {"name": "shop"})["id"]
        environment = self.ask("POST", f"/project/{project}/environment", {"name": "production"})["id"]
        port = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
        fields = {
            "name": "web",
            "image_name": image,
            "tag": "1.36",
            "memory": 64,
            "arguments": ["sh", "-c", SERVES],
            "ports": [port],
        }
        made = self.ask("POST", f"/environment/{environment}/container", fields)
        return environment, f"/container/{made['id']}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        return json.loads(self.read(path, method=method, body=sent))

    def read(
        self, path: str, *, method: str = "GET", body: bytes | None = None, host: str = "", port: int = 80
    ) -> bytes:
        service = self.cluster.ask(f"/api/v1/namespaces/{self.namespace}/services/windlass")
        url = f"http://{service['spec']['clusterIP']}:{port}{path}"
        headers = {"Authorization": f"Token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, body, {"Host": host} if host else headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError((method, path, error.code, error.read()[:500])) from error

    def until(self, check: Callable[[], object], name: str) -> None:
        deadline = time.monotonic() + 100
        while True:
            try:
                if check():
                    return
            except (AssertionError, OSError):
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline, (name, self.logs())
            time.sleep(0.3)


@contextlib.asynccontextmanager
async def reachable(database: str, cluster: Cluster) -> AsyncIterator[str]:
    """Yields the address at which Pods reach a database server that listens at a socket of this machine."""
    parts = urlsplit(database)
    (folder,) = parse_qs(parts.query)["host"]

    writers: list[asyncio.StreamWriter] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # at the end of the test
            there, back = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")
            writers.extend((writer, back))
            await asyncio.gather(copy(reader, back), copy(there, writer))

    server = await asyncio.start_server(relay, cluster.network.machine, 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@{cluster.network.machine}:{port}{parts.path}"
    finally:
        server.close()
        for writer in writers:  # a Pod whose network is gone ends no connection
            writer.transport.abort()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()
