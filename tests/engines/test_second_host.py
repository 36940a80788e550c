"""Two real engines under one Windlass: the Docker of this machine, and one of a second host behind TLS."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.certificates import authority, write_pair
from tests.engines.dockers import BOX, DockerHost, docker_host, second_host
from tests.faults.inside import Inside, inside, until
from tests.free_ports import free_port
from tests.world import Answer
from windlass.builders.builder import BuilderUnavailable
from windlass.docker import names as words
from windlass.docker.client import Docker, EngineRefused
from windlass.engines.engine import EngineUnavailable

pytestmark = pytest.mark.slow

SCRIPT = "mkdir -p /tmp/www; echo $WHERE > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"


@pytest.fixture(scope="module")
def host() -> Iterator[DockerHost]:
    with second_host() as made:
        yield made


@pytest.fixture(autouse=True)
async def _empty(host: DockerHost) -> AsyncIterator[None]:
    """A server that ends may leave what it was about to delete."""
    yield
    containers, volumes = await on(host.host)
    docker = Docker(host.host)
    try:
        for one in containers:
            with suppress(EngineRefused):  # the server that ends may be removing it
                await docker.raw("DELETE", f"/containers/{one['Id']}", params={"force": True})
        for volume in volumes:
            await docker.raw("DELETE", f"/volumes/{volume['Name']}", params={"force": True})
    finally:
        await docker.close()


def access(host: DockerHost, **other: Any) -> dict[str, Any]:
    certificate, key = write_pair(host.authority, "windlass")
    return {
        "engine": "DOCKER",
        "engine_address": host.url,
        "engine_ca_certificate": host.authority.file.read_text(),
        "engine_certificate": certificate.read_text(),
        "engine_key": key.read_text(),
    } | other


class Cluster:
    """A cluster with an environment and one container that serves its name."""

    def __init__(self, there: Inside, id: str, name: str) -> None:
        self.there, self.id, self.name = there, id, name
        self.path = ""

    async def make(self, **fields: Any) -> None:
        org = (await self.there.call("GET", "/organization"))["id"]
        project = await self._made(f"/organization/{org}/project", name=f"project {self.name}")
        environment = await self._made(f"/project/{project}/environment", name="blue", cluster_id=self.id)
        port = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
        name, _, tag = BOX.partition(":")
        body = {
            "name": self.name, "image_name": name, "tag": tag, "ports": [port], "memory": 64,
            "entrypoint": "sh -c", "arguments": [f"WHERE={self.name}; {SCRIPT}"],
            "storage": [{"size": 1, "mount_point": "/data"}],
        }  # fmt: skip
        self.path = f"/container/{await self._made(f'/environment/{environment}/container', **body | fields)}"

    async def do(self, action: str, **body: Any) -> Any:
        begun = await self.there.call("POST", f"{self.path}/{action}", body)
        assert begun.status == 202, begun
        return await self.ended(begun["id"])

    async def ended(self, id: str) -> Any:
        async def over() -> Any:
            seen = await self.there.call("GET", f"{self.path}/deployment/{id}")
            return seen if seen["finished_at"] else None

        return await until(over)

    async def text(self) -> str:
        url = (await self.there.call("GET", f"{self.path}/link"))["results"][0]["url"]
        return (await fetched(url)).strip()

    async def status_at(self, port: int) -> int:
        """Returns the status of the router's answer to a request for this name; 0 if nothing listens."""
        url = urlsplit((await self.there.call("GET", f"{self.path}/link"))["results"][0]["url"])
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Host": url.netloc})

        def ask() -> int:
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code
            except OSError:
                return 0

        return await asyncio.to_thread(ask)

    async def status(self) -> Answer:
        org = (await self.there.call("GET", "/organization"))["id"]
        return await self.there.call("GET", f"/organization/{org}/cluster/{self.id}/status")

    async def _made(self, path: str, **body: Any) -> str:
        made = await self.there.call("POST", path, body)
        assert made.status in {200, 201}, made
        return str(made["id"])


async def fetched(url: str) -> str:
    parts = urlsplit(url)
    request = urllib.request.Request(f"http://127.0.0.1:{parts.port}/", headers={"Host": parts.netloc})

    def ask() -> str:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(ask)


@asynccontextmanager
async def windlass(tmp_path: Path, host: DockerHost) -> AsyncIterator[Inside]:
    allowed = [f"{host.address}/32"]
    async with inside(tmp_path, docker=Docker(docker_host()).host, outbound_allow=allowed) as there:
        yield there


async def connected(there: Inside, name: str, fields: dict[str, Any]) -> Answer:
    org = (await there.call("GET", "/organization"))["id"]
    return await there.call("POST", f"/organization/{org}/cluster", {"name": name} | fields)


async def first(there: Inside) -> str:
    org = (await there.call("GET", "/organization"))["id"]
    return str((await there.call("GET", f"/organization/{org}/cluster"))["results"][0]["id"])


async def on(address: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Containers and volumes of Windlass on an engine."""
    docker = Docker(address)
    try:
        label = {"label": [words.SERVICE_LABEL]}
        there = await docker.json("GET", "/containers/json", params={"all": True, "filters": label})
        volumes = await docker.json("GET", "/volumes", params={"filters": label})
        return there, volumes["Volumes"] or []
    finally:
        await docker.close()


async def test_an_environment_on_each_of_two_engines_is_deployed_reached_and_deleted(tmp_path, host):
    async with windlass(tmp_path, host) as there:
        port = free_port()
        made = await connected(there, "east", access(host, router_port=port))
        assert made.status == 201, made
        east, local = Cluster(there, made["id"], "east"), Cluster(there, await first(there), "here")
        for one in (east, local):
            await one.make()
            assert (await one.do("deploy"))["status"] == "SUCCEEDED"
            assert await one.text() == one.name
        link = (await there.call("GET", f"{east.path}/link"))["results"][0]
        assert link["url"].rstrip("/").endswith(f":{port}")
        org, other = (await there.call("GET", "/organization"))["id"], free_port()
        await there.call("PATCH", f"/organization/{org}/cluster/{east.id}", {"router_port": other})

        async def moved() -> bool:
            return await east.status_at(other) == 200

        await until(moved)
        containers, volumes = await on(host.host)
        assert len(containers) == len(volumes) == 1
        for thing in (*containers, *volumes):
            assert thing["Labels"][words.INSTALLATION_LABEL] == f"{there.ctx.installation}.{east.id}"
        for one in (east, local):
            assert (await there.call("DELETE", one.path)).status == 204

        async def gone() -> bool:
            return (await on(host.host)) == ([], [])

        await until(gone)


async def test_services_of_an_unreachable_host_keep_running_and_are_found_again(tmp_path, host):
    async with windlass(tmp_path, host) as there:
        east = Cluster(there, (await connected(there, "east", access(host)))["id"], "east")
        local = Cluster(there, await first(there), "here")
        for one in (east, local):
            await one.make()
            await one.do("deploy")
        before, kept = await on(host.host)
        host.kill()
        said = await east.status()
        assert (said["status"], said["is_deployed"]) == ("DEPLOYMENT_ERROR", False)
        assert (await local.do("redeploy"))["status"] == "SUCCEEDED"
        waits = await there.call("POST", f"{east.path}/redeploy", {})
        assert waits.status == 202
        host.start()
        assert (await east.ended(waits["id"]))["status"] == "SUCCEEDED"

        async def is_deployed() -> bool:
            return bool((await east.status())["status"] == "DEPLOYED")

        await until(is_deployed)
        assert await east.text() == "east"
        after, still = await on(host.host)
        assert [one["Names"] for one in after] != [one["Names"] for one in before]
        assert len(after) == 1
        assert [one["Name"] for one in still] == [one["Name"] for one in kept]
        for one in (east, local):
            await there.call("DELETE", one.path)

        async def gone() -> bool:
            return (await on(host.host)) == ([], [])

        await until(gone)


@pytest.mark.nightly
async def test_after_an_engine_lost_its_data_services_without_volumes_are_recreated(tmp_path, host):
    async with windlass(tmp_path, host) as there:
        id = (await connected(there, "east", access(host)))["id"]
        plain, stores = Cluster(there, id, "plain"), Cluster(there, id, "stores")
        await plain.make(storage=[])
        await stores.make()
        for each in (plain, stores):
            assert (await each.do("deploy"))["status"] == "SUCCEEDED"
        await asyncio.to_thread(host.come_back_empty)

        async def serves_again() -> bool:
            said = (await there.call("GET", f"{plain.path}/status")).json
            return bool(said["state"] == "RUNNING") and len((await on(host.host))[0]) == 1

        async def says_why_not() -> bool:
            said = (await there.call("GET", f"{stores.path}/status")).json
            wanted = "Bring back the volume of stores"
            return bool(said["state"] == "ERROR" and said["message"].startswith(wanted))

        await until(serves_again)
        await until(says_why_not)
        assert await plain.text() == "plain"
        for each in (plain, stores):
            await there.call("DELETE", each.path)


async def test_the_message_about_a_host_that_is_away_names_its_cluster_and_what_to_do(tmp_path, host):
    async with windlass(tmp_path, host) as there:
        place = await there.ctx.places.at((await connected(there, "east", access(host)))["id"])
        host.kill()
        try:
            with pytest.raises(
                EngineUnavailable, match=r"^Ask an Admin to read the status of the cluster east"
            ) as said:
                await place.engine.all()
            with pytest.raises(BuilderUnavailable, match=r"status of the cluster east, and start its Docker"):
                await place.builder.services()
            assert host.address not in str(said.value)
        finally:
            host.start()


@pytest.mark.nightly
async def test_a_different_engine_at_a_clusters_address_counts_as_unavailable(tmp_path, host):
    async with windlass(tmp_path, host) as there:
        made = await connected(there, "east", access(host))
        east = Cluster(there, made["id"], "east")
        await east.make()
        await east.do("deploy")
        before, kept = await on(host.host)
        host.become_another()
        place = await there.ctx.places.at(east.id)
        for _ in range(3):  # also over connections that are kept
            with pytest.raises(EngineUnavailable, match=r"^Start the Docker engine that the cluster east"):
                await place.engine.sweep([east.path.rpartition("/")[2]])
            assert "another engine answers at its address" in (await east.status())["message"]
        assert await on(host.host) == ([], [])
        host.become_itself()

        async def back() -> bool:
            return bool((await east.status())["is_deployed"])

        await until(back)
        assert [one["Id"] for one in (await on(host.host))[0]] == [one["Id"] for one in before]
        assert (await on(host.host))[1] == kept
        await there.call("DELETE", east.path)

        async def gone() -> bool:
            return (await on(host.host)) == ([], [])

        await until(gone)


async def test_two_clusters_at_one_host_see_nothing_of_each_other(tmp_path, host):
    async with windlass(tmp_path, host) as there:
        clusters = [
            Cluster(there, (await connected(there, name, access(host)))["id"], name)
            for name in ("east", "west")
        ]
        for one in clusters:
            await one.make()
            await one.do("deploy")
        for one in clusters:
            place = await there.ctx.places.at(one.id)
            assert set(await place.engine.services()) == {one.path.rpartition("/")[2]}
            assert await one.text() == one.name
        for one in clusters:
            await there.call("DELETE", one.path)

        async def gone() -> bool:
            return (await on(host.host)) == ([], [])

        await until(gone)


async def test_each_cause_of_a_failed_engine_connection_is_reported_with_advice(tmp_path, host):
    stranger = authority(tmp_path / "stranger")
    certificate, key = (file.read_text() for file in write_pair(stranger, "stranger"))
    _, other_key = (file.read_text() for file in write_pair(host.authority, "other"))
    good = access(host)
    ways: dict[str, tuple[dict[str, Any], str]] = {
        "port": ({"engine_address": f"tcp://{host.address}:2377"}, "check the port"),
        "address": ({"engine_address": "tcp://10.255.255.1:2376"}, "WINDLASS_OUTBOUND_ALLOW"),
        "authority": ({"engine_ca_certificate": stranger.file.read_text()}, "engine_ca_certificate"),
        "client certificate": ({"engine_certificate": certificate, "engine_key": key}, "engine_certificate"),
        "key": ({"engine_key": other_key}, "engine_key: must be the key of engine_certificate"),
        "no key": ({"engine_key": good["engine_certificate"]}, "engine_certificate, engine_key: must be"),
    }
    async with windlass(tmp_path, host) as there:
        for name, (change, words) in ways.items():
            answer = await connected(there, name, good | change)
            assert answer.status == 400, (name, answer)
            assert answer.message.startswith("engine_"), (name, answer)
            assert words in answer.message, (name, answer)


@pytest.mark.nightly
async def test_a_lost_volume_on_a_remote_host_fails_the_deployment(tmp_path, host):
    async with windlass(tmp_path, host) as there:
        east = Cluster(there, (await connected(there, "east", access(host)))["id"], "east")
        await east.make()
        assert (await east.do("deploy"))["status"] == "SUCCEEDED"
        await east.do("stop")
        docker = Docker(host.host)
        try:
            (volume,) = (await on(host.host))[1]
            await docker.raw("DELETE", f"/volumes/{volume['Name']}")
        finally:
            await docker.close()
        assert (await east.do("deploy"))["status"] == "FAILED"
        message = (await there.call("GET", f"{east.path}/status"))["message"]
        assert message.startswith("Bring back the volume of east")
        assert await on(host.host) == ([], [])
        await there.call("DELETE", east.path)
