"""Commits are found, fetched and listed as repositories have them."""

from __future__ import annotations

import asyncio
import errno
import shutil

import pytest

from tests.repositories import Repository
from tests.sources.fetched import files
from windlass.sources.git import GitCommit, GitError, GitSource, fetch


async def test_the_head_of_a_branch_is_fetched_and_described(git, repository, into):
    repository.write(app="old").commit()
    repository.git("switch", "--quiet", "--create", "feature/new")
    head = repository.put({"app": "new", "deep/er/file": "x"}).commit("Add a file\n\nAnd say why.")
    repository.git("tag", "v1.2")
    repository.git("switch", "--quiet", "main")

    commit = await git.fetch(GitSource(repository.url, branch="feature/new"), into)

    assert commit == GitCommit(
        id=head,
        message="Add a file\n\nAnd say why.",
        author_name="Ada",
        author_email="ada@example.com",
        created_at=1_700_000_000_000,
        tag="v1.2",
    )
    assert files(into) == {"app", "deep/er/file"}
    assert (into / "app").read_text() == "new"


async def test_without_a_branch_the_default_branch_is_fetched(git, repository, into):
    repository.write(app="main").commit()
    repository.git("switch", "--quiet", "--create", "trunk")
    head = repository.write(app="trunk").commit()

    assert (await git.fetch(GitSource(repository.url), into)).id == head
    assert await git.head(GitSource(repository.url)) == ("trunk", head)


async def test_the_head_of_a_named_branch_is_read_without_fetching(git, repository):
    head = repository.commit()
    assert await git.head(GitSource(repository.url, branch="main")) == ("main", head)
    with pytest.raises(GitError, match="there is no branch old in file://"):
        await git.head(GitSource(repository.url, branch="old"))


async def test_an_annotated_tag_is_resolved_to_its_commit(git, repository, into):
    repository.commit()
    repository.git("tag", "--annotate", "--message", "Release", "v2")
    assert (await git.fetch(GitSource(repository.url), into)).tag == "v2"


@pytest.mark.parametrize("digits", [40, 10])
async def test_a_commit_is_fetched_by_its_id_or_the_first_digits_of_it(git, repository, into, digits):
    wanted = repository.write(app="wanted").commit()
    repository.write(app="newer").commit()

    commit = await git.fetch(GitSource(repository.url, branch="main", commit=wanted[:digits].upper()), into)

    assert commit.id == wanted
    assert (into / "app").read_text() == "wanted"


async def test_a_commit_is_fetched_from_a_server_that_serves_only_branches_and_tags(
    git, repository, server, into, refused
):
    server.newest_protocol = False  # the older ones give only what a branch or tag points at
    wanted = repository.write(app="wanted").commit()
    repository.write(app="newer").commit()
    repository.git("switch", "--quiet", "--create", "other", wanted)
    elsewhere = repository.write(app="elsewhere").commit()
    repository.commit()
    url = server.url("shop.git")

    told: list[str] = []
    assert (await git.fetch(GitSource(url, branch="main", commit=wanted), into, told.append)).id == wanted
    assert (into / "app").read_text() == "wanted"
    assert any("fetching the whole branch" in line for line in told)
    shutil.rmtree(into)
    said = await refused(git, GitSource(url, branch="main", commit=elsewhere))
    assert said.startswith("Choose another commit, or push this one: main of http://")
    assert f" has no {elsewhere}, or several" in said


async def test_a_repository_that_names_commits_by_sha_256_is_fetched_by_a_full_id(
    git, tmp_path, into, refused
):
    repository = Repository(tmp_path / "new", "--object-format=sha256")
    wanted = repository.write(app="x").commit()
    assert (await git.fetch(GitSource(repository.url, commit=wanted), into)).id == wanted
    shutil.rmtree(into)
    assert "names its commits by sha256" in await refused(git, GitSource(repository.url))


async def test_the_paths_changed_between_two_commits_are_listed_without_fetching_file_contents(
    git, repository
):
    repository.write(old__txt="1", same__txt="1").commit("before")
    before = repository.git("rev-parse", "HEAD")
    repository.put({"web/näme.html": "2", "old.txt": "2", "moved.txt": "1"}).commit("between")
    repository.git("rm", "-q", "same.txt")
    after = repository.commit("after")
    source = GitSource(repository.url)
    assert sorted(await git.changed_paths(source, before, after)) == [
        "moved.txt",
        "old.txt",
        "same.txt",
        "web/näme.html",
    ]
    assert await git.changed_paths(source, after, after) == []
    with pytest.raises(GitError):
        await git.changed_paths(source, "0" * 39 + "1", after)


async def test_the_newest_commits_are_listed_newest_first(git, repository):
    ids = [repository.commit(f"Change {number}") for number in range(5)]
    repository.git("tag", "first", ids[0])

    found = await git.commits(GitSource(repository.url), limit=3)
    assert [(each.id, each.message) for each in found] == [
        (ids[4], "Change 4"),
        (ids[3], "Change 3"),
        (ids[2], "Change 2"),
    ]
    assert [each.tag for each in await git.commits(GitSource(repository.url))] == ["", "", "", "", "first"]


async def test_a_missing_branch_commit_folder_or_repository_is_reported_by_name(
    git, repository, tmp_path, refused
):
    repository.commit()
    Repository(tmp_path / "empty")
    url = repository.url

    assert await refused(git, GitSource(url, branch="nope")) == (
        f"Choose another branch, or push this one: there is no branch nope in {url}."
    )
    assert await refused(git, GitSource(url, commit="0" * 40)) == (
        f"Choose another commit, or push this one: there is no commit {'0' * 40} in {url}."
    )
    assert " has no 0000000, or several that begin so" in await refused(git, GitSource(url, commit="0" * 7))
    assert "Push a commit first: " in await refused(git, GitSource(f"file://{tmp_path}/empty"))
    assert "there is no repository at" in await refused(git, GitSource(f"file://{tmp_path}/none"))


async def test_something_that_is_not_a_commit_is_refused(git, repository, refused):
    repository.write(app="x").commit()
    blob = repository.git("rev-parse", "HEAD:app")
    said = await refused(git, GitSource(repository.url, commit=blob))
    assert said == "This is not a commit."


async def test_the_root_path_must_be_a_folder_of_the_commit(git, repository, into, refused):
    repository.put({"services/api/app": "x"}).commit()
    for fine in ("/", "", "services", "/services/api/", "./services"):
        await git.fetch(GitSource(repository.url, root_path=fine), into)
    shutil.rmtree(into)
    for wrong in ("nope", "services/api/app", "/.git"):
        assert "root_path: there is no folder" in await refused(
            git, GitSource(repository.url, root_path=wrong)
        )
    for wrong in ("..", "/services/../..", "services/../services", "a\0b", "a\nb", "\ud800", "a" * 5000):
        assert "root_path: " in await refused(git, GitSource(repository.url, root_path=wrong))


async def test_fetching_again_replaces_the_folder(git, repository, into):
    repository.write(app="x").commit()
    into.mkdir(parents=True)
    (into / "left over").write_text("of an attempt that was killed")
    await git.fetch(GitSource(repository.url), into)
    assert files(into) == {"app"}


async def test_several_fetches_run_at_once(git, repository, tmp_path):
    head = repository.write(app="x").commit()
    found = await asyncio.gather(
        *(git.fetch(GitSource(repository.url), tmp_path / "copies" / str(number)) for number in range(4))
    )
    assert {each.id for each in found} == {head}


async def test_unusual_file_names_are_preserved_by_a_fetch(git, repository, into):
    names = {
        "-rf",
        "a\nb",
        'q"uote',
        "back\\slash",
        "ünïcödé",
        " space ",
        "$(touch x)",
        "%s",
        "a:b",
        "x" * 255,
    }
    repository.put(dict.fromkeys(names, "x")).commit()
    await git.fetch(GitSource(repository.url), into)
    assert files(into) == names


async def test_line_endings_and_modes_of_files_are_preserved_by_a_fetch(git, repository, into):
    repository.put(
        {"lf": "a\n", "crlf": b"a\r\n", "run.sh": "#!/bin/sh\n", ".gitattributes": "* text=auto\n"}
    )
    (repository.folder / "run.sh").chmod(0o755)
    repository.git("-c", "core.autocrlf=false", "add", "--all")
    repository.commit()
    await git.fetch(GitSource(repository.url), into)
    assert (into / "lf").read_bytes() == b"a\n"
    assert (into / "run.sh").stat().st_mode & 0o111
    assert not (into / "lf").stat().st_mode & 0o111


async def test_progress_is_logged_in_clean_lines(git, repository, server, tmp_path, into):
    loud = tmp_path / "loud"
    loud.write_text(
        '#!/bin/sh\nprintf "a\\033[31mred\\033[0m\\007\\000b\\r" >&2\n'
        'printf "\\033]0;title\\007c\\nd%0999d\\n" 0 >&2\n'
        'i=0; while [ $i -lt 900 ]; do echo again >&2; i=$((i+1)); done\nexec "$@"\n'
    )
    loud.chmod(0o755)
    server.environment = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "uploadpack.packObjectsHook",
        "GIT_CONFIG_VALUE_0": str(loud),
    }
    repository.commit()
    told: list[str] = []
    await git.fetch(GitSource(server.url("shop.git")), into, told.append)
    assert told
    assert all(line.isprintable() and len(line) <= 300 for line in told)
    assert "remote: again" in told
    assert len(told) <= 500


async def test_submodules_and_large_files_that_are_not_fetched_are_reported(git, repository, into):
    repository.write(__gitattributes="*.bin filter=lfs\n").commit()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/lib")
    repository.git("commit", "--quiet", "--message", "Add a submodule")
    told: list[str] = []
    await git.fetch(GitSource(repository.url), into, told.append)
    assert "The submodule vendor/lib is not fetched." in told
    assert any("Git LFS" in line for line in told)
    assert list((into / "vendor" / "lib").iterdir()) == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "/srv/secret/copy"),
            r"\(copy: Permission denied\)",
        ),
        (OSError(errno.EIO, "Input/output error"), r"\(Input/output error\)"),
        (OSError(errno.ENOSPC, "No space left on device"), "[Dd]isk"),
    ],
)
async def test_a_local_error_during_a_fetch_is_reported_without_paths_and_logged(
    git, repository, into, monkeypatch, caplog, error, said
):
    repository.commit()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(fetch, "Copy", fail)
    with pytest.raises(GitError, match=said) as failed:
        await git.fetch(GitSource(repository.url), into)
    assert "secret" not in str(failed.value)
    assert ("was not fetched" in caplog.text) == (error.errno != errno.ENOSPC)
