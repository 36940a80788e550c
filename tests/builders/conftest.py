"""A repository, a folder to fetch into, and a Git of which nothing may stay behind."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.native_sites import Site
from tests.builders.repositories import Listener, Repository, serving
from windlass.builders.builder import BuildError
from windlass.sources.git import Git, GitError, GitSource


@pytest.fixture(autouse=True)
def refusals(tmp_path, monkeypatch):
    """Every refusal of every builder test, which never tells a path of this machine."""
    told: list[str] = []
    for kind in (BuildError, GitError):
        monkeypatch.setattr(kind, "__init__", _told_to(told))
    yield told
    given = f"file://{tmp_path}"  # the author of the test knows the address of the repository
    assert [message for message in told if str(tmp_path) in message.replace(given, "")] == []


def _told_to(told: list[str]) -> Callable[..., None]:
    def note(error: Exception, *said: object) -> None:
        told.extend(map(str, said))
        Exception.__init__(error, *said)

    return note


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


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


EXITING = 0x4  # PF_EXITING of the kernel


def is_killed(process: Path) -> bool:
    """True for a process that does nothing any more, although the kernel has not ended it yet."""
    status = process.joinpath("status").read_text()
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line[3:6] == "Pnd"]
    flags = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[6])
    return bool(flags & EXITING) or any(signals & 1 << (signal.SIGKILL - 1) for signals in pending)


def processes_of(home: Path) -> list[str]:
    """The command lines of everything that runs with this folder as its home, and was not killed."""
    wanted = b"HOME=" + bytes(home.absolute())
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in each.joinpath("environ").read_bytes().split(b"\0") and not is_killed(each):
                found.append(each.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile, or belongs to another user
    return found


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "canary"
