"""Each push that is refused says why, in git's own words and ours, and changes nothing."""

from __future__ import annotations

import base64
import os
import urllib.error
import urllib.request
import uuid
from asyncio import to_thread
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.pushes.conftest import RunningServer, Scene, running_server
from tests.pushes.pushing import (
    Folder,
    ask,
    deployments,
    make_application,
    make_environment,
    run,
    web_folder,
    with_token,
)
from tests.world import ADMIN
from windlass.control.people.organizations import found_organization
from windlass.core.access import SYSTEM
from windlass.families.organization import Organization

REFS = "/info/refs?service=git-receive-pack"


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[RunningServer]:
    async with running_server() as made:
        yield made


@pytest.fixture
async def app(scene: Scene) -> Any:
    return await make_application(scene.windlass, scene.environment)


@pytest.fixture
def folder(scene: Scene) -> Folder:
    return web_folder(scene.place.beside / "web")


async def got(url: str, token: str | None = ADMIN) -> tuple[int, str, str]:
    """Returns status, text and challenge of a request as git sends it."""
    return await to_thread(_got, url, token)


def _got(url: str, token: str | None) -> tuple[int, str, str]:
    request = urllib.request.Request(url)
    if token is not None:
        pair = base64.b64encode(f"git:{token}".encode()).decode()
        request.add_header("Authorization", f"Basic {pair}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, "", ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers.get("WWW-Authenticate", "")


async def token_of(scene: Scene, scope: str, **fields: Any) -> str:
    org = (await scene.windlass.call("GET", "/organization"))["id"]
    body = {"name": str(uuid.uuid4()), "scopes": [scope], **fields}
    made = await scene.windlass.call("POST", f"/organization/{org}/apiToken", body)
    return str(made["token"])


async def test_without_a_valid_token_git_is_asked_for_a_password(scene: Scene, app: Any):
    for token in (None, "", "wrong", ADMIN + "x"):
        status, text, challenge = await got(app["push_url"] + REFS, token)
        assert (status, challenge.startswith('Basic realm="Windlass"')) == (401, True), text
    assert (await got(app["push_url"] + REFS))[0] == 200


async def test_any_user_name_will_do_and_a_token_may_be_the_user_name(scene: Scene, app: Any, folder: Folder):
    for url in (with_token(app["push_url"], user="x"), with_token(app["push_url"], "", user=ADMIN)):
        assert await ask(folder.path, "ls-remote", url) == ""


async def test_a_foreign_application_is_missing_like_one_that_never_existed(scene: Scene, app: Any):
    ctx = scene.windlass.installation.ctx
    new = Organization(name="others")
    _, theirs = await ctx.store.write(lambda tx: found_organization(ctx, tx, new, SYSTEM, with_token=True))
    foreign = await got(app["push_url"] + REFS, theirs)
    never = await got(app["push_url"].replace(app["id"], str(uuid.uuid4())) + REFS, theirs)
    assert foreign == never
    assert foreign[0] == 404
    fetch = app["push_url"] + "/info/refs?service=git-upload-pack"
    assert (await got(fetch, theirs))[0] == 404


async def test_a_token_pushes_where_it_may_deploy(scene: Scene, app: Any, folder: Folder):
    reader, deployer = await token_of(scene, "Read"), await token_of(scene, "Deploy")
    ended = await folder.push(with_token(app["push_url"], reader))
    assert (ended.code, "Use a token with the scope Deploy or Admin" in ended.text) == (128, True), ended
    assert (await got(app["push_url"] + "/info/refs?service=git-upload-pack", reader))[0] == 200
    elsewhere = await make_environment(scene.windlass, "elsewhere")
    limited = await token_of(scene, "Deploy", limited_to=[elsewhere])
    status, text, _ = await got(app["push_url"] + REFS, limited)
    assert status in {403, 404}, text
    assert (await folder.push(with_token(app["push_url"], deployer))).code == 0


async def test_an_application_of_another_repository_names_it(scene: Scene, folder: Folder):
    repository = {"url": "https://git.example.com/shop.git", "branch": "main"}
    app = await make_application(scene.windlass, scene.environment, git_repository=repository)
    ended = await folder.push(with_token(app["push_url"]))
    assert "Push to https://git.example.com/shop.git" in ended.text
    assert ended.code == 128


async def test_the_deployed_branch_cannot_be_deleted(scene: Scene, app: Any, folder: Folder):
    url = with_token(app["push_url"])
    assert (await folder.push(url)).code == 0
    ended = await folder.push(url, ":main")
    assert (ended.code, "this branch is deployed" in ended.text) == (1, True), ended
    assert "refs/heads/main" in await ask(folder.path, "ls-remote", url)


async def test_other_refs_than_branches_and_tags_are_refused(scene: Scene, app: Any, folder: Folder):
    url = with_token(app["push_url"])
    for ref in ("refs/notes/x", "refs/windlass/pushed/1-2", "refs/pull/1/head"):
        ended = await folder.push(url, f"HEAD:{ref}")
        assert (ended.code, "only branches and tags are stored" in ended.text) == (1, True), ended
    assert await ask(folder.path, "ls-remote", url) == ""


async def test_a_shallow_clone_is_told_to_fetch_the_rest(scene: Scene, app: Any, folder: Folder):
    folder.commit("second")
    await ask(scene.place.beside, "clone", "--quiet", "--depth=1", f"file://{folder.path}", "part")
    ended = await Folder(scene.place.beside / "part").push(with_token(app["push_url"]))
    assert (ended.code, "git fetch --unshallow" in ended.text) == (1, True), ended


async def test_a_push_above_the_limit_is_refused_and_leaves_nothing(scene: Scene, app: Any, folder: Folder):
    (folder.path / "large").write_bytes(os.urandom(300_000))
    folder.commit("large")
    ended = await folder.push(with_token(app["push_url"]))
    assert (ended.code, "take large files out of the history" in ended.text) == (1, True), ended
    path = scene.windlass.installation.ctx.pushed.path(app["id"])
    assert [*(path / "incoming").iterdir()] == []
    assert [*(path / "objects").glob("**/*.pack")] == []
    folder.git("reset", "--quiet", "--hard", "HEAD~1")
    assert (await folder.push(with_token(app["push_url"]))).code == 0


async def test_a_commit_that_git_finds_broken_is_refused(scene: Scene, app: Any, folder: Folder):
    tree = folder.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nauthor Ada 1700000000 +0000\ncommitter Ada <a@b> 1700000000 +0000\n\nbroken\n"
    (folder.path / "raw").write_text(text)
    broken = folder.git("hash-object", "-t", "commit", "--literally", "-w", "raw")
    ended = await folder.push(with_token(app["push_url"]), f"{broken}:refs/heads/main")
    assert (ended.code, "run `git fsck`" in ended.text) == (1, True), ended
    assert await deployments(scene.windlass, app["id"]) == []


async def test_a_link_out_of_the_repository_is_not_built(scene: Scene, app: Any, folder: Folder):
    (folder.path / "passwd").symlink_to("/etc/passwd")
    folder.commit("a link")
    ended = await folder.push(with_token(app["push_url"]))
    assert (ended.code, "it leads out of the repository" in ended.text) == (1, True), ended


async def test_hooks_and_settings_of_a_pushed_repository_never_run(scene: Scene, app: Any, folder: Folder):
    """The negative control is that git itself runs this hook."""
    proof = scene.place.beside / "proof"
    path = scene.windlass.installation.ctx.pushed.path(app["id"])
    assert (await folder.push(with_token(app["push_url"]))).code == 0
    (path / "hooks").mkdir(exist_ok=True)
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
        (path / "hooks" / name).write_text(f"#!/bin/sh\ntouch {proof}\n")
        (path / "hooks" / name).chmod(0o755)
    folder.write(text="two").commit("two")
    assert (await folder.push(with_token(app["push_url"]))).code == 0
    assert not proof.exists()
    (path / "config").write_text("[core]\n\tbare = true\n")
    folder.write(text="three").commit("three")
    assert (await folder.push(str(path))).code == 0
    assert proof.exists()


async def test_submodules_and_files_in_lfs_are_named(scene: Scene, app: Any, folder: Folder):
    folder.write(__gitattributes="*.bin filter=lfs diff=lfs merge=lfs -text\n")
    commit = folder.git("rev-parse", "HEAD")
    folder.git("update-index", "--add", "--cacheinfo", f"160000,{commit},vendor/part")
    folder.git("add", ".gitattributes")
    folder.git("commit", "--quiet", "--message=a submodule")
    ended = await folder.push(with_token(app["push_url"]))
    assert ended.code == 0, ended
    assert "The submodule vendor/part is not fetched." in ended.text
    assert "Files in Git LFS are not fetched" in ended.text
    status, text, _ = await got(app["push_url"] + "/info/lfs/objects/batch")
    assert (status, "no files of Git LFS" in text) == (404, True)


async def test_a_page_of_another_origin_cannot_push(app: Any):
    """It cannot send the content type of git without asking first."""
    answer = await to_thread(_posted, app["push_url"] + "/git-receive-pack", "text/plain")
    assert answer == 400
    assert await to_thread(_posted, app["push_url"] + "/git-receive-pack", KIND) == 200, "the control"


KIND = "application/x-git-receive-pack-request"


def _posted(url: str, kind: str) -> int:
    pair = base64.b64encode(f"git:{ADMIN}".encode()).decode()
    headers = {"Authorization": f"Basic {pair}", "Content-Type": kind}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, b"0000", headers), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_the_address_of_a_push_in_a_browser_says_what_it_is_for(app: Any):
    status, text, _ = await got(app["push_url"])
    assert (status, "This address is for git" in text) == (400, True)


async def test_only_applications_can_have_their_own_repository(scene: Scene):
    answer = await to_thread(
        scene.windlass._called,
        "POST",
        f"/environment/{scene.environment}/application",
        {"name": "web", "git_repository": {"url": "windlass://other"}},
    )
    assert (answer.status, "must be windlass://push" in answer.text) == (400, True), answer
    source = {"docker": {"git_repository": {"url": "windlass://push"}}}
    answer = await to_thread(
        scene.windlass._called,
        "POST",
        f"/environment/{scene.environment}/job",
        {"name": "job", "source": source, "schedule": {"on_start": {}}},
    )
    assert (answer.status, "only an application" in answer.text) == (400, True), answer


async def test_more_pushes_and_fetches_at_once_than_a_few_have_to_wait(
    scene: Scene, app: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    url = with_token(app["push_url"])
    assert (await folder.push(url)).code == 0
    monkeypatch.setattr("windlass.api.git_requests._MAX_TRANSFERS_OF_APPLICATION", 0)
    folder.commit("second")
    ended = await folder.push(url)
    assert (ended.code, "push again in a moment" in ended.text) == (1, True), ended
    cloned = await to_thread(run, scene.place.beside, "clone", url, "cloned", check=False)
    assert (cloned.returncode, "503" in cloned.stderr) == (128, True), cloned
    monkeypatch.undo()
    assert (await folder.push(url)).code == 0


@pytest.mark.slow
async def test_a_repository_has_a_limit_of_branches_and_tags(
    scene: Scene, app: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    url = with_token(app["push_url"])
    assert (await folder.push(url, "main", "main:refs/tags/a", "main:refs/tags/b")).code == 0
    for limit, most in (("_MAX_REFS", 3), ("_MAX_REF_NAMES_BYTES", 40)):
        monkeypatch.setattr(f"windlass.control.services.pushes.{limit}", most)
        ended = await folder.push(url, "main:refs/tags/c")
        assert (ended.code, "delete branches or tags first" in ended.text) == (1, True), ended
        folder.write(text=limit).commit(limit)
        ended = await folder.push(url, "main", ":refs/tags/a")
        assert ended.code == 0, "what exists moves and can be deleted"
        monkeypatch.undo()
        assert (await folder.push(url, "--force", "main:refs/tags/a")).code == 0, "the control"


@pytest.mark.parametrize("separator", ["\u0085", "\u2028"])
async def test_a_branch_with_a_line_separator_in_its_name_breaks_no_later_push(
    scene: Scene, app: Any, folder: Folder, separator: str
):
    url, ref = with_token(app["push_url"]), f"refs/heads/a{separator}b"
    assert (await folder.push(url, "main", f"main:{ref}")).code == 0
    folder.write(text="later").commit("later")
    assert (await folder.push(url, "main", f":{ref}")).code == 0
    refs = await scene.windlass.installation.ctx.pushed.refs(app["id"])
    assert list(refs) == ["refs/heads/main"]


async def test_a_list_that_is_too_long_is_refused_and_not_cut(
    scene: Scene, app: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    url = with_token(app["push_url"])
    assert (await folder.push(url)).code == 0
    monkeypatch.setattr("windlass.sources.push.repositories._MAX_OUTPUT_BYTES", 10)
    status, text, _ = await got(app["push_url"] + REFS)
    assert (status, "git says too much" in text) == (503, True), text
    monkeypatch.undo()
    assert (await got(app["push_url"] + REFS))[0] == 200


async def test_a_name_that_no_application_may_name_is_not_deployed(scene: Scene, folder: Folder):
    app = await make_application(scene.windlass, scene.environment, git_repository={"url": "windlass://push"})
    url, pushed = with_token(app["push_url"]), scene.windlass.installation.ctx.pushed
    ended = await folder.push(url, "main:refs/heads/-x")
    assert (pushed.default_branch(app["id"]), "only main is deployed" in ended.text) == ("main", True), ended
    other = await make_application(
        scene.windlass, scene.environment, "other", git_repository={"url": "windlass://push"}
    )
    assert (await folder.push(with_token(other["push_url"]), "main:refs/heads/x")).code == 0
    assert pushed.default_branch(other["id"]) == "x", "the control"
