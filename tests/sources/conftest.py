"""A repository, a folder to fetch into, and a Git of which nothing may stay behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.home_processes import processes_of
from tests.refusals import heard_refusals
from tests.repositories import Listener, Repository, serving
from windlass.sources.git import Git, GitError, GitSource


@pytest.fixture(autouse=True)
def refusals(tmp_path, monkeypatch):
    with heard_refusals(tmp_path, monkeypatch, GitError) as told:
        yield told


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "served" / "shop.git")


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path / "served") as made:
        yield made


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def into(tmp_path):
    return tmp_path / "copies" / "one"


@pytest.fixture
def home(tmp_path):
    made = tmp_path / "private home"
    yield made
    assert processes_of(made) == []
    assert {path.name for path in made.glob("*")} <= {"known_hosts"}


@pytest.fixture
def make_git(home):
    def make(**given: Any) -> Git:
        return Git(**{"allow_local": True, "outbound_allow": (), "home": home, **given})

    return make


@pytest.fixture
def git(make_git):
    return make_git()


@pytest.fixture
def refused(into, home):
    """Why a source is refused; it never tells a path of this machine or a token, and leaves nothing."""

    async def reason(git: Git, source: GitSource, **given: Any) -> str:
        with pytest.raises(GitError) as caught:
            await git.fetch(source, into, **given)
        said = str(caught.value)
        assert str(into) not in said
        assert str(home) not in said
        assert not source.token or source.token not in said
        assert said.isprintable()
        assert not into.exists()
        return said

    return reason


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "canary"
