"""Applications, jobs and static sites from git on a real Kubernetes cluster: a Docker engine builds their
images, and the cluster pulls them by digest from a registry with a login."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.engines.dockers import BOX, docker_host
from tests.faults.inside import HTTP, Inside, Service, inside
from tests.kubernetes.cluster import Cluster, shared_cluster
from tests.kubernetes.stub_cluster import stub_cluster
from tests.registries.docker_registry import PASSWORD, USER, DockerRegistry, docker_registry
from tests.repositories import Repository
from windlass.kubernetes import names

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DOCKERFILE = f"""\
FROM {BOX}
ARG GREETING
COPY page /www/index.html
RUN echo "$GREETING" >> /www/index.html
EXPOSE 8080
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
"""


async def test_applications_jobs_and_sites_from_git_run_on_a_cluster_and_roll_back_to_the_same_image(
    tmp_path,
):
    docker, repository = docker_host(), Repository(tmp_path / "code")
    repository.put({"Dockerfile": DOCKERFILE, "page": "first\n", "site/index.html": "a site"}).commit()
    with shared_cluster() as cluster, docker_registry(tmp_path / "images", tls=False) as registry:
        network = cluster.network
        cluster.registry.box()  # hands over the output of the job
        allowed = ["127.0.0.1/32", f"{network.node}/32", network.pods]
        async with (
            nodes_reach(registry, cluster),
            inside(tmp_path / "windlass", docker_host=docker, outbound_allow=allowed) as there,
        ):
            east = await connect(there, cluster)
            source = {"git_repository": {"url": repository.url, "branch": "main"}}
            web = await make(there, "application", **source, ports=[HTTP], memory=64)
            variable = {"key": "GREETING", "value": "hello"}
            await there.call("POST", f"{web.path}/environmentVariable", variable)
            refused = await web.do("deploy")
            why = (await web.status())["message"]
            assert why.startswith("Choose a registry for the images"), (why, refused)

            await give_registry(there, east, registry)
            former = await deploy(web)
            assert await page(web) == "first\nhello\n"
            first = image_of(cluster, web)
            assert first.startswith(f"{registry.host}/acme/builds/{web.id}@sha256:")

            repository.put({"page": "second\n"}).commit()
            await web.edit(arguments=["sh", "-c", "cd /www && exec httpd -f -p 8080"])
            await deploy(web)
            assert await page(web) == "second\nhello\n"
            assert image_of(cluster, web) != first
            await web.do("rollback", deployment_id=former)
            assert await page(web) == "first\nhello\n"
            assert image_of(cluster, web) == first

            place = source["git_repository"] | {"root_path": "/site"}
            site = await make(there, "application", git_repository=place)
            job = await make(
                there,
                "job",
                source={"docker": source | {"dockerfile_path": "Dockerfile"}},
                schedule={"on_start": {"arguments": ["cat", "/www/index.html"]}},
            )
            await asyncio.gather(deploy(site), deploy(job))
            assert await page(site) == "a site"


async def test_nodes_of_the_own_engine_pull_with_the_login_of_the_settings_that_only_reads(tmp_path):
    docker, repository = docker_host(), Repository(tmp_path / "code")
    repository.put({"Dockerfile": f"FROM {BOX}\nCMD sleep 100\n"}).commit()
    async with stub_cluster(tmp_path / "cluster") as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        with docker_registry(tmp_path / "images", tls=False) as registry:
            settings: dict[str, Any] = {
                "engine": "kubernetes",
                "kubernetes_config": str(tmp_path / "kubeconfig"),
                "kubernetes_registry_username": "nodes",
                "kubernetes_registry_password": "only-read",
                "registry": f"{registry.host}/windlass",
                "registry_username": USER,
                "registry_password": PASSWORD,
                "docker_host": docker,
            }
            async with inside(tmp_path / "windlass", **settings) as there:
                source = {"git_repository": {"url": repository.url, "branch": "main"}}
                web = await make(there, "application", **source, ports=[], memory=64)
                await deploy(web)
                (deployment,) = cluster.all("deployments")
                image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
                assert image.startswith(f"{registry.host}/windlass/{web.id}@sha256:")
                written = [
                    each["data"] for each in cluster.all("secrets") if "pull-" in str(each["metadata"])
                ]
                (login,) = [base64.b64decode(each[".dockerconfigjson"]) for each in written]
                expected = {"auth": base64.b64encode(b"nodes:only-read").decode()}
                assert json.loads(login) == {"auths": {registry.host: expected}}


@contextlib.asynccontextmanager
async def nodes_reach(registry: DockerRegistry, cluster: Cluster) -> AsyncIterator[None]:
    """Lets the node pull from a registry of this machine, by the name that it has here."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # at the end of the test
            there, back = await asyncio.open_connection("127.0.0.1", registry.port)
            await asyncio.gather(copy(reader, back), copy(there, writer))

    server = await asyncio.start_server(relay, cluster.network.machine, 0)
    url = f"http://{cluster.network.machine}:{server.sockets[0].getsockname()[1]}"
    cluster.trust_registry(registry.host, url)
    async with server:
        yield


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def connect(there: Inside, cluster: Cluster) -> str:
    """Connects the cluster, and makes an environment on it. Returns its id."""
    org = (await there.call("GET", "/organization"))["id"]
    body = {"name": "east", "engine": "KUBERNETES", "kubeconfig": json.dumps(cluster.kubeconfig())}
    made = await there.call("POST", f"/organization/{org}/cluster", body)
    assert made.status == 201, made
    project = (await there.call("POST", f"/organization/{org}/project", {"name": "acme"}))["id"]
    body = {"name": "blue", "cluster_id": made["id"]}
    there.environment = (await there.call("POST", f"/project/{project}/environment", body))["id"]
    return str(made["id"])


async def give_registry(there: Inside, cluster: str, registry: DockerRegistry) -> None:
    org = (await there.call("GET", "/organization"))["id"]
    config = {"username": USER, "password": PASSWORD}
    body = {"name": "images", "kind": "GENERIC_CR", "url": registry.url, "config": config}
    made = await there.call("POST", f"/organization/{org}/containerRegistry", body)
    assert made.status == 201, made
    change = {"registry_id": made["id"], "registry_path": "acme/builds"}
    changed = await there.call("PATCH", f"/organization/{org}/cluster/{cluster}", change)
    assert changed.status == 200, changed
    await there.ctx.places.catch_up()


async def make(there: Inside, family: str, **fields: Any) -> Service:
    body = {"name": f"{family}-{len(fields)}"} | fields
    made = await there.call("POST", f"/environment/{there.environment}/{family}", body)
    assert made.status == 201, made
    service = Service(there, str(made["id"]))
    service.path = f"/{family}/{made['id']}"
    return service


async def deploy(service: Service) -> str:
    """Returns the id of a deployment that succeeds."""
    done = await service.do("deploy")
    assert done["status"] == "SUCCEEDED", (done, (await service.status())["message"])
    return str(done["id"])


def image_of(cluster: Cluster, service: Service) -> str:
    """Returns the image of the only deployment of a service that has instances."""
    found = cluster.ask(f"/apis/apps/v1/deployments?labelSelector={names.SERVICE}%3D{service.id}")["items"]
    (image,) = [
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in found
        if each["spec"]["replicas"]
    ]
    return str(image)


async def page(service: Service) -> str:
    address = await service.address()
    host, _, port = address.partition("/")[0].partition(":")
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Host": f"{host}:{port}"})

    def read() -> str:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read(), "utf-8")

    return await asyncio.to_thread(read)
