"""Uploads have limited room, and go when nothing needs them."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from tests.running.deployments import deploy
from tests.running.uploads import FOLDER, OTHER, age, announced, archives, begun, sent, uploaded
from tests.sources.test_uploads import entry, packed
from tests.world import World, make_world
from windlass.base.clock import SECOND
from windlass.control.context.upload_files import StoredUpload
from windlass.control.services.uploads import MAX_OPEN_UPLOADS, UPLOAD_RETENTION, sweep_uploads


@pytest.fixture
async def app(world: World) -> str:
    return await world.application(source="UPLOAD", git_repository=None)


@pytest.fixture
async def small(make_world_with):
    """A Windlass with room for two uploads of an application."""
    async with make_world_with(upload_kept_bytes=2 * len(folder(1))) as world:
        yield world, await world.application(source="UPLOAD", git_repository=None)


def folder(number: int) -> bytes:
    """Archives of one length."""
    return packed(entry("data", str(number).encode() * 20_000))


async def test_uploads_of_an_application_are_limited_in_total_size_whether_complete_or_not(small):
    world, app = small
    await uploaded(world, app, folder(1))
    second = await begun(world, app, folder(2))
    refused = await world.post(f"/application/{app}/upload", announced(folder(3)))
    assert (refused.status, refused.message.startswith("Delete an upload of this application")) == (409, True)
    another = await world.application(name="another", source="UPLOAD", git_repository=None)
    await begun(world, another, folder(3))
    assert (await world.delete(f"/application/{app}/upload/{second}")).status == 204
    await begun(world, app, folder(3))


@pytest.mark.parametrize("is_deployed", [True, False])
async def test_an_old_upload_that_is_not_deployed_is_removed_for_a_new_one(small, is_deployed):
    world, app = small
    first = await uploaded(world, app, folder(1))
    if is_deployed:
        await deploy(world, app)
        await world.settle()
    second = await uploaded(world, app, folder(2))
    for id in (first["id"], second["id"]):
        age(world, app, id)
    answer = await world.post(f"/application/{app}/upload", announced(folder(3)))
    assert answer.status == (409 if is_deployed else 201), answer
    assert archives(world) == ({first["id"], second["id"]} if is_deployed else {second["id"]})


async def test_a_refused_too_large_upload_removes_no_other_upload(small):
    world, app = small
    first, _ = await uploaded(world, app, folder(1)), await uploaded(world, app, folder(2))
    age(world, app, first["id"])
    answer = await world.post(f"/application/{app}/upload", {**announced(OTHER), "size": 2**39})
    assert answer.status == 413
    assert first["id"] in archives(world)


async def test_uploads_are_refused_below_the_disk_reserve(world, app):
    id = await begun(world, app)
    uploads = world.installation.ctx.uploads
    uploads._reserve = 2**60
    part = await sent(world, app, id, FOLDER)
    assert (part.status, part.message.startswith("Ask the operator to free disk space")) == (503, True)
    refused = await world.post(f"/application/{app}/upload", announced(OTHER))
    assert (refused.status, refused.message.startswith("Ask the operator to free disk space")) == (503, True)
    uploads._reserve = 0
    assert (await sent(world, app, id, FOLDER)).status == 200


@pytest.mark.parametrize("call", ["mkdir", "open"])
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT])
async def test_a_disk_without_free_inodes_counts_as_full(world, app, monkeypatch, call, reason):
    """It still has bytes free. The control is the end: the same part is taken afterwards."""
    id = await begun(world, app)
    folder = str(world.installation.ctx.uploads._folder)
    original = getattr(os, call)

    def refusing(path, *args, **options):
        if str(path).startswith(folder):
            raise OSError(reason, os.strerror(reason))
        return original(path, *args, **options)

    shutil.rmtree(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refusing)
        refused = [await sent(world, app, id, FOLDER)]
        if call == "mkdir":
            refused.append(await world.post(f"/application/{app}/upload", announced(OTHER)))
    for answer in refused:
        assert answer.status == 503
        assert answer.message.startswith("Ask the operator to free disk space")
    assert (await sent(world, app, id, FOLDER)).status == 200


# Sweeping


async def test_stalled_uploads_are_removed_and_needed_ones_stay(world, app):
    await begun(world, app)
    opened, first = await begun(world, app), await uploaded(world, app)
    await sent(world, app, opened, b"x")
    await deploy(world, app)
    await world.settle()
    unused, newest = await uploaded(world, app, OTHER), await uploaded(world, app, packed(entry("n", b"")))
    ids = [opened, first["id"], unused["id"], newest["id"]]
    await sweep_uploads(world.installation.ctx)
    assert archives(world) == {*ids}
    for id in ids:
        age(world, app, id)
    await sweep_uploads(world.installation.ctx)
    assert archives(world) == {first["id"], newest["id"]}
    assert (await world.get(f"/application/{app}/upload/{unused['id']}")).status == 404


@pytest.mark.parametrize("is_late", [True, False])
async def test_uploads_without_progress_for_a_day_do_not_count_towards_the_limit(world, app, is_late):
    """The control: those of today count."""
    for _ in range(MAX_OPEN_UPLOADS):
        await begun(world, app)
    world.clock.turn(UPLOAD_RETENTION // SECOND + 1 if is_late else 0)
    answer = await world.post(f"/application/{app}/upload", announced(OTHER))
    assert answer.status == (201 if is_late else 409), answer
    rows = (await world.get(f"/application/{app}/upload"))["results"]
    assert len(rows) == (1 if is_late else MAX_OPEN_UPLOADS)


async def test_archives_of_a_deleted_application_are_removed(world, app):
    await uploaded(world, app)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.settle()
    await sweep_uploads(world.installation.ctx)
    assert world.installation.ctx.uploads.all() == {}


async def test_the_archive_of_a_deleted_upload_is_removed(world, app):
    made = await uploaded(world, app)
    assert (await world.delete(f"/application/{app}/upload/{made['id']}")).status == 204
    await sweep_uploads(world.installation.ctx)
    assert archives(world) == set()


async def test_upload_archives_unknown_to_the_database_are_kept(world, app):
    """Such as those of a server that was started with the database of another. The control: a database that
    has deleted the application erases them."""
    made = await uploaded(world, app)
    async with make_world() as other:
        strange = other.installation.ctx.uploads
        kept = StoredUpload(app, made["id"])
        strange.path(kept).parent.mkdir(parents=True)
        strange.path(kept).write_bytes(FOLDER)
        age(other, app, made["id"])
        await sweep_uploads(other.installation.ctx)
        assert archives(other) == {made["id"]}
        await other.installation.ctx.store.write(lambda tx: tx.deletions.record(app, ""))
        await sweep_uploads(other.installation.ctx)
        assert archives(other) == set()
