"""`windlass init` takes from a folder its branch, its name, and the variables that it asks for."""

from __future__ import annotations

import pytest

from tests.commands.test_everyday import commit_all, git
from tests.world import REPOSITORY
from windlass.cli.everyday.folder import ApplicationMaker
from windlass.cli.git_folder import git_folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text("from flask import Flask\napp = Flask(__name__)\n")
    (tmp_path / "requirements.txt").write_text("flask\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_init_finds_the_branch_that_was_pushed_without_an_upstream(windlass, folder):
    commit_all(folder, "git@git.example:acme/shop.git", pushed=False)
    git(folder, "branch", "-m", "develop")
    found = git_folder(folder)
    assert found is not None
    assert found.branch == "", "no remote has this branch"
    git(folder, "update-ref", "refs/remotes/origin/develop", "HEAD")
    assert (await windlass("init", "--name", "web", "-e", "shop/production", "--port", "none")).code == 0
    made = await windlass.done("application", "get", "shop/production/web")
    assert made["git_repository"]["branch"] == "develop"


async def test_init_takes_a_project_that_another_command_creates_meanwhile(windlass, folder, monkeypatch):
    find, raced = ApplicationMaker._find, list[str]()

    def find_too_early(maker, family, path):
        found = find(maker, family, path)
        if found is None and family == "project" and not raced:
            raced.append(path)
            organization = maker._api.get("/organization")["id"]
            maker._create(f"/organization/{organization}/project", {"name": path}, family)
        return found

    monkeypatch.setattr(ApplicationMaker, "_find", find_too_early)
    said = await windlass("init", "--name", "web", "-e", "shop/production", "--port", "none")
    assert (said.code, raced) == (0, ["shop"]), said
    assert (await windlass.done("application", "get", "shop/production/web"))["name"] == "web"


async def test_init_writes_the_name_of_a_folder_in_plain_letters(windlass, folder, monkeypatch):
    (folder / "Café – Ünï").mkdir()
    (folder / "app.py").rename(folder / "Café – Ünï" / "app.py")
    monkeypatch.chdir(folder / "Café – Ünï")
    said = await windlass("init", "-e", "shop/production", "--port", "none")
    assert (said.code, said.json["application"]) == (0, "cafe-uni"), said


async def test_init_prints_the_env_set_command_for_variables_of_the_env_example(windlass, folder):
    (folder / ".env.example").write_text("GREETING=\n")
    words = ("init", "--name", "web", "-e", "shop/production", "--repository", REPOSITORY)
    assert "windlass env set 'GREETING=…'" in (await windlass(*words)).err
    (folder / ".env.example").unlink()
    assert "windlass env set" not in (await windlass(*words)).err


async def test_init_finds_the_repository_the_branch_and_the_folder_in_it(windlass, folder, monkeypatch):
    (folder / "api").mkdir()
    (folder / "app.py").rename(folder / "api/app.py")
    commit_all(folder, "git@git.example:acme/shop.git")
    git(folder, "branch", "-u", "origin/main")
    monkeypatch.chdir(folder / "api")
    said = await windlass("init", "-e", "shop/production", "--port", "none")
    assert (said.code, said.json["application"]) == (0, "api"), said
    made = await windlass.done("application", "get", "shop/production/api")
    source = made["git_repository"]
    assert (source["url"], source["branch"], source["root_path"]) == (REPOSITORY, "main", "/api")
    assert made["ports"] == []


async def test_init_takes_the_only_application_that_is_below_the_folder(windlass, folder):
    (folder / "api").mkdir()
    for name in ("app.py", "requirements.txt"):
        (folder / name).rename(folder / "api" / name)
    commit_all(folder, "git@git.example:acme/shop.git")
    said = await windlass("init", "--name", "api", "-e", "shop/production")
    assert (said.code, "The only application is in api" in said.err) == (0, True), said
    made = await windlass.done("application", "get", "shop/production/api")
    assert made["git_repository"]["root_path"] == "/api"
    assert made["ports"][0]["internal_port"] == 8000
