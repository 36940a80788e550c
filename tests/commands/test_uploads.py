"""`windlass up` uploads a folder whose files the server cannot fetch, and goes on after an interruption."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import pytest

from tests.commands.on_a_terminal import on_a_terminal
from tests.commands.test_economy import counted
from tests.commands.test_everyday import commit_all, git
from tests.commands.waits import meanwhile
from windlass.cli import uploading
from windlass.cli.everyday.folder import whole_folder
from windlass.cli.everyday.up import folder_to_upload
from windlass.cli.git_folder import GitFolder
from windlass.cli.linked_folder import LINK_FILE
from windlass.terminal.command_errors import InvalidUsage


@pytest.fixture
async def folder(windlass, tmp_path, monkeypatch):
    """A linked folder without git, whose application is built from uploads."""
    (tmp_path / "app.py").write_text("print()\n")
    (tmp_path / ".env").write_text("KEY=s3cret\n")
    (tmp_path / "notes.txt").write_text("private")
    (tmp_path / ".gitignore").write_text("notes.txt\n")
    monkeypatch.chdir(tmp_path)
    said = await windlass("init", "--name", "web", "-e", "shop/production", "--port", "none")
    assert (said.code, "no remote that a server can reach" in said.err) == (0, True), said
    return tmp_path


async def uploads(windlass) -> list[dict[str, Any]]:
    id = (await windlass.done("application", "get", "web"))["id"]
    return list((await windlass.done("api", "GET", f"/application/{id}/upload"))["results"])


async def test_up_uploads_a_folder_without_git_and_deploys_it(windlass, folder):
    said = await meanwhile(windlass, "up", "--text")
    assert said.code == 0, said
    assert "Uploading 3 files" in said.err  # app.py, .gitignore and .windlass.toml
    [upload] = await uploads(windlass)
    assert said.out.endswith(f", v1 {upload['git_commit_id'][:7]})\n")


@pytest.fixture
def clone(windlass, folder, tmp_path_factory, monkeypatch):
    """A stranger's folder, whose link names the service of this user."""
    clone = tmp_path_factory.mktemp("clone")
    (clone / "app.py").write_text("print('evil')\n")
    (clone / LINK_FILE).write_bytes((folder / LINK_FILE).read_bytes())
    monkeypatch.chdir(clone)
    return clone


async def test_up_refuses_a_link_that_came_with_the_files(windlass, clone):
    """Negative control: `test_up_uploads_a_folder_without_git_and_deploys_it`, where init has linked it."""
    said = await windlass("up")
    assert (said.code, "give --yes to deploy" in said.err, "shop/production/web on http" in said.err) == (
        2,
        True,
        True,
    )
    assert await uploads(windlass) == []
    assert (await meanwhile(windlass, "up", "--yes")).code == 0


async def test_up_asks_once_for_a_link_that_came_with_the_files(windlass, clone):
    at = {"url": windlass.url, "cwd": clone}
    shown = await asyncio.to_thread(on_a_terminal, "up", "-d", typed="n\n", **at)
    assert "Deploy these files to shop/production/web on http" in shown
    assert await uploads(windlass) == []
    await asyncio.to_thread(on_a_terminal, "up", "-d", typed="y\n", **at)
    assert len(await uploads(windlass)) == 1
    (clone / "app.py").write_text("print(2)\n")
    assert (await meanwhile(windlass, "up")).code == 0
    (clone / LINK_FILE).write_text((clone / LINK_FILE).read_text().replace('"web"', '"other"'))
    said = await windlass("up")
    assert (said.code, "give --yes to deploy" in said.err) == (2, True)


async def test_an_unchanged_folder_is_not_sent_again(windlass, folder):
    await meanwhile(windlass, "up")
    async with counted(windlass) as app:
        said = await meanwhile(windlass, "up")
    assert (said.code, "has this version of the folder already" in said.err) == (0, True), said
    assert [asked for asked in app.asked if asked.startswith("PUT")] == []
    assert len(await uploads(windlass)) == 1


async def test_up_resumes_an_upload_that_ctrl_c_interrupted(windlass, folder, monkeypatch):
    monkeypatch.setattr(uploading, "PART_BYTES", 10_000)
    (folder / "data").write_bytes(random.Random(1).randbytes(50_000))
    with monkeypatch.context() as patch:
        send = uploading.FolderUpload._send_part

        def send_two(upload, offset, path):
            if offset >= 20_000:
                raise KeyboardInterrupt
            return send(upload, offset, path)

        patch.setattr(uploading.FolderUpload, "_send_part", send_two)
        said = await windlass("up")
        assert (said.code, said.err.endswith("`windlass up` resumes it.\n")) == (130, True), said
    said = await meanwhile(windlass, "up", "--detach")
    assert (said.code, re.search(r"Uploading .*, from [34]\d %", said.err) is not None) == (0, True), said
    [upload] = await uploads(windlass)
    assert upload["state"] == "READY"


async def test_an_upload_outlives_a_server_that_is_away(windlass, folder, monkeypatch):
    monkeypatch.setattr(uploading, "PART_BYTES", 10_000)
    (folder / "data").write_bytes(random.Random(1).randbytes(50_000))
    async with counted(windlass) as app:
        app.refusals["/content"] = [503]
        said = await meanwhile(windlass, "up", "--detach")
    assert (said.code, "refused with 503" in said.err) == (0, True), said
    parts = [asked for asked in app.asked if asked.startswith("PUT")]
    assert len(parts) > 6
    [upload] = await uploads(windlass)
    assert (upload["state"], upload["files"]) == ("READY", 4)


async def test_up_deploys_the_commit_if_it_is_pushed_and_otherwise_uploads_the_folder(windlass, folder):
    commit = commit_all(folder)
    await windlass.done("init", "--name", "api", "-e", "shop/production", "--port", "none")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "Link")
    said = await meanwhile(windlass, "up", "--text")
    assert "Uploading " in said.err
    assert f"push the commit {git(folder, 'rev-parse', 'HEAD')[:7]}" in said.err
    refused = await windlass("up", "--git")
    assert (refused.code, "git push" in refused.err) == (2, True), refused
    git(folder, "remote", "add", "other", "https://git.example/acme/other.git")
    git(folder, "update-ref", "refs/remotes/other/main", "HEAD")
    refused = await windlass("up", "--git")
    assert (refused.code, "push the commit" in refused.err) == (2, True), "another repository has it"
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    said = await meanwhile(windlass, "up", "--text")
    assert (said.code, "Deploying the commit" in said.err, commit != "") == (0, True, True), said
    (folder / "app.py").write_text("print(2)\n")
    said = await meanwhile(windlass, "up", "--text")
    assert (said.code, "commit the changed files" in said.err) == (0, True), said


async def test_a_folder_with_nothing_to_upload_is_refused(windlass, folder):
    (folder / ".windlassignore").write_text("*\n")
    said = await windlass("up")
    assert (said.code, "has no files to upload" in said.err) == (2, True), said


def test_the_whole_repository_is_uploaded_for_an_application_in_a_folder_of_it(tmp_path):
    api = tmp_path / "api"
    api.mkdir()
    settings = {"git_repository": {"url": "https://git.example/a.git", "root_path": "/api"}}
    assert folder_to_upload(api, GitFolder(top=tmp_path), settings) == tmp_path
    assert folder_to_upload(api, GitFolder(top=tmp_path), {"git_repository": None}) == api
    assert folder_to_upload(tmp_path, GitFolder(top=tmp_path), settings) == tmp_path
    (tmp_path / "web").mkdir()
    with pytest.raises(InvalidUsage, match=r"^link the folder api of the repository: "):
        folder_to_upload(tmp_path / "web", GitFolder(top=tmp_path), settings)
    with pytest.raises(InvalidUsage):
        folder_to_upload(api, None, settings)
    assert folder_to_upload(api, GitFolder(top=tmp_path), {"root_path": "/api"}) == tmp_path
    with pytest.raises(InvalidUsage):
        folder_to_upload(api, None, {"root_path": "/api"})


def test_a_home_folder_is_not_uploaded(tmp_path, monkeypatch):
    api = tmp_path / "ada" / "api"
    api.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    for top in (tmp_path, tmp_path / "ada"):
        assert whole_folder(api, GitFolder(top=top)) == api
        with pytest.raises(InvalidUsage):
            folder_to_upload(api, GitFolder(top=top), {"root_path": f"/{api.relative_to(top)}"})
    monkeypatch.setenv("HOME", str(tmp_path.parent / "eve"))
    assert whole_folder(api, GitFolder(top=tmp_path)) == tmp_path
