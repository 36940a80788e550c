"""The sealing key is replaced, while servers run or at rest, and nothing that it sealed is lost."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import cast

import pytest
from msgspec import structs

from tests.operate.installations import again, elsewhere, furnish, settings_of
from tests.operate.key_rotations import (
    key_file,
    keys_of_values,
    killed_at,
    present,
    rotated,
    rows_of,
    secret_of,
    serve_once,
    undeclared,
)
from tests.world import World, make_world
from windlass.base.encryption import Encryption, new_key
from windlass.config import Settings
from windlass.control.background.resealing import reseal
from windlass.control.records.sealing_keys import read_keys
from windlass.install.key import WrongKey, add_key, load_keys
from windlass.operate.backup import backup, restore
from windlass.operate.doctor import diagnose
from windlass.operate.keys import describe_keys
from windlass.store import Store
from windlass.store.tables import sealed
from windlass.store.tables.sealed import SealedValue
from windlass.terminal.command_errors import CommandRefused

HERE = {"Idempotency-Key": "a project"}


# All of it


async def test_a_key_rotation_seals_every_value_with_the_new_key_and_changes_no_other_row(settings):
    former = present(settings)
    before, values = await rows_of(settings)
    told = await rotated(settings)
    after, _ = await rows_of(settings)
    assert present(settings) != former
    assert await keys_of_values(settings) == {present(settings): sum(map(len, values.values())) + 1}
    for table in before.keys() - {"fact", "event", "work", "counter"}:
        assert after[table] == before[table], table
    assert former in told[0]
    assert former in told[-1]


async def test_after_a_key_rotation_the_installation_runs_with_the_new_key_only(settings):
    async with again(settings) as world:
        secrets, session = await secret_of(world), (await world.post("/account/session"))["token"]
        once = (await world.post(f"/organization/{world.org}/project", {"name": "p"}, headers=HERE)).json
    assert len(secrets) == 3
    await rotated(settings)
    assert len(load_keys(settings)) == 1
    async with again(settings) as world:
        assert await secret_of(world) == secrets
        assert (await world.get("/organization", token=f"Bearer {session}")).status == 200
        repeated = await world.post(f"/organization/{world.org}/project", {"name": "p"}, headers=HERE)
        assert repeated.json == once


async def test_every_sealed_value_is_in_a_declared_column(settings):
    _, values = await rows_of(settings)
    assert undeclared(values) == set()
    assert set(values) == {column.name for column in sealed.COLUMNS}


async def test_the_check_finds_a_sealed_value_in_another_column(settings):
    _, values = await rows_of(settings)
    assert undeclared(values | {"event.body": values["resource.sealed"]}) == {"event.body"}


async def test_values_are_not_sealed_again_until_a_key_is_replaced(world):
    app = await world.application()
    id = await world.made(f"/application/{app}/secret", {"key": "KEY", "value": "value"})
    ctx = world.installation.ctx
    before = await value_of(world, id)
    assert (await reseal(ctx.store, ctx.encryption)).resealed == 0
    assert await value_of(world, id) == before


# Interrupted


async def test_a_server_completes_what_a_killed_command_began(settings):
    former = present(settings)
    assert await asyncio.to_thread(killed_at, settings, "key added")
    async with again(settings) as world:
        await world.installation.key_rotation.adopt_keys()
        await world.settle()
        reads = world.installation.ctx.store.reads
        assert set(await keys_of_values(settings)) == {present(settings)}
        state = await read_keys(reads)
        assert state
        assert state.is_settled
        assert state.retired == {former}
        assert [row.kind for row in await world.events() if "SEALING" in row.kind] == [
            "SEALING_KEY_REPLACED",
            "SEALING_KEY_RETIRED",
        ]


async def test_concurrent_key_rotate_commands_create_only_one_key(settings):
    refused: list[str] = []

    async def meanwhile(point: str) -> None:
        if not refused:
            with pytest.raises(CommandRefused) as refusal:
                await rotated(settings)
            refused.append(str(refusal.value))

    await rotated(settings, point=meanwhile)
    assert refused[0].startswith("wait for the other `windlass key rotate`")
    assert len(load_keys(settings)) == 1


async def test_a_user_who_does_not_own_the_key_file_replaces_no_key(settings, monkeypatch):
    before = file_text(settings)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CommandRefused, match="run this as the owner"):
        await rotated(settings)
    monkeypatch.undo()
    assert file_text(settings) == before
    await rotated(settings)
    assert file_text(settings) != before


# While it is used


async def test_the_command_waits_for_the_server_that_has_the_database(tmp_path):
    async with make_world(folder=tmp_path) as world:
        await furnish(world)
        settings, former = settings_of(world), world.installation.ctx.encryption.fingerprint

        async def run() -> None:
            while world.installation.ctx.encryption.fingerprint == former:
                await world.installation.key_rotation.adopt_keys()
                await asyncio.sleep(0.01)
            await world.settle()

        server = asyncio.create_task(run())
        told = await rotated(settings)
        await server
        assert world.installation.ctx.encryption.fingerprint == present(settings)
        assert set(await keys_of_values(settings)) == {present(settings)}
        assert len(load_keys(settings)) == 1
        assert any(text.startswith("Values to seal") for text in told)


async def test_values_changed_during_a_key_rotation_keep_their_new_value(world):
    app = await world.application()
    path = f"/application/{app}/secret"
    ids = [await world.made(path, {"key": f"KEY_{number}", "value": "first"}) for number in range(4)]
    ctx, later = world.installation.ctx, Counter[str]()
    former = ctx.encryption.fingerprint
    add_key(ctx.settings)

    class RacingStore:
        """A store whose pages are old by the time that their values are replaced."""

        reads = ctx.store.reads

        async def write(self, change):
            for id in ids:
                later[id] += 1
                assert (await world.put(f"{path}/{id}", {"value": f"later {later[id]}"})).status == 200
            return await ctx.store.write(change)

    await world.installation.key_rotation.adopt_keys()
    await reseal(cast(Store, RacingStore()), ctx.encryption)
    assert later.total() > len(ids)
    assert list((await secret_of(world)).values()) == [f"later {later[id]}" for id in ids]
    assert former not in await keys_of_values(ctx.settings)


async def test_a_key_rotation_does_not_overwrite_a_value_changed_since_it_was_read(world):
    app = await world.application()
    path = f"/application/{app}/secret"
    id = await world.made(path, {"key": "KEY", "value": "first"})
    store = world.installation.ctx.store
    (old,) = [
        value for value in await store.reads.sealed.page(sealed.RESOURCE, ("",), 9) if value.key == (id,)
    ]
    await world.put(f"{path}/{id}", {"value": "later"})
    assert not await store.write(lambda tx: tx.sealed.replace(sealed.RESOURCE, old, b"older"))
    (new,) = [
        value for value in await store.reads.sealed.page(sealed.RESOURCE, ("",), 9) if value.key == (id,)
    ]
    assert await store.write(lambda tx: tx.sealed.replace(sealed.RESOURCE, new, b"newer"))


async def value_of(world: World, id: str) -> SealedValue:
    page = await world.installation.ctx.store.reads.sealed.page(sealed.RESOURCE, ("",), 9)
    return next(value for value in page if value.key == (id,))


# Not by itself


async def test_an_undecryptable_value_is_reported_and_its_key_is_kept(settings):
    former = present(settings)
    async with again(settings) as world:
        store = world.installation.ctx.store
        (row, *_) = await store.reads.resources.of_org(world.org, "secret")
        broken = row.sealed[:-1] + bytes([row.sealed[-1] ^ 1])
        await store.write(lambda tx: tx.resources.change(structs.replace(row, sealed=broken)))
    with pytest.raises(CommandRefused, match=row.id):
        await rotated(settings)
    assert (await keys_of_values(settings))[former] == 1
    assert len(load_keys(settings)) == 2
    (finding,) = [finding for finding in await diagnose(settings) if finding.what == "Secrets"]
    assert row.id in finding.found
    async with again(settings) as world:
        assert (await world.installation.ctx.store.reads.resources.get(row.id)).sealed == broken
        path = f"/{'application'}/{row.parent}/secret/{row.id}"
        assert (await world.delete(path)).status == 204
    await rotated(settings)
    assert set(await keys_of_values(settings)) == {present(settings)}
    assert len(load_keys(settings)) == 1


async def test_a_start_without_a_key_that_is_still_needed_is_refused(settings):
    former = present(settings)
    assert await asyncio.to_thread(killed_at, settings, "switched")
    file = key_file(settings)
    file.write_text(file.read_text().splitlines()[0])
    with pytest.raises(WrongKey, match=former):
        await serve_once(settings)


async def test_a_replaced_key_put_back_into_the_file_is_not_used_for_new_values(settings):
    former = file_text(settings)
    await rotated(settings)
    new = file_text(settings)
    key_file(settings).write_text(former + new)
    async with again(settings) as world:
        await world.installation.key_rotation.adopt_keys()
        assert world.installation.ctx.encryption.fingerprint == Encryption(bytes.fromhex(new)).fingerprint
    with pytest.raises(CommandRefused, match="put the key"):
        await rotated(settings)


def file_text(settings: Settings) -> str:
    return key_file(settings).read_text()


async def test_a_rotation_with_keep_leaves_the_former_key_in_the_file(settings, tmp_path):
    former = file_text(settings)
    await backup(settings, tmp_path / "old.zip")
    await rotated(settings, keep_old_key=True)
    assert file_text(settings).endswith(former)
    assert file_text(settings) != former


async def test_a_backup_from_before_a_rotation_needs_the_former_key_and_says_so(settings, tmp_path):
    id, former = present(settings), file_text(settings)
    await backup(settings, tmp_path / "old.zip")
    await rotated(settings)
    await backup(settings, tmp_path / "new.zip")
    other = elsewhere(settings, tmp_path / "new")
    await restore(other, tmp_path / "new.zip", force=False)
    with pytest.raises(WrongKey, match=id):
        await restore(other, tmp_path / "old.zip", force=True)
    key_file(other).write_text(file_text(settings) + former)
    await restore(other, tmp_path / "old.zip", force=True)
    await rotated(other)
    await serve_once(other)
    assert set(await keys_of_values(other)) == {present(settings)}


async def test_a_backup_during_a_rotation_needs_both_keys(settings, tmp_path):
    former = present(settings)
    assert await asyncio.to_thread(killed_at, settings, "resealed")
    made = await backup(settings, tmp_path / "half.zip")
    assert set(made.keys) == {former, present(settings)}
    other = elsewhere(settings, tmp_path / "new")
    file = key_file(other)
    both = file.read_text()
    file.write_text(both.splitlines()[0])
    with pytest.raises(WrongKey, match=former):
        await restore(other, tmp_path / "half.zip", force=False)
    file.write_text(both)
    await restore(other, tmp_path / "half.zip", force=False)
    await serve_once(other)
    await rotated(other)
    assert set(await keys_of_values(other)) == {present(settings)}


async def test_keys_from_settings_are_rotated_by_listing_new_and_former_key(database_url, tmp_path):
    former, new = new_key().hex(), new_key().hex()
    async with make_world(database_url, folder=tmp_path / "data", key=former) as world:
        await furnish(world)
        settings = settings_of(world)
    with pytest.raises(CommandRefused, match="WINDLASS_KEY"):
        await rotated(settings)
    both = structs.replace(settings, key=f"{new},{former}")
    told = await rotated(both)
    assert told[-1].startswith("Remove the former keys from WINDLASS_KEY")
    async with make_world(database_url, folder=tmp_path / "data", key=new) as world:
        assert len(await secret_of(world)) == 3
    assert not key_file(settings).exists()


# What operators see


async def test_the_list_has_each_key_with_its_values(settings):
    former = present(settings)
    (before,) = await describe_keys(settings)
    assert (before.id, before.is_present, before.is_here, before.since) == (former, True, True, None)
    assert await asyncio.to_thread(killed_at, settings, "switched")
    first, second = await describe_keys(settings)
    assert (first.values, first.retired_at, second.is_present) == (before.values + 1, None, True)
    await rotated(settings)
    first, second = await describe_keys(settings)
    assert (first.values, first.is_here, second.values) == (0, False, before.values + 1)
    assert str(first.retired_at) >= str(second.since)


async def test_the_doctor_says_that_a_rotation_is_not_complete(settings):
    async def secrets() -> tuple[str, str]:
        (finding,) = [finding for finding in await diagnose(settings) if finding.what == "Secrets"]
        return finding.level, finding.found

    assert await secrets() == ("ok", "were sealed with this key")
    assert await asyncio.to_thread(killed_at, settings, "switched")
    level, found = await secrets()
    assert level == "warn"
    assert present(settings) in found
    await rotated(settings)
    assert await secrets() == ("ok", "were sealed with this key")
