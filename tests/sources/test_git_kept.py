"""A fetch goes on with the copy that the last one has left, and gives the same files as a whole fetch."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.repositories import Repository
from windlass.base.atomic_files import write_whole
from windlass.sources.git import Git, GitSource
from windlass.sources.git.kept import KEPT_FOLDER, KeptCopy

NAME = "service"


class Fetches:
    """Fetches of one service."""

    def __init__(self, folder: Path) -> None:
        self.home, self.into = folder / "git", folder / "copies" / "one"
        self.git = Git(allow_local=True, outbound_allow=["127.0.0.0/8"], home=self.home)
        self.times: dict[str, int] = {}

    @property
    def folder(self) -> Path:
        return self.home / KEPT_FOLDER / NAME

    async def texts(self, repository: Repository, commit: str, url: str = "") -> dict[str, str]:
        """Returns the files of a commit; then does to them what a build may do."""
        async with self.git.fetching(GitSource(url=url or repository.url, commit=commit), self.into, NAME):
            texts = self.read()
            for path in [*self.into.rglob("*")]:
                if path.is_file():
                    path.write_text("changed by the build")
            (self.into / "made by the build").write_text("")
            shutil.rmtree(self.into)
        await self.released()
        return texts

    def read(self) -> dict[str, str]:
        files = {str(path.relative_to(self.into)): path for path in self.into.rglob("*") if path.is_file()}
        self.times = {name: path.stat().st_mtime_ns for name, path in files.items()}
        return {name: path.read_bytes().decode() for name, path in files.items()}

    async def released(self) -> None:
        """Waits until the copy is ready for the next fetch, or given up."""
        while (kept := KeptCopy.hold(self.home, NAME)) is None:  # noqa: ASYNC110 (a file lock)
            await asyncio.sleep(0.01)
        kept.close()


@pytest.fixture
async def fetches(tmp_path):
    made = Fetches(tmp_path)
    yield made
    await made.git.stop()


async def test_an_incremental_fetch_yields_exactly_the_files_of_the_commit(repository, fetches):
    first = repository.write(a__txt="1", gone__txt="2").put({"b/c.txt": "3"}).commit()
    (repository.folder / "gone.txt").unlink()
    later = repository.write(a__txt="new", d__txt="4").commit()
    of_first = {"a.txt": "1", "b/c.txt": "3", "gone.txt": "2"}
    assert await fetches.texts(repository, first) == of_first
    assert (fetches.folder / "note").exists()
    assert await fetches.texts(repository, later) == {"a.txt": "new", "b/c.txt": "3", "d.txt": "4"}
    assert await fetches.texts(repository, first) == of_first


async def test_an_incremental_fetch_changes_the_time_of_changed_files_only(repository, fetches):
    await fetches.texts(repository, repository.write(a__txt="1", b__txt="2").commit())
    before = fetches.times
    for text in ("3", "4"):
        await fetches.texts(repository, repository.write(a__txt=text).commit())
        assert fetches.times["b.txt"] == before["b.txt"]
        assert fetches.times["a.txt"] > before["a.txt"]
        before = fetches.times


async def test_an_incremental_fetch_transfers_only_changed_files(repository, server, fetches):
    url = server.url("shop.git/.git")
    await fetches.texts(repository, repository.put({"large": os.urandom(300_000).hex()}).commit(), url)
    first = server.sent
    assert first > 300_000
    await fetches.texts(repository, repository.write(a__txt="1").commit(), url)
    assert server.sent - first < 30_000


def plant(fetches: Fetches) -> None:
    """Puts a file into the copy, which shows where the copy is used."""
    (fetches.folder / "copy" / "planted.txt").write_text("")


async def test_a_complete_copy_is_used_by_the_next_fetch(repository, fetches):
    await fetches.texts(repository, repository.write(a__txt="first").commit())
    plant(fetches)
    assert "planted.txt" in await fetches.texts(repository, repository.write(a__txt="later").commit())


def without_note(fetches: Fetches) -> None:
    (fetches.folder / "note").unlink()


def of_another_start(fetches: Fetches) -> None:
    note = fetches.folder / "note"
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    write_whole(note, note.read_bytes().replace(boot, b"another"))


@pytest.mark.parametrize("spoil", [without_note, of_another_start])
async def test_a_kept_copy_left_by_a_kill_or_power_failure_is_not_used(repository, fetches, spoil):
    await fetches.texts(repository, repository.write(a__txt="first", b__txt="2").commit())
    plant(fetches)
    spoil(fetches)
    later = repository.write(b__txt="3").commit()
    assert await fetches.texts(repository, later) == {"a.txt": "first", "b.txt": "3"}


async def test_changed_gitattributes_are_applied_to_unchanged_files(repository, fetches):
    await fetches.texts(repository, repository.write(a__txt="1\n").commit())
    later = repository.put({".gitattributes": "*.txt eol=crlf\n"}).commit()
    assert (await fetches.texts(repository, later))["a.txt"] == "1\r\n"


async def test_two_fetches_at_the_same_time_do_not_share_a_copy(repository, fetches, tmp_path):
    first = repository.write(a__txt="1").commit()
    await fetches.texts(repository, first)
    later = repository.write(a__txt="2").commit()
    other = tmp_path / "copies" / "other"
    async with (
        fetches.git.fetching(GitSource(url=repository.url, commit=later), fetches.into, NAME),
        fetches.git.fetching(GitSource(url=repository.url, commit=first), other, NAME),
    ):
        assert fetches.read() == {"a.txt": "2"}
        assert (other / "a.txt").read_text() == "1"
        assert not (other / ".git").exists()
        assert not (fetches.into / ".git").exists()
    await fetches.released()


async def test_the_copy_of_another_repository_is_not_used(repository, fetches, tmp_path):
    await fetches.texts(repository, repository.write(a__txt="1").commit())
    plant(fetches)
    other = Repository(tmp_path / "other.git")
    assert await fetches.texts(other, other.write(b__txt="2").commit()) == {"b.txt": "2"}


async def test_a_damaged_kept_copy_of_a_repository_is_fetched_again(repository, fetches):
    await fetches.texts(repository, repository.write(a__txt="1", b__txt="2").commit())
    for pack in (fetches.folder / "copy" / ".git" / "objects" / "pack").iterdir():
        pack.chmod(0o600)
        if pack.suffix == ".pack":
            content = bytearray(pack.read_bytes())
            content[12:-20] = bytes(len(content) - 32)
            pack.write_bytes(content)
    later = repository.write(a__txt="3").commit()
    assert await fetches.texts(repository, later) == {"a.txt": "3", "b.txt": "2"}


async def test_the_copy_of_a_deleted_service_is_erased(repository, fetches):
    async with fetches.git.fetching(
        GitSource(url=repository.url, commit=repository.write(a__txt="1").commit()), fetches.into, NAME
    ):
        pass
    await fetches.git.discard(NAME)  # while it is prepared
    assert [*(fetches.home / KEPT_FOLDER).iterdir()] == []


async def test_copies_that_are_not_used_for_days_are_erased(repository, fetches):
    await fetches.texts(repository, repository.write(a__txt="1").commit())
    await fetches.git.sweep()
    assert (fetches.folder / "note").exists()
    long_ago = time.time() - 8 * 86_400
    os.utime(fetches.folder.with_name(f"{NAME}.lock"), (long_ago, long_ago))
    await fetches.git.sweep()
    assert [*(fetches.home / KEPT_FOLDER).iterdir()] == []


@pytest.mark.parametrize("kind", ["fetch", "fetching", "commits", "head"])
async def test_an_operator_may_delete_the_folder_of_copies_while_the_server_runs(repository, fetches, kind):
    """The manual says that it can be deleted: who needs room does that, and does not restart the server."""
    repository.write(a__txt="1").commit()
    source = GitSource(url=repository.url)
    first = await fetches.git.head(source)
    shutil.rmtree(fetches.home)
    if kind == "fetching":
        assert await fetches.texts(repository, first[1]) == {"a.txt": "1"}
    elif kind == "fetch":
        assert (await fetches.git.fetch(source, fetches.into)).id == first[1]
    elif kind == "commits":
        assert [commit.id for commit in await fetches.git.commits(source)] == [first[1]]
    else:
        assert await fetches.git.head(source) == first
    assert fetches.home.stat().st_mode & 0o077 == 0
