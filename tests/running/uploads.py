"""Uploads of folders, as a client sends them."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from tests.sources.test_uploads import entry, packed
from tests.world import Answer, World
from windlass.control.context.upload_files import StoredUpload

FOLDER = packed(entry("main.py", b"print()"), entry("data", b"x" * 20_000))
OTHER = packed(entry("main.py", b"print(2)"))
DAYS = 3 * 24 * 3600


def announced(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


async def begun(world: World, app: str, data: bytes = FOLDER) -> str:
    return await world.made(f"/application/{app}/upload", announced(data))


async def sent(world: World, app: str, id: str, data: bytes, offset: int = 0, **options: Any) -> Answer:
    path = f"/application/{app}/upload/{id}/content?offset={offset}"
    return await world.call("PUT", path, raw=data, **options)


async def uploaded(world: World, app: str, data: bytes = FOLDER) -> Any:
    id = await begun(world, app, data)
    assert (await sent(world, app, id, data)).status == 200
    answer = await world.post(f"/application/{app}/upload/{id}/complete")
    assert answer.status == 200, answer
    return answer.json


def age(world: World, app: str, id: str) -> None:
    """Makes an archive look as if nothing had come for days."""
    path = world.installation.ctx.uploads.path(StoredUpload(app, id))
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - DAYS))


def archives(world: World) -> set[str]:
    return {stored.id for stored in world.installation.ctx.uploads.all()}
