"""Every stored credential, the place it is sent to, and the changes that could move it."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from tests.loopback import Receiver, receiver
from tests.world import World, make_world
from windlass.builders.git import Git

CANARY = "ghp_CANARY0123456789"


LOOPBACK = ["127.0.0.0/8"]


class Ears(Struct):
    """Two listeners: the host of the credential, and another one."""

    own: Receiver
    elsewhere: Receiver

    def heard(self, who: Receiver) -> bool:
        """True if the secret arrived, as it is or as git sends it."""
        return any(CANARY in plainly(request) for request in who.requests)


def plainly(request: bytes) -> str:
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
        receiver() as own,
        receiver() as elsewhere,
        make_world(outbound_allow=LOOPBACK, out=None, git=git) as world,
    ):
        yield world, Ears(own, elsewhere)


async def git_ground(world: World, ears: Ears) -> Ground:
    body = {"name": "g", "type": "GITHUB", "token": CANARY, "git_api_url": ears.own.url(path="/api/v3")}
    token = await world.made(f"/organization/{world.org}/gitToken", body)
    repository = {"url": ears.own.url(path="/acme/shop.git"), "branch": "main", "git_token_id": token}
    app = await world.application(git_repository=repository)

    async def use() -> None:
        await world.get(f"/application/{app}/commit")
        await world.post(f"/application/{app}/deploy")
        await world.settle()

    paths = {"gitToken": f"/organization/{world.org}/gitToken/{token}", "application": f"/application/{app}"}
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
