"""A server, its packages and its commands say which commit and which schema they are of."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.metrics.prometheus import measured, scraped, value
from tests.world import World, make_world
from windlass.base.commit import commit, commit_of
from windlass.base.version import VERSION
from windlass.cli.main import main
from windlass.config import Settings
from windlass.operate.backup import backup
from windlass.store.migrate import newest

BASE = Path(__file__).parents[2] / "packages/base"


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "First")
    return folder


def test_the_commit_of_a_checkout_is_that_of_its_branch(checkout: Path):
    first = commit_of(checkout)
    assert first == git(checkout, "rev-parse", "HEAD")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "Second")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD") != first


def test_the_commit_is_found_where_git_has_packed_its_branches(checkout: Path):
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git/refs/heads/main").exists()
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD")


def test_the_commit_of_a_detached_head_is_found(checkout: Path):
    git(checkout, "checkout", "-q", "--detach")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD")


def test_a_git_worktree_reports_its_own_commit_and_not_that_of_the_main_checkout(
    checkout: Path, tmp_path: Path
):
    git(checkout, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "Other")
    assert commit_of(tmp_path / "other") == git(tmp_path / "other", "rev-parse", "HEAD")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD")


@pytest.mark.parametrize("head", ["", "ref: refs/heads/gone", "no hash", "\xff"])
def test_a_folder_without_a_readable_git_head_has_no_commit(tmp_path: Path, head: str):
    assert commit_of(tmp_path) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text(head, encoding="latin-1")
    assert commit_of(tmp_path) == ""


def package(checkout: Path) -> Path:
    """A copy of the package that contains the commit, in a checkout."""
    copy = checkout / "packages/base"
    shutil.copytree(BASE, copy, ignore=shutil.ignore_patterns("__pycache__", "isolation"))
    return copy


def test_a_package_contains_the_commit_that_it_was_built_from(checkout: Path, tmp_path: Path):
    built(package(checkout), tmp_path, "wheel")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("windlass/base/commit.txt").decode().strip() == commit_of(checkout)


def test_a_wheel_that_is_built_from_a_source_package_keeps_its_commit(checkout: Path, tmp_path: Path):
    built(package(checkout), tmp_path, "sdist")
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "source")
    (unpacked,) = (tmp_path / "source").iterdir()
    built(unpacked, tmp_path, "wheel")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("windlass/base/commit.txt").decode().strip() == commit_of(checkout)


def built(folder: Path, into: Path, target: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_shown_with_commit_and_schema():
    shown = CliRunner().invoke(main, ["--version"]).output
    assert shown == f"windlass {VERSION} (commit {commit()}, schema {newest()})\n"


async def test_healthz_tells_version_and_commit(world: World):
    answer = await world.get("/healthz", token=None)
    assert answer.json == {"status": "ok", "version": VERSION, "commit": commit()}


async def test_the_metrics_tell_version_commit_and_schema(world: World):
    labels = {"version": VERSION, "commit": commit(), "schema": str(newest())}
    assert value(await scraped(world), "build_info", labels) == 1


async def test_the_metrics_tell_when_the_last_backup_was_made(tmp_path: Path):
    async with make_world(folder=tmp_path) as world:
        assert await measured(world, "last_backup_timestamp_seconds") == 0
        await backup(Settings(data_dir=str(tmp_path)), tmp_path / "one.zip", world.clock)
        assert await measured(world, "last_backup_timestamp_seconds") == world.clock.now() / 1000


def test_the_commit_is_read_on_first_use_and_not_at_import():
    code = (
        "import sys, pathlib; real = pathlib.Path.read_text; seen = []\n"
        "pathlib.Path.read_text = lambda self, *a, **k: (seen.append(self), real(self, *a, **k))[1]\n"
        "import windlass.install.installation, windlass.base.commit as c\n"
        "assert not [p for p in seen if '.git' in p.parts or p.name == 'commit.txt'], seen\n"
        "c.commit(); print(bool(seen))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "True\n"
