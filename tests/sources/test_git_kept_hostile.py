"""A fetch that goes on with a kept copy has the files of the commit, and no others, whatever the commits
before it were: compared with a fetch into an empty folder."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.repositories import Repository
from tests.sources.test_git_kept import NAME, Fetches
from windlass.sources.git import GitError, GitSource

pytestmark = pytest.mark.slow

Tree = Mapping[str, str]
"""The content of files by path; a link is `-> target`, and `*` makes it a program."""

PLACES: Mapping[str, list[Tree]] = {
    "a file becomes a folder": [{"a": "1"}, {"a/b": "2"}, {"a": "1"}],
    "a folder becomes a link": [
        {"a/b": "1", "c/b": "2"},
        {"a": "-> c", "c/b": "2"},
        {"a/b": "1", "c/b": "3"},
    ],
    "a link becomes a folder": [
        {"a": "-> c", "c/b": "1"},
        {"a/b": "evil", "c/b": "1"},
        {"a": "-> c", "c/b": "1"},
    ],
    "a link becomes a file": [{"a": "-> c", "c": "1"}, {"a": "2", "c": "1"}],
    "a link leads elsewhere": [{"a": "-> c", "c/x": "1", "d/x": "2"}, {"a": "-> d", "c/x": "1", "d/x": "2"}],
    "only the mode changes": [{"a": "1"}, {"a": "* 1"}, {"a": "1"}],
    "only the case changes": [{"A/b": "1"}, {"a/b": "1"}, {"A/b": "1", "a/b": "2"}],
    "a folder has the name of a store": [{"x.git/config": "1"}, {"git/hooks/post-checkout": "* exit 1"}],
    "attributes in a folder": [{"a/b.txt": "1\n"}, {"a/b.txt": "1\n", "a/.gitattributes": "* eol=crlf\n"}],
    "attributes by a link": [
        {"b.txt": "1\n"},
        {"b.txt": "1\n", "x": "* eol=crlf\n", ".gitattributes": "-> x"},
    ],
    "attributes that go": [{"b": "1\n", ".gitattributes": "* eol=crlf\n"}, {"b": "1\n"}],
    "the same size": [{"a": "1234"}, {"a": "4321"}, {"a": "1234"}],
    "nothing is left": [{"a/b/c": "1", "d": "2"}, {"e": "3"}, {"a/b/c": "1"}],
}


def put(repository: Repository, tree: Tree) -> str:
    for path in repository.folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, text in tree.items():
        path = repository.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text.removeprefix("-> "))
            continue
        path.write_text(text.removeprefix("* "))
        path.chmod(0o755 if text.startswith("* ") else 0o644)
    return repository.commit()


def seen(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = f"{path.stat().st_mode & stat.S_IXUSR} {path.read_text()}"
        else:
            found[name] = "folder"
    return found


@pytest.fixture
async def fetches(tmp_path):
    made = Fetches(tmp_path)
    yield made
    await made.git.stop()


async def both(fetches: Fetches, repository: Repository, commit: str) -> tuple[Mapping[str, str], ...]:
    """The files of a commit: by a fetch that goes on with the copy, and by one that has none."""
    source = GitSource(url=repository.url, commit=commit)
    async with fetches.git.fetching(source, fetches.into, NAME):
        kept = seen(fetches.into)
        shutil.rmtree(fetches.into)
    await fetches.released()
    whole = fetches.into.with_name("whole")
    await fetches.git.fetch(source, whole)
    return kept, seen(whole)


@pytest.mark.parametrize("trees", PLACES.values(), ids=PLACES.keys())
async def test_an_incremental_fetch_equals_a_full_fetch_whatever_was_at_a_path_before(
    repository, fetches, trees
):
    for tree in trees:
        kept, whole = await both(fetches, repository, put(repository, tree))
        assert kept == whole
        assert {*tree} <= {*kept}
        assert (fetches.folder / "note").exists()  # the next fetch goes on with it


async def test_the_comparison_notices_a_file_planted_in_the_kept_copy(repository, fetches):
    """Negative control: the comparison finds a file that is not of the commit."""
    await both(fetches, repository, put(repository, {"a": "1"}))
    (fetches.folder / "copy" / "planted").write_text("")
    kept, whole = await both(fetches, repository, put(repository, {"a": "2"}))
    assert {*kept} - {*whole} == {"planted"}


async def test_a_refused_commit_leaves_no_kept_copy(repository, fetches, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("alive")
    await both(fetches, repository, put(repository, {"a/canary": "1"}))
    evil = put(repository, {"a": f"-> {outside}"})
    with pytest.raises(GitError, match="leads out of the repository"):
        await both(fetches, repository, evil)
    assert not (fetches.folder / "note").exists()
    kept, whole = await both(fetches, repository, put(repository, {"a/canary": "evil"}))
    assert kept == whole
    assert (outside / "canary").read_text() == "alive"


async def test_a_submodule_path_cannot_write_into_the_kept_copy(repository, fetches):
    head = put(repository, {"a": "1"})
    await both(fetches, repository, head)
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub/x")
    repository.git("commit", "--quiet", "--message", "A submodule")
    for commit in (repository.git("rev-parse", "HEAD"), put(repository, {"sub/x/y": "1", "a": "1"})):
        kept, whole = await both(fetches, repository, commit)
        assert kept == whole


@pytest.mark.parametrize("token", ["wrong", None])
async def test_fetching_a_commit_from_the_kept_copy_requires_the_repositorys_token(
    repository, server, fetches, token
):
    server.password = "right"
    commit = put(repository, {"a": "1"})
    url = server.url("shop.git/.git")
    for right in ("right", "right"):
        async with fetches.git.fetching(GitSource(url=url, commit=commit, token=right), fetches.into, NAME):
            pass
        await fetches.released()
    with pytest.raises(GitError):
        async with fetches.git.fetching(GitSource(url=url, commit=commit, token=token), fetches.into, NAME):
            pass
    assert not fetches.into.exists()
    assert not (fetches.folder / "note").exists()
