"""Build caches: each belongs to one service, is kept by size and age, and not trusted after a kill."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from windlass.builders.builder import BuildError
from windlass.process.builds.cache_limits import CacheLimits, CacheUnit, size_of, units_to_erase
from windlass.process.builds.caches import CACHE_DELETED_WARNING, CacheStore

HOUR = 3600.0
NOTHING = CacheLimits(most_bytes=0)


@pytest.fixture
def store(tmp_path):
    return CacheStore(tmp_path, CacheLimits())


def use(store, org="acme", service="shop", *, downloads=(), ends=True, said=None):
    """A build that fills caches. One that does not end by itself leaves its mark."""
    lines = [] if said is None else said
    with store.using(org, service, Path("/nonexistent/home"), lines.append) as caches:
        had = sorted(path.name for path in caches.kept.iterdir())
        (caches.kept / "target").mkdir(exist_ok=True)
        (caches.kept / "target" / "file").write_bytes(b"x" * 8192)
        for name in downloads:
            (caches.downloads / name).mkdir(exist_ok=True)
            (caches.downloads / name / "file").write_bytes(b"x" * 8192)
        caches.is_whole = ends
    return had, caches


@pytest.mark.parametrize(
    ("limits", "erased"),
    [
        (CacheLimits(most_bytes=60, days=9), []),
        (CacheLimits(most_bytes=59, days=9), ["old"]),
        (CacheLimits(most_bytes=30, days=9), ["old", "middle"]),
        (CacheLimits(most_bytes=0, days=9), ["old", "middle", "new"]),
        (CacheLimits(most_bytes=60, days=2), ["old"]),
    ],
)
def test_caches_least_recently_used_or_too_old_are_evicted(limits, erased):
    now = 100 * 24 * HOUR
    units = [
        CacheUnit(Path("middle"), now - 24 * HOUR, 20),
        CacheUnit(Path("new"), now + 24 * HOUR, 30),
        CacheUnit(Path("old"), now - 72 * HOUR, 10),
    ]
    assert [unit.path.name for unit in units_to_erase(units, limits, now)] == erased


def test_the_size_of_a_cache_is_its_disk_usage_without_following_symlinks(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "a" / "link").symlink_to("/usr")
    assert 100_000 <= size_of(tmp_path) < 200_000


def test_a_build_finds_the_cache_of_the_last_build_of_its_service(store):
    assert use(store)[0] == []
    assert use(store)[0] == ["target"]
    assert use(store, service="other")[0] == []


def test_builds_of_a_service_at_the_same_time_are_in_different_folders(store):
    with store.using("acme", "shop", Path("/h"), print) as one:
        with store.using("acme", "shop", Path("/h"), print) as other:
            assert one.own != other.own
        one.is_whole = True
    with store.using("acme", "shop", Path("/h"), print) as again:
        assert again.own == one.own


def test_services_share_no_build_cache_folders(store):
    _, one = use(store, downloads=["go-mod"])
    others = [use(store, service="other")[1], use(store, "umbrella")[1]]
    assert [list(other.downloads.iterdir()) for other in others] == [[], []]
    assert len({caches.own for caches in (one, *others)}) == 3
    # Negative control: the next build of the same service finds them.
    assert list(use(store)[1].downloads.iterdir()) == [one.downloads / "go-mod"]


def test_kept_files_of_a_service_are_thrown_away_after_a_build_that_was_killed(store):
    use(store, downloads=["go-mod"])
    child = os.fork()
    if not child:
        with store.using("acme", "shop", Path("/nonexistent/home"), print):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    said: list[str] = []
    had, caches = use(store, said=said)
    assert had == []
    assert said == [CACHE_DELETED_WARNING]
    assert (caches.downloads / "go-mod" / "file").exists(), "tools lock and check their own"
    # Negative control: after a build that ended, they are used and nothing is said.
    assert use(store, said=said)[0] == ["target"]
    assert said == [CACHE_DELETED_WARNING]


def test_a_sweep_leaves_the_caches_that_a_build_uses(tmp_path):
    store, sweeper = CacheStore(tmp_path, NOTHING), CacheStore(tmp_path, NOTHING)
    use(store, downloads=["go-mod"])
    with store.using("acme", "shop", Path("/h"), print) as caches:
        sweeper.sweep()
        assert (caches.downloads / "go-mod").is_dir()
        assert (caches.kept / "target").is_dir()
        caches.is_whole = True
    # Negative control: the same sweep takes them when no build uses them.
    sweeper.sweep()
    assert not caches.own.parent.exists()
    assert use(store)[0] == []


def test_cache_eviction_for_one_organization_deletes_no_cache_of_another(tmp_path):
    store = CacheStore(tmp_path, CacheLimits(most_bytes=20_000))
    _, old = use(store, "acme", "old")
    _, new = use(store, "acme", "new", downloads=["go-mod"])
    _, other = use(store, "umbrella", downloads=["go-mod"])
    used = time.time() - HOUR
    os.utime(old.own.with_name("0.lock"), (used, used))
    store.sweep()
    assert [caches.own.exists() for caches in (old, new, other)] == [False, True, True]


def test_a_build_cache_sweep_does_not_delete_other_folders(tmp_path):
    (tmp_path / "cache" / "toolchains" / ".deps").mkdir(parents=True)
    os.utime(tmp_path / "cache" / "toolchains" / ".deps", (0, 0))
    CacheStore(tmp_path, NOTHING).sweep()
    assert (tmp_path / "cache" / "toolchains" / ".deps").is_dir()


@pytest.mark.parametrize("gone", ["cache/.services/acme", "cache"])
def test_a_sweep_continues_while_caches_vanish(tmp_path, monkeypatch, gone):
    """A service is deleted, and an operator makes room: each during a sweep."""
    store = CacheStore(tmp_path, NOTHING)
    use(store, service="a", downloads=["go-mod", "cargo"])
    use(store, service="b")
    use(store, "umbrella")

    def measure(path):
        shutil.rmtree(tmp_path / gone, ignore_errors=True)
        return size_of(path)

    monkeypatch.setattr("windlass.process.builds.caches.size_of", measure)
    store.sweep()
    assert not [*tmp_path.glob("cache/.services/*/*/0")]
    assert use(store)[0] == []


@pytest.mark.parametrize("failure", ["", "the step failed"])
def test_a_build_whose_caches_were_deleted_meanwhile_ends_with_its_own_result(store, tmp_path, failure):
    with (
        pytest.raises(BuildError, match=failure) if failure else nullcontext(),
        store.using("acme", "shop", Path("/h"), print),
    ):
        shutil.rmtree(tmp_path / "cache")
        if failure:
            raise BuildError(failure)
    assert use(store)[0] == []


def test_leftovers_of_an_interrupted_cache_sweep_are_deleted(tmp_path):
    (tmp_path / "cache" / ".gone-1" / "x").mkdir(parents=True)
    CacheStore(tmp_path, CacheLimits()).sweep()
    assert not (tmp_path / "cache" / ".gone-1").exists()


def test_throwing_away_a_damaged_cache_keeps_the_caches_of_other_tools(store):
    use(store, downloads=["go-mod", "cargo"])
    with store.using("acme", "shop", Path("/h"), print) as caches:
        caches.throw_away(["go-mod"])
        assert [path.name for path in caches.downloads.iterdir()] == ["cargo"]
        assert list(caches.kept.iterdir()) == []


def test_the_caches_of_a_deleted_service_are_erased(store):
    _, gone = use(store, service="gone", downloads=["go-mod"])
    _, stays = use(store, service="stays")
    store.discard("gone")
    assert not gone.own.exists()
    assert stays.own.exists()


async def test_a_build_leaves_no_source_in_its_cache_and_discarding_deletes_the_cache(site):
    artifact = await site.build({"main.py": "print(1)"})
    [own] = site.kept.glob("cache/.services/org/service/0")
    assert not (own / "source").exists()
    assert site.run(artifact) == "1"
    await site.builder.discard("service")
    assert not own.parent.exists()
