"""A deployment of an application to which no push succeeded yet says to push."""

from __future__ import annotations

import subprocess

import pytest

from windlass.sources.bundled import BundledRepositories
from windlass.sources.git import Git, GitError, GitSource
from windlass.sources.push import PushedRepositories

URL = "https://windlass.example/git/1.git"


@pytest.mark.parametrize(
    ("is_made", "why"),
    [(False, "nothing was pushed here yet"), (True, "this branch has no commit that was accepted")],
    ids=["no push", "only refused pushes"],
)
async def test_a_deployment_before_the_first_accepted_push_says_to_push(tmp_path, is_made, why):
    pushed = PushedRepositories(tmp_path / "pushed", 1 << 20)
    if is_made:
        subprocess.run(["git", "init", "--quiet", "--bare", str(pushed.path("web"))], check=True)
    others = Git(allow_local=False, outbound_allow=(), home=tmp_path / "others")
    repositories = BundledRepositories(others, tmp_path / "home", pushed)
    source = GitSource(url=URL, branch="main", pushed="web")
    with pytest.raises(GitError) as refused:
        await repositories.fetch(source, tmp_path / "files")
    assert str(refused.value) == f"Push a commit first, with `git push {URL} main`: {why}."
    await repositories.stop()
