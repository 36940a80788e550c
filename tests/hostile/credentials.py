"""Every stored credential, the place it is sent to, and the changes that could move it."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.fakes.engine import FakeEngine
from tests.loopback import OK, Receiver, receiver
from tests.terraform_services.modules import document
from tests.world import World, make_world
from windlass.sources.git import Git

CANARY = "ghp_CANARY0123456789"


LOOPBACK = ["127.0.0.0/8"]


UNAUTHORIZED = (
    b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="images"\r\nContent-Length: 0\r\n\r\n'
)


CHARTS = b"apiVersion: v1\nentries: {}\n"


def asks_for_a_login(request: bytes) -> bytes:
    """Answers as a registry that asks for a login, as a chart repository, and everything else with 200."""
    if b"/index.yaml" in request:
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CHARTS) + CHARTS
    is_stranger = b"/v2/" in request and b"uthorization:" not in request
    return UNAUTHORIZED if is_stranger else OK


class Ears(Struct):
    """Two listeners: the host of the credential, and another one."""

    own: Receiver
    elsewhere: Receiver

    def heard(self, who: Receiver) -> bool:
        """True if the secret arrived, as it is or as git sends it."""
        return any(CANARY in one_line_errors(request) for request in who.requests)


def one_line_errors(request: bytes) -> str:
    text = request.decode(errors="replace")
    for found in re.findall(r"Authorization: Basic (\S+)", text, re.IGNORECASE):
        text += base64.b64decode(found).decode(errors="replace")
    return text


class Ground(Struct):
    """A credential in its place, and how to make the server use it."""

    world: World
    ears: Ears
    paths: Mapping[str, str]
    """Family to the path of the thing: the credential, and what refers to it."""
    use: Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(tmp_path: Path) -> AsyncIterator[tuple[World, Ears]]:
    git = Git(allow_local=True, outbound_allow=LOOPBACK, home=tmp_path / "git")
    async with (
        receiver(answering=asks_for_a_login) as own,
        receiver(answering=asks_for_a_login) as elsewhere,
        make_world(engine=FakeEngine("image"), outbound_allow=LOOPBACK, out=None, git=git) as world,
    ):
        yield world, Ears(own, elsewhere)


async def git_ground(world: World, ears: Ears) -> Ground:
    body = {"name": "g", "type": "GITHUB", "token": CANARY, "git_api_url": ears.own.url(path="/api/v3")}
    token = await world.made(f"/organization/{world.org}/gitToken", body)
    repository = {"url": ears.own.url(path="/acme/shop.git"), "branch": "main", "git_token_id": token}
    environment = await world.environment()
    bodies: Mapping[str, dict[str, Any]] = {
        "application": {"git_repository": repository},
        "job": {"source": {"docker": {"git_repository": repository}}, "schedule": {"on_start": {}}},
        "terraform": document("") | {"terraform_files_source": {"git_repository": repository}},
        "helm": {
            "source": {"git_repository": repository},
            "values_override": {"file": {"git": {"git_repository": repository, "paths": ["values.yaml"]}}},
        },
    }
    paths = {"gitToken": f"/organization/{world.org}/gitToken/{token}"}
    for family, fields in bodies.items():
        id = await world.made(f"/environment/{environment}/{family}", fields | {"name": family})
        paths[family] = f"/{family}/{id}"

    async def use() -> None:
        for family in bodies:
            await world.get(f"{paths[family]}/commit")
            await world.post(f"{paths[family]}/deploy")
        await world.settle()

    return Ground(world, ears, paths, use)


def registry_ground(kind: str, **config: str) -> Callable[[World, Ears], Awaitable[Ground]]:
    async def make(world: World, ears: Ears) -> Ground:
        body = {"name": world.name("registry"), "kind": kind, "url": ears.own.url(path=""), "config": config}
        registries = f"/organization/{world.org}/containerRegistry"
        registry = await world.made(registries, body)
        path, environment = f"{registries}/{registry}", await world.environment()
        image = {"image_name": "acme/shop", "tag": "1", "registry_id": registry}
        job = {"name": "job", "source": {"image": image}, "schedule": {"on_start": {}}}
        clusters = f"/organization/{world.org}/cluster"
        builder = {"name": world.name("cluster"), "registry_id": registry}
        paths = {
            "containerRegistry": path,
            "job": f"/job/{await world.made(f'/environment/{environment}/job', job)}",
            "cluster": f"{clusters}/{await world.made(clusters, builder)}",
        }

        async def use() -> None:
            await world.post(f"{path}/check")
            await world.get(f"{path}/images?imageName=acme/shop")
            await world.post(f"{paths['job']}/deploy")
            await world.settle()

        return Ground(world, ears, paths, use)

    return make


async def chart_ground(world: World, ears: Ears) -> Ground:
    body = {
        "name": world.name("charts"),
        "kind": "HTTPS",
        "url": ears.own.url(path=""),
        "config": {"username": "acme", "password": CANARY},
    }
    repositories = f"/organization/{world.org}/helmRepository"
    repository = await world.made(repositories, body)
    chart = {"repository": repository, "chart_name": "shop", "chart_version": "1.2.3"}
    release = {"name": "release", "source": {"helm_repository": chart}}
    service = await world.made(f"/environment/{await world.environment()}/helm", release)
    paths = {"helmRepository": f"{repositories}/{repository}", "helm": f"/helm/{service}"}

    async def use() -> None:
        await world.post(f"{paths['helmRepository']}/check")
        await world.get(f"{paths['helmRepository']}/charts")
        await world.post(f"{paths['helm']}/deploy")
        await world.settle()

    return Ground(world, ears, paths, use)


async def webhook_ground(world: World, ears: Ears, *, send_secret: bool = True) -> Ground:
    body = {"target_url": ears.own.url(), "events": ["DEPLOYMENT_STARTED"], "target_secret": CANARY}
    webhook = await world.made(f"/organization/{world.org}/webhook", body | {"send_secret": send_secret})
    path = f"/organization/{world.org}/webhook/{webhook}"

    async def use() -> None:
        await world.post(f"{path}/test")
        await world.post(f"{path}/replay", {"only_failed": False})
        await world.settle()

    return Ground(world, ears, {"webhook": path}, use)
