"""The sealing key of several servers on one PostgreSQL is replaced while all of them change secrets."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.operate.installations import settings_of
from tests.operate.key_rotations import key_file, keys_of_values, rotated
from tests.world import HandClock, World, make_world
from windlass.base.clock import HOUR, SECOND, SystemClock
from windlass.control.background import key_rotation
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.install.key import WrongKey, add_key

Replicas = tuple[World, World]


@pytest.fixture
async def replicas(postgres_url, tmp_path, monkeypatch):
    """Two servers, each with a data directory and a copy of the key of its own. Their clock stands still, so
    their leases outlast any pause of the machine."""
    monkeypatch.setattr(key_rotation, "LEASE_TIME", HOUR)
    clock = HandClock(SystemClock().now())  # the command has the time of the machine
    async with make_world(postgres_url, folder=tmp_path / "a", clock=clock) as first:
        (tmp_path / "b").mkdir(mode=0o700)
        shutil.copy(tmp_path / "a" / "key", tmp_path / "b" / "key")
        async with make_world(postgres_url, folder=tmp_path / "b", clock=clock) as second:
            await look(first, second)
            yield first, second


async def look(*worlds: World) -> None:
    for world in worlds:
        await world.installation.key_rotation.adopt_keys()


def present(world: World) -> str:
    return world.installation.ctx.encryption.fingerprint


def bring_key(source: World, target: World) -> None:
    shutil.copy(key_file(settings_of(source)), key_file(settings_of(target)))


async def secret(world: World, app: str, key: str) -> str:
    return await world.made(f"/application/{app}/secret", {"key": key, "value": f"value of {key}"})


async def opened(world: World, id: str) -> dict[str, str]:
    row = await world.installation.ctx.store.reads.resources.get(id)
    assert row
    return decrypt_hidden(world.installation.ctx, row)


async def test_a_new_key_is_used_only_when_every_server_has_it(replicas: Replicas):
    first, second = replicas
    former, new = present(first), add_key(settings_of(first))
    await look(first, second, first)
    assert present(first) == present(second) == former
    (lacking,) = first.installation.key_rotation.lacking
    settings = settings_of(second)
    assert f", http://{settings.host}:{settings.port}, process {os.getpid()}" in lacking.name
    bring_key(first, second)
    await look(second, first, second)
    assert present(first) == present(second) == new


async def test_a_killed_server_delays_a_key_rotation_by_at_most_an_hour(replicas: Replicas):
    first, _ = replicas
    new = add_key(settings_of(first))
    first.clock.turn(HOUR / SECOND + 1)
    await look(first)
    assert present(first) == new


async def test_a_server_that_missed_the_key_change_seals_with_the_new_key_on_its_next_write(
    replicas: Replicas,
):
    first, second = replicas
    app = await first.application()
    former, new = present(first), add_key(settings_of(first))
    bring_key(first, second)
    await look(second, first)
    assert (present(first), present(second)) == (new, former)
    id = await secret(second, app, "LATE")
    assert present(second) == new
    await first.settle()
    assert set(await keys_of_values(settings_of(first))) == {new}
    assert await opened(first, id) == {"value": "value of LATE"}


async def test_a_server_without_the_current_key_refuses_writes_and_is_not_ready(replicas: Replicas):
    first, second = replicas
    app = await first.application()
    add_key(settings_of(first))
    first.clock.turn(HOUR / SECOND + 1)
    await look(first)
    answer = await second.post(f"/application/{app}/secret", {"key": "LATE", "value": "x"})
    assert answer.status == 503
    assert f"add the sealing key {present(first)}" in answer.message
    assert (await second.get("/readyz")).status == 503
    bring_key(first, second)
    assert (await second.post(f"/application/{app}/secret", {"key": "LATE", "value": "x"})).status == 201
    assert (await second.get("/readyz")).status == 200


async def test_key_rotate_names_a_server_that_lacks_the_new_key(replicas: Replicas):
    first, second = replicas
    done = asyncio.Event()

    async def serve() -> None:
        while not done.is_set():
            await look(first, second)
            for world in replicas:
                await world.settle()
            if second.installation.key_rotation.lacking or first.installation.key_rotation.lacking:
                bring_key(first, second)
            await asyncio.sleep(0.01)

    serving = asyncio.create_task(serve())
    told = await rotated(settings_of(first))
    done.set()
    await serving
    assert any(f"process {os.getpid()}" in text for text in told)
    assert set(await keys_of_values(settings_of(first))) == {present(first)} == {present(second)}
    assert len(key_file(settings_of(first)).read_text().split()) == 1


async def test_a_server_with_only_the_former_key_does_not_start(replicas: Replicas, tmp_path: Path):
    first, second = replicas
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    add_key(settings_of(first))
    bring_key(first, second)
    await look(second, first)
    with pytest.raises(WrongKey, match=present(first)):
        async with make_world(settings_of(first).database_url, folder=tmp_path / "c"):
            pass
