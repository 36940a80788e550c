"""The installation of the story: two machines behind nginx, with applications and their clients."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.faults.programs import Code
from tests.faults.witness import MACHINE as WITNESS_HOST
from tests.free_ports import free_port
from tests.operate.story.clients import ApiClients, Visitors
from tests.operate.story.databases import PostgresPair
from tests.operate.story.machines import Machine, wheels
from tests.operate.story.proxies import nginx, site
from tests.whole import until

KEY = "ab" * 32
ADDRESSES = ("127.0.0.1", "127.0.0.2")
HTTP = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}


class Ports(NamedTuple):
    server: int
    gateway: int
    api: int
    """nginx before the servers."""
    applications: int
    """nginx before the gateways."""

    @staticmethod
    def chosen() -> Ports:
        return Ports(*(free_port() for _ in range(4)))


class Scene:
    def __init__(self, machines: Sequence[Machine], pair: PostgresPair, code: Code) -> None:
        self.machines = machines
        self.pair = pair
        self.code = code
        self.organization = ""
        self.applications: dict[str, str] = {}
        """Ids by name."""
        self.visitors: Visitors
        self.api: ApiClients

    async def make_application(self, name: str, cluster: str) -> str:
        """Creates it with an environment on a cluster, and deploys it; returns its host name."""
        first = self.machines[0]
        self.organization = (await first.call("GET", "/organization"))["id"]
        of_organization = f"/organization/{self.organization}"
        clusters = (await first.call("GET", f"{of_organization}/cluster"))["results"]
        (on,) = [each["id"] for each in clusters if each["name"] == cluster]
        project = await self._made(f"{of_organization}/project", name=f"acme {name}")
        environment = await self._made(f"/project/{project}/environment", name="blue", cluster_id=on)
        made = await self._made(
            f"/environment/{environment}/application",
            name=name,
            git_repository={"url": self.code.url, "branch": "main", "root_path": "/answers"},
            memory=128,
            ports=[HTTP],
        )
        self.applications[name] = made
        await self.ends(name, await self.asks_for_deployment(name))
        (link,) = (await first.call("GET", f"/application/{made}/link"))["results"]
        return str(urlsplit(link["url"]).hostname)

    async def _made(self, path: str, **body: Any) -> str:
        return str((await self.machines[0].call("POST", path, body))["id"])

    async def asks_for_deployment(self, name: str, machine: int = 0) -> str:
        """Returns the id of the deployment."""
        path = f"/application/{self.applications[name]}/deploy"
        return str((await self.machines[machine].call("POST", path))["id"])

    async def ends(self, name: str, deployment: str, machine: int = 0) -> None:
        """Waits until a deployment has succeeded."""
        path = f"/application/{self.applications[name]}/deployment/{deployment}"

        async def has_ended() -> bool:
            seen = await self.machines[machine].call("GET", path)
            assert seen["status"] not in {"FAILED", "CANCELED"}, seen
            return bool(seen["status"] == "SUCCEEDED")

        await until(has_ended)

    async def state_is(self, name: str, state: str, *machines: int) -> None:
        """Waits until each of these servers tells this state."""
        path = f"/application/{self.applications[name]}/status"
        for machine in machines or range(len(self.machines)):
            server = self.machines[machine]
            await until(partial(_tells, server, path, state))

    async def names_of_projects(self) -> list[str]:
        names: list[str] = []
        for page in itertools.count(1):
            path = f"/organization/{self.organization}/project?page={page}"
            found = (await self.machines[0].call("GET", path))["results"]
            if not found:
                return names
            names += [project["name"] for project in found]
        raise AssertionError

    async def all_is_well(self) -> None:
        """Every server tells that every application runs, and clients of all sorts are answered."""
        for name in self.applications:
            await self.state_is(name, "RUNNING")
            await self.visitors.see(name)
        await self.api.get_on()


async def _tells(server: Machine, path: str, state: str) -> bool:
    return bool((await server.call("GET", path))["state"] == state)


@asynccontextmanager
async def scene(folder: Path, pair: PostgresPair, code: Code, *, docker: str = "") -> AsyncIterator[Scene]:
    """With the process engine, each machine is a place of its own. With docker, the two share an engine."""
    ports = Ports.chosen()
    shared = {
        "database_url": pair.url,
        "key": KEY,
        "public_url": f"http://127.0.0.1:{ports.api}",
        "network_allow": WITNESS_HOST,
    }
    own: Sequence[dict[str, str]] = (
        {"public_domain": "one.localhost", "engine": "process"},
        {"public_domain": "two.localhost", "engine": "process", "place": "second"},
    )
    if docker:
        own = ({"engine": "docker", "docker_host": docker},) * 2
    machines = [
        Machine(folder / name, address, ports[:2], **shared, **settings)
        for name, address, settings in zip(("one", "two"), ADDRESSES, own, strict=True)
    ]
    async with AsyncExitStack() as stack:
        for machine in machines:
            stack.push_async_callback(machine.lose_power)
        await _install(machines, folder)
        await stack.enter_async_context(nginx(folder / "nginx", *_sites(machines, ports, own)))
        made = Scene(machines, pair, code)
        clusters = ("local", "local") if docker else ("local", "second")
        hosts = {
            name: await made.make_application(name, cluster)
            for name, cluster in zip(("one", "two"), clusters, strict=True)
        }
        made.visitors = await stack.enter_async_context(Visitors(hosts, ports.applications))
        url = f"http://127.0.0.1:{ports.api}"
        made.api = await stack.enter_async_context(ApiClients(url, made.organization))
        yield made


async def _install(machines: Sequence[Machine], folder: Path) -> None:
    packages = await asyncio.to_thread(wheels, folder / "packages")
    for machine in machines:
        await asyncio.to_thread(machine.install, packages)
        await machine.start()


def _sites(machines: Sequence[Machine], ports: Ports, own: Sequence[dict[str, str]]) -> list[str]:
    """The servers behind one name, and the gateways of each domain behind another."""
    domains: dict[str, list[str]] = {}
    for machine, settings in zip(machines, own, strict=True):
        domain = settings.get("public_domain", "localhost")
        domains.setdefault(domain, []).append(f"{machine.address}:{machine.gateway_port}")
    return [
        site("servers", ports.api, "api.localhost", [f"{m.address}:{m.port}" for m in machines]),
        *(
            site(f"gateways{number}", ports.applications, f"*.{domain}", servers)
            for number, (domain, servers) in enumerate(domains.items())
        ),
    ]
