"""`windlass init` makes the application and the remote; git gets the token by itself."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.cli.said import say
from tests.pushes.conftest import Scene
from tests.pushes.pushing import GIT, Folder, web_folder
from tests.world import ADMIN


async def init(scene: Scene, folder: Folder, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.chdir(folder.path)
    said = await asyncio.to_thread(
        say,
        "init",
        "--yes",
        "--name",
        "web",
        "--environment",
        f"{scene.place.beside.name}/production",
        *words,
        url=scene.windlass.url,
    )
    assert said.code == 0, said
    return said.out + said.err


def push(folder: Path, url: str, token: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = GIT | {"HOME": str(folder), "WINDLASS_URL": url, "WINDLASS_TOKEN": token}
    environment |= {"XDG_CONFIG_HOME": str(folder / ".none")}
    return subprocess.run(
        ["git", "push", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
async def test_init_and_git_push_deploy_a_folder_without_a_remote(scene: Scene, monkeypatch):
    folder = web_folder(scene.place.beside / "web")
    text = await init(scene, folder, monkeypatch, "--text")
    assert "Deploy it with: git push windlass main" in text
    url = folder.git("remote", "get-url", "windlass")
    assert ADMIN not in url
    assert ADMIN not in (folder.path / ".git" / "config").read_text()
    ended = await asyncio.to_thread(push, folder.path, scene.windlass.url, ADMIN, "windlass", "main")
    assert (ended.returncode, "web runs v1" in ended.stderr) == (0, True), ended
    elsewhere = await asyncio.to_thread(push, folder.path, "http://127.0.0.1:1", ADMIN, "windlass", "main")
    assert (elsewhere.returncode, "Authentication failed" in elsewhere.stderr) == (128, True), elsewhere


@pytest.mark.slow
async def test_up_uploads_changes_and_deploys_what_is_pushed(scene: Scene, monkeypatch):
    folder = web_folder(scene.place.beside / "web")
    await init(scene, folder, monkeypatch)
    await asyncio.to_thread(push, folder.path, scene.windlass.url, ADMIN, "windlass", "main")
    said = await asyncio.to_thread(say, "up", "--text", url=scene.windlass.url)
    assert (said.code, "Deploying the commit" in said.out + said.err) == (0, True), said
    folder.write(text="changed")
    said = await asyncio.to_thread(say, "up", "--text", url=scene.windlass.url)
    assert (said.code, "The folder is uploaded" in said.out + said.err) == (0, True), said


async def test_an_application_of_another_source_takes_pushes_after_init_with_push(scene: Scene, monkeypatch):
    body = {"name": "web", "source": "UPLOAD"}
    await scene.windlass.call("POST", f"/environment/{scene.environment}/application", body)
    folder = web_folder(scene.place.beside / "web")
    folder.git("remote", "add", "origin", "https://git.example.com/web.git")
    text = await init(scene, folder, monkeypatch, "--push", "--text")
    assert "is built from what is pushed to it now" in text
    ended = await asyncio.to_thread(push, folder.path, scene.windlass.url, ADMIN, "windlass", "main")
    assert ended.returncode == 0, ended


def test_the_token_of_a_login_is_given_for_the_address_for_pushes_that_init_has_noted():
    asked = "protocol=https\nhost=windlass.example.com\n"
    login = "http://127.0.0.1:9999"
    given = say("git-credential", "get", "--login", login, url=login, stdin=asked)
    assert given.out == f"username=windlass\npassword={ADMIN}\n"
    assert say("git-credential", "get", url=login, stdin=asked).out == "", "the control"
    encrypted = "https://windlass.example.com"
    asked = "protocol=http\nhost=127.0.0.1:9999\n"
    given = say("git-credential", "get", "--login", encrypted, url=encrypted, stdin=asked)
    assert given.out == "", "a token that is sent encrypted is not sent in clear elsewhere"


async def test_init_lets_git_use_the_login_where_the_address_for_pushes_is_another_one(
    scene: Scene, monkeypatch
):
    folder = web_folder(scene.place.beside / "web")
    scene.windlass.url = scene.windlass.url.replace("127.0.0.1", "localhost")
    await init(scene, folder, monkeypatch)
    ended = await asyncio.to_thread(push, folder.path, scene.windlass.url, ADMIN, "windlass", "main")
    assert ended.returncode == 0, ended


def test_the_credential_of_another_server_is_not_given():
    asked = "protocol=http\nhost=127.0.0.1:9999\n"
    assert "password" not in say("git-credential", "get", url="http://127.0.0.1:9998", stdin=asked).out
    given = say("git-credential", "get", url="http://127.0.0.1:9999", stdin=asked)
    assert given.out == f"username=windlass\npassword={ADMIN}\n"
    for action in ("store", "erase"):
        assert say("git-credential", action, url="http://127.0.0.1:9999", stdin=asked).out == ""
