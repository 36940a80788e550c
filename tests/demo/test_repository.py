"""The repository of the demonstration is one that git takes, and always the same."""

from __future__ import annotations

import subprocess
import threading

import pytest

from windlass.demo import BRANCH, URL, repository
from windlass.sources.bundled import BundledRepositories
from windlass.sources.git import Git, GitError, GitSource


def git(*words, folder):
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return done.stdout


def test_git_finds_no_fault_in_the_repository_of_the_demo(tmp_path):
    made = repository(tmp_path / "demo.git")
    assert "dangling" not in git("fsck", "--strict", "--full", folder=made)
    names = git("ls-tree", "-r", "--name-only", BRANCH, folder=made).split()
    assert {"Dockerfile", "Procfile", "guestbook/__main__.py"} <= set(names)
    assert not [name for name in names if "pycache" in name]


def test_the_commit_of_the_demo_is_the_same_on_every_machine(tmp_path):
    made = [repository(tmp_path / name) for name in ("one", "other", "one")]
    assert len({git("rev-parse", BRANCH, folder=folder) for folder in made}) == 1


def test_several_processes_can_make_the_repository_of_the_demo_at_once(tmp_path):
    makers = [threading.Thread(target=repository, args=(tmp_path / "demo.git",)) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    git("fsck", "--strict", folder=tmp_path / "demo.git")
    assert not list((tmp_path / "demo.git").rglob("tmp_obj_*"))


async def test_the_repository_of_the_demo_is_fetched_by_name_and_by_commit(tmp_path):
    made = repository(tmp_path / "demo.git")
    fetching = Git(allow_local=True, outbound_allow=(), home=tmp_path / "home")
    source = GitSource(url=f"file://{made}", branch=BRANCH)
    head = await fetching.fetch(source, tmp_path / "head")
    assert (tmp_path / "head" / "Procfile").read_text().startswith("web: ")
    by_name = await fetching.fetch(GitSource(url=source.url, commit=head.id), tmp_path / "commit")
    assert by_name.id == head.id
    assert [one.id for one in await fetching.commits(source)] == [head.id]


async def test_plain_git_does_not_find_the_bundled_repository(tmp_path):
    fetching = Git(allow_local=False, outbound_allow=(), home=tmp_path / "home")
    with pytest.raises(GitError, match=r"windlass\.invalid"):
        await fetching.head(GitSource(url=URL, branch=BRANCH))


async def test_only_the_repository_can_be_fetched_at_its_address(tmp_path):
    usual = Git(allow_local=False, outbound_allow=(), home=tmp_path / "home")
    fetching = BundledRepositories(usual, tmp_path / "bundled")
    source = GitSource(url=URL, branch=BRANCH)
    name, commit = await fetching.head(source)
    assert name == BRANCH
    fetched = await fetching.fetch(GitSource(url=URL, commit=commit), tmp_path / "files")
    assert fetched.id == commit
    assert (tmp_path / "files" / "Dockerfile").exists()
    assert [one.id for one in await fetching.commits(source)] == [commit]
    for other in (f"file://{tmp_path}/bundled/demo.git", URL.replace("demo", "other"), f"{URL}/"):
        with pytest.raises(GitError):
            await fetching.head(GitSource(url=other, branch=BRANCH))
    await fetching.sweep()
