"""Folders are uploaded in parts, and deployed as commits are."""

from __future__ import annotations

import asyncio
import gzip
import os
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.running.deployments import deploy, deployment
from tests.running.uploads import FOLDER, OTHER, announced, begun, sent, uploaded
from tests.sources.test_uploads import entry, link, packed
from tests.world import World
from windlass.base.disk_reserve import is_short
from windlass.base.errors import Unavailable
from windlass.control.context.upload_files import MAX_CONCURRENT_CHECKS, StoredUpload, UploadFiles


@pytest.fixture
async def app(world: World) -> str:
    return await world.application(source="UPLOAD", git_repository=None)


# Sending


async def test_an_upload_is_sent_in_parts_and_completed(world, app):
    id = await begun(world, app)
    first = await sent(world, app, id, FOLDER[:5000])
    assert (first.status, first["offset"], first.headers["upload-offset"]) == (200, 5000, "5000")
    head = await world.call("HEAD", f"/application/{app}/upload/{id}/content")
    assert (head.status, head.headers["upload-offset"]) == (200, "5000")
    early = await world.post(f"/application/{app}/upload/{id}/complete")
    assert (early.status, "from byte 5000" in early.message) == (409, True)
    assert (await sent(world, app, id, FOLDER[5000:], 5000)).status == 200
    for _ in range(2):
        done = await world.post(f"/application/{app}/upload/{id}/complete")
        assert (done.status, done["state"], done["files"]) == (200, "READY", 2)
        assert len(done["git_commit_id"]) == 40
    (listed,) = (await world.get(f"/application/{app}/upload"))["results"]
    assert listed["git_commit_id"] == done["git_commit_id"]


@pytest.mark.parametrize("offset", [0, 4999, 5001])
async def test_a_part_at_another_offset_is_refused_with_the_right_one(world, app, offset):
    id = await begun(world, app)
    await sent(world, app, id, FOLDER[:5000])
    answer = await sent(world, app, id, b"x", offset)
    assert (answer.status, answer.headers["upload-offset"]) == (409, "5000")


async def test_the_received_bytes_of_an_interrupted_upload_part_are_kept(world, app):
    id = await begun(world, app)
    path = f"/application/{app}/upload/{id}/content"
    scope = {"type": "http", "method": "PUT", "path": path, "query_string": b"", "client": ("203.0.113.7", 1)}
    scope["headers"] = [(b"authorization", f"Token {world.token}".encode())]
    messages = iter(
        [{"type": "http.request", "body": FOLDER[:700], "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        return None

    await world.installation.app(scope, receive, send)
    head = await world.call("HEAD", path)
    assert head.headers["upload-offset"] == "700"


async def test_concurrent_writes_to_one_upload_are_refused(world, app):
    id = await begun(world, app)
    with world.installation.ctx.uploads.writing(StoredUpload(app, id)):
        assert (await sent(world, app, id, FOLDER)).status == 409
    assert (await sent(world, app, id, FOLDER)).status == 200


async def test_an_upload_longer_than_announced_is_refused(world, app):
    id = await begun(world, app)
    assert (await sent(world, app, id, FOLDER + b"x")).status == 413
    assert world.installation.ctx.uploads.size(StoredUpload(app, id)) == 0
    answer = await sent(world, app, id, FOLDER + b"x", headers={"content-length": "1"})
    assert answer.status == 413
    assert world.installation.ctx.uploads.size(StoredUpload(app, id)) <= len(FOLDER)


async def test_an_upload_above_the_limit_is_refused_before_it_is_sent(make_world_with):
    async with make_world_with(upload_bytes=2048) as world:
        app = await world.application()
        answer = await world.post(f"/application/{app}/upload", announced(FOLDER))
        assert (answer.status, answer.message.startswith("size: send at most 2048 bytes")) == (413, True)


async def test_an_upload_whose_checksum_differs_is_refused_and_can_be_sent_again(world, app):
    id = await begun(world, app)
    await sent(world, app, id, FOLDER[:-1] + b"x")
    answer = await world.post(f"/application/{app}/upload/{id}/complete")
    assert (answer.status, answer.message.startswith("sha256: ")) == (400, True)
    assert (await sent(world, app, id, FOLDER)).status == 200
    assert (await world.post(f"/application/{app}/upload/{id}/complete")).status == 200


async def test_a_hostile_archive_is_refused_with_the_reason(world, app):
    data = gzip.compress(packed(entry("a", b""), link("l", "/etc/passwd")))
    id = await begun(world, app, data)
    await sent(world, app, id, data)
    answer = await world.post(f"/application/{app}/upload/{id}/complete")
    assert (answer.status, answer.message) == (400, "Remove the symbolic link l: it leads out of the folder")


async def test_an_application_has_at_most_ten_open_uploads(world, app):
    for _ in range(10):
        await begun(world, app)
    assert (await world.post(f"/application/{app}/upload", announced(FOLDER))).status == 409


@pytest.mark.parametrize("method", ["PUT", "HEAD"])
async def test_parts_need_the_scope_deploy_and_the_organization_of_the_application(world, app, method):
    id, path = await begun(world, app), f"/application/{app}/upload/"
    _, stranger = await world.organization()
    reader, writer = await world.new_token("Read"), await world.new_token("Write")
    for token, status in ((reader, 403), (writer, 403), (stranger, 404), ("nonsense", 401)):
        assert (await world.call(method, f"{path}{id}/content", token=token, raw=b"x")).status == status
    assert (await world.post(f"{path}{id}/complete", token=stranger)).status == 404
    assert world.installation.ctx.uploads.size(StoredUpload(app, id)) == 0


# Deploying


async def test_the_newest_upload_is_deployed_and_an_unchanged_folder_builds_nothing(world, app):
    first = await uploaded(world, app)
    done = await deployment(world, app, await deploy(world, app))
    await world.settle()
    done = await deployment(world, app, done["id"])
    assert (done["status"], done["git_commit_id"]) == ("SUCCEEDED", first["git_commit_id"])
    assert done["commit"]["message"] == "Uploaded folder with 2 files"
    again = await uploaded(world, app, gzip.compress(FOLDER))
    assert again["git_commit_id"] == first["git_commit_id"]
    await deploy(world, app)
    await world.settle()
    assert len(world.builder.built) == 1
    await uploaded(world, app, OTHER)
    await deploy(world, app)
    await world.settle()
    assert len(world.builder.built) == 2
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_deploy_may_choose_an_upload_and_redeploy_and_rollback_use_the_respective_one(world, app):
    first, second = await uploaded(world, app), await uploaded(world, app, OTHER)
    for chosen in (first, second):
        answer = await world.post(f"/application/{app}/deploy", {"upload_id": chosen["id"]})
        assert (answer.status, answer["git_commit_id"]) == (202, chosen["git_commit_id"])
        await world.settle()
    assert (await world.post(f"/application/{app}/redeploy"))["git_commit_id"] == second["git_commit_id"]
    await world.settle()
    assert (await world.post(f"/application/{app}/rollback"))["git_commit_id"] == first["git_commit_id"]
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_an_application_with_a_git_repository_can_also_be_deployed_from_an_upload(world):
    app = await world.application()
    chosen = await uploaded(world, app)
    await world.post(f"/application/{app}/deploy", {"upload_id": chosen["id"]})
    await world.settle()
    assert (world.builder.built[-1].commit, world.git.fetched) == (chosen["git_commit_id"], [])
    shown = (await world.get(f"/application/{app}"))["git_repository"]
    assert shown["deployed_commit_id"] == chosen["git_commit_id"]
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert world.builder.built[-1].commit == world.git.newest


@pytest.mark.parametrize(
    ("chosen", "status", "message"),
    [
        ("nothing", 409, "Upload a folder first, with `windlass up`"),
        ("another application's", 404, "upload_id: choose an upload of this application"),
        ("an open one", 409, "upload_id: complete the upload first"),
        ("an unknown version", 409, "git_commit_id: choose a version that is kept"),
    ],
)
async def test_a_deploy_without_a_usable_upload_is_refused_with_advice(world, app, chosen, status, message):
    bodies: dict[str, Any] = {"nothing": {}, "an unknown version": {"git_commit_id": "1234567"}}
    if chosen == "another application's":
        other = await world.application()
        bodies[chosen] = {"upload_id": (await uploaded(world, other))["id"]}
    if chosen == "an open one":
        bodies[chosen] = {"upload_id": await begun(world, app)}
    answer = await world.post(f"/application/{app}/deploy", bodies[chosen])
    assert (answer.status, answer.message.startswith(message)) == (status, True), answer


async def test_a_lost_archive_fails_the_deployment_with_a_remedy(world, app):
    chosen = await uploaded(world, app)
    world.installation.ctx.uploads.remove(StoredUpload(app, chosen["id"]))
    id = await deploy(world, app)
    await world.settle()
    failed = await deployment(world, app, id)
    assert (failed["status"], failed["message"].startswith("Upload the folder again")) == ("FAILED", True)


# Applications without a repository


async def test_an_application_needs_a_repository_or_the_source_upload(world):
    environment = await world.environment()
    path = f"/environment/{environment}/application"
    answer = await world.post(path, {"name": "a"})
    assert (answer.status, answer.message) == (400, "git_repository: is required, unless source is UPLOAD")
    made = await world.post(path, {"name": "a", "source": "UPLOAD"})
    assert (made.status, "git_repository" in made.json) == (201, False)
    put = await world.put(f"/application/{made['id']}", {"name": "b", "source": "UPLOAD"})
    assert (put.status, put["source"]) == (200, "UPLOAD")
    assert (await world.get(f"/application/{made['id']}/commit")).status == 409
    patched = await world.patch(f"/application/{made['id']}", {"source": "GIT"})
    assert patched.status == 400


async def test_root_path_may_select_a_folder_of_the_upload(world):
    app = await world.application(source="UPLOAD", git_repository=None, root_path="/apps/web")
    await uploaded(world, app)
    await deploy(world, app)
    await world.settle()
    assert [order.root for order in world.builder.built] == ["apps/web"]
    await world.patch(f"/application/{app}", {"root_path": "/"})
    await deploy(world, app)
    await world.settle()
    assert [order.root for order in world.builder.built] == ["apps/web", "."]


@pytest.mark.parametrize("path", ["..", "/a/../..", "../a"])
async def test_the_root_path_of_an_uploaded_application_must_stay_inside_the_upload(world, app, path):
    answer = await world.patch(f"/application/{app}", {"root_path": path})
    assert (answer.status, answer.message) == (
        400,
        "root_path: must stay inside the uploaded folder: leave out `..`",
    )


async def test_an_application_with_a_git_repository_must_set_the_root_path_of_the_repository(world):
    app = await world.application()
    answer = await world.patch(f"/application/{app}", {"root_path": "/web"})
    assert (answer.status, answer.message) == (
        400,
        "root_path: leave it out, and set git_repository.root_path",
    )


@pytest.mark.slow
async def test_completing_an_upload_waits_while_the_maximum_number_of_archives_is_checked(world, app):
    uploads = world.installation.ctx.uploads
    id = await begun(world, app)
    await sent(world, app, id, FOLDER)
    others = [AsyncExitStack() for _ in range(MAX_CONCURRENT_CHECKS)]
    for number, other in enumerate(others):
        await other.enter_async_context(uploads.checking("another", f"play-{number}"))
    completed = asyncio.ensure_future(world.post(f"/application/{app}/upload/{id}/complete"))
    while "Wait until" not in (await sent(world, app, id, b"x", len(FOLDER))).message:
        assert not completed.done()
    assert (await world.get(f"/application/{app}/upload/{id}"))["state"] == "OPEN"
    await others[0].aclose()
    assert (await completed)["state"] == "READY"


@pytest.mark.parametrize("disk_reserve", [2 << 30, 0])
async def test_uploads_also_leave_the_disk_reserve_of_builds_free(tmp_path, monkeypatch, disk_reserve):
    """Negative control: without it, they take all but their own reserve."""
    facts = [4096, 4096, 25 << 20, 820_000, 820_000, 10_000, 10_000, 10_000, 0, 255]  # 100 GiB, 3.1 free
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(facts))
    uploads = UploadFiles(tmp_path, 1 << 30, disk_reserve)
    uploads.check_room(1 << 20)
    if disk_reserve:
        with pytest.raises(Unavailable):
            uploads.check_room(3 << 29)
        return
    uploads.check_room(3 << 29)
    facts[3:5] = [fact - ((3 << 29) >> 12) for fact in facts[3:5]]
    assert is_short(tmp_path, 2 << 30)


async def test_on_a_small_disk_uploads_leave_a_part_of_it(tmp_path, monkeypatch):
    facts = [4096, 4096, 1 << 20, 500_000, 500_000, 10_000, 10_000, 10_000, 0, 255]  # 4 GiB, half free
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(facts))
    uploads = UploadFiles(tmp_path, 1 << 30, 2 << 30)
    uploads.check_room(1 << 20)
    with pytest.raises(Unavailable, match="set upload_reserve_bytes lower"):
        uploads.check_room(1 << 30)


@pytest.mark.parametrize(
    ("org", "environment", "is_next"), [("ada", "home", True), ("mallory", "play", False)]
)
async def test_checks_of_archives_of_different_organizations_take_turns(tmp_path, org, environment, is_next):
    uploads, ends = UploadFiles(tmp_path), [asyncio.Event() for _ in range(20)]

    async def check(end: asyncio.Event, org: str, environment: str) -> None:
        async with uploads.checking(org, environment):
            await end.wait()

    places = ("play", "toys")
    first = [asyncio.create_task(check(end, "mallory", places[n % 2])) for n, end in enumerate(ends)]
    await asyncio.sleep(0)
    over = asyncio.Event()
    over.set()
    other = asyncio.create_task(check(over, org, environment))
    await asyncio.sleep(0)
    ends[0].set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert other.done() is is_next
    for task in (*first, other):
        task.cancel()
    await asyncio.gather(*first, other, return_exceptions=True)


@pytest.mark.parametrize("environment", ["prod", "play"])
async def test_archives_of_one_environment_do_not_delay_another_environment(tmp_path, environment):
    """Negative control: one more archive of the same environment waits."""
    uploads, ends = UploadFiles(tmp_path), asyncio.Event()

    async def check(environment: str, end: asyncio.Event) -> None:
        async with uploads.checking("acme", environment):
            await end.wait()

    first = [asyncio.create_task(check("play", ends)) for _ in range(20)]
    await asyncio.sleep(0)
    over = asyncio.Event()
    over.set()
    other = asyncio.create_task(check(environment, over))
    for _ in range(10):
        await asyncio.sleep(0)
    assert other.done() is (environment == "prod")
    for task in (*first, other):
        task.cancel()
    await asyncio.gather(*first, other, return_exceptions=True)


@pytest.mark.parametrize("is_inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("way", ["{0}", "/{0}", "deploy/../{0}"])
async def test_a_dockerfile_path_outside_the_upload_is_not_read(world, tmp_path, way, is_inside):
    """The path comes from a client, and a read of some files of the machine never ends."""
    (tmp_path / "Dockerfile").write_text("FROM x\nARG TOLD\n")
    outside = "../" * 20 + str(tmp_path / "Dockerfile")[1:]
    path = way.format("deploy/Dockerfile" if is_inside else outside)
    app = await world.application(source="UPLOAD", git_repository=None, dockerfile_path=path)
    for key in ("TOLD", "OTHER"):
        await world.post(f"/application/{app}/environmentVariable", {"key": key, "value": "x"})
    await uploaded(world, app, packed(entry("deploy/Dockerfile", b"FROM x\nARG TOLD\n")))
    await deploy(world, app)
    await world.settle()
    assert [order.arguments for order in world.builder.built] == [{"TOLD": "x"} if is_inside else {}]
