"""The files of a build are put in place for a router: whole, each content once, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import socket
from pathlib import Path

import pytest

from tests.gateway.routers.sites import FILES, SCRIPT, made, written
from windlass.base import disk_reserve
from windlass.base.disk_reserve import DiskSpace
from windlass.routers.builtin.site_pages import LoadedSite, SitePage
from windlass.routers.sites import publish as publishing
from windlass.routers.sites import store as storing
from windlass.routers.sites.index import (
    GZIP_SUFFIX,
    INDEX_FILE,
    SiteFile,
    SiteIndex,
    SiteRules,
    encode_index,
    read_index,
)
from windlass.routers.sites.publish import PublishError, SiteSettings, publish
from windlass.routers.sites.rules import MAX_RULES_BYTES
from windlass.routers.sites.store import SiteStore, release_name

PLAIN = SiteSettings()


def found(release: Path, path: str) -> SiteFile:
    file = read_index(release).find(path)
    assert file is not None
    return file


def test_files_with_equal_contents_are_stored_once(tmp_path):
    release, report = made(tmp_path, {"a.js": SCRIPT, "b/c.js": SCRIPT, "d.txt": b"d"})
    first, second, other = (found(release, path) for path in ("a.js", "b/c.js", "d.txt"))
    assert first.digest == second.digest
    digests = {first.digest, other.digest}
    assert {file.name for file in release.iterdir()} == {INDEX_FILE, first.digest + GZIP_SUFFIX, *digests}
    assert gzip.decompress((release / (first.digest + GZIP_SUFFIX)).read_bytes()) == SCRIPT
    assert (report.files, report.bytes) == (3, 2 * len(SCRIPT) + 1)


def test_a_compressed_copy_is_made_only_where_it_is_smaller(tmp_path):
    noise = os.urandom(5000)
    release, _ = made(
        tmp_path, {"small.js": b"x", "noise.js": noise, "photo.png": b"x" * 5000, "big.js": b"x" * 5000}
    )
    names = ("small.js", "noise.js", "photo.png", "big.js")
    assert [name for name in names if found(release, name).gzip] == ["big.js"]


def test_a_new_release_shares_equal_contents_with_the_former_one(tmp_path):
    former, _ = made(tmp_path / "one", {"app.js": SCRIPT, "index.html": b"one"})
    new = tmp_path / "new"
    new.mkdir()
    publish(written(tmp_path / "two", {"app.js": SCRIPT, "index.html": b"two"}), PLAIN, new, former)
    digest = found(new, "app.js").digest
    for name in (digest, digest + GZIP_SUFFIX):
        assert (new / name).stat().st_ino == (former / name).stat().st_ino
    assert not (new / found(former, "index.html").digest).exists()


def test_a_release_shares_no_inode_with_its_build(tmp_path):
    release, _ = made(tmp_path, FILES)
    inodes = {file.stat().st_ino for file in release.iterdir()}
    assert not inodes & {file.stat().st_ino for file in (tmp_path / "built").rglob("*")}


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "loop", "dangling", "out", "hidden", "folder"])
def test_only_regular_files_inside_the_build_folder_are_published(tmp_path, kind):
    built = written(tmp_path / "built", {"index.html": b"x", ".env": b"SECRET", "docs/a.txt": b"a"})
    (tmp_path / "secret").write_bytes(b"SECRET")
    odd = built / "odd"
    match kind:
        case "fifo":
            os.mkfifo(odd)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(odd))
        case "device":
            odd.symlink_to("/dev/zero")
        case "loop":
            odd.symlink_to("odd")
        case "dangling":
            odd.symlink_to("nothing")
        case "out":
            odd.symlink_to("../secret")
        case "hidden":
            odd.symlink_to(".env")
        case "folder":
            odd.symlink_to("docs")
    release, report = made(tmp_path, {})
    assert read_index(release).find("odd") is None
    assert report.files == 2
    assert report.left_out == 2  # and .env
    assert not any(b"SECRET" in file.read_bytes() for file in release.iterdir())


def test_a_chain_of_too_many_symlinks_is_not_published(tmp_path):
    source = written(tmp_path / "source", {"l1500": b"end", "index.html": b"page"})
    for number in range(1500):
        (source / f"l{number}").symlink_to(f"l{number + 1}")
    (tmp_path / "into").mkdir()
    report = publish(source, PLAIN, tmp_path / "into")
    assert found(tmp_path / "into", "index.html").size == 4
    assert found(tmp_path / "into", "l1499").size == 3  # the control: a short way
    assert read_index(tmp_path / "into").find("l0") is None
    assert report.left_out == 1500 - 40
    (tmp_path / "other").mkdir()
    with pytest.raises(PublishError, match="Change static_folder"):
        publish(source / "l0", PLAIN, tmp_path / "other")


def test_a_file_replaced_by_a_symlink_during_publishing_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"SECRET")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        publishing._open(tmp_path / "link")
    os.close(publishing._open(tmp_path / "secret"))


@pytest.mark.parametrize("name", [b"\xff.txt", b"a\nb.txt", b"a\\b.txt", b".hidden"])
def test_a_file_name_that_no_url_can_contain_is_left_out(tmp_path, name):
    built = written(tmp_path / "built", {"index.html": b"x"})
    (built / os.fsdecode(name)).write_bytes(b"x")
    release, report = made(tmp_path, {})
    assert (len(read_index(release)), report.left_out) == (1, 1)


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "MAX_FILES", 3)
    made(tmp_path / "few", {f"{number}.txt": b"x" for number in range(3)})
    with pytest.raises(PublishError, match="Keep the static folder below 3 files"):
        made(tmp_path / "many", {f"{number}.txt": b"x" for number in range(4)})


def test_too_large_sites_are_refused_before_they_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "MAX_SITE_BYTES", 3_000_000)
    built = written(tmp_path / "built", {"index.html": b"x"})
    with (built / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)
    into = tmp_path / "release"
    into.mkdir()
    with pytest.raises(PublishError, match="Keep the static folder below"):
        publish(built, PLAIN, into)
    assert sum(file.stat().st_size for file in into.iterdir()) < 5_000_000


@pytest.mark.parametrize(
    ("files", "fallback"),
    [(("index.html",), "index.html"), (("index.html", "404.html"), ""), (("app.js",), "")],
    ids=["its page is there", "it has a page for this", "its page is missing"],
)
def test_a_derived_fallback_page_is_used_only_if_the_site_has_none(tmp_path, files, fallback):
    release, _ = made(tmp_path, dict.fromkeys(files, b"x"), derived_fallback="index.html")
    assert read_index(release).rules.fallback == fallback


def test_a_redirects_file_over_the_size_limit_is_ignored_and_reported(tmp_path):
    built = written(tmp_path / "built", {"index.html": b"x"})
    with (built / "_redirects").open("wb") as file:
        file.truncate(1 << 40)
    (built / "_headers").write_text("/*\n  X: " + "y" * MAX_RULES_BYTES)
    release, report = made(tmp_path, {})
    assert read_index(release).rules == SiteRules()
    assert [line.split(" ")[0] for line in report.problems] == ["_redirects", "_headers"]


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ({".env": b"x"}, {}, "Build a page into the static folder"),
        ({"a.html": b"x"}, {"fallback": "index.html"}, "Build a page index.html, or change static_fallback"),
    ],
)
def test_a_build_that_cannot_be_served_is_refused_with_advice(tmp_path, files, settings, message):
    with pytest.raises(PublishError, match=message):
        made(tmp_path, files, **settings)


def test_a_missing_folder_is_refused_with_advice(tmp_path):
    with pytest.raises(PublishError, match="Change static_folder, or the build command"):
        publish(tmp_path / "none", PLAIN, tmp_path)


def test_the_site_index_finds_exactly_the_published_files():
    files = {
        f"{folder}/{name}{end}": SiteFile(f"{folder}{name}", name, "text/plain", 0)
        for folder in "abc"
        for name in range(300)
        for end in ("", "/x", ".js")
    }
    index = SiteIndex(encode_index(files, SiteRules()))
    assert {path: index.find(path) for path in files} == files
    assert [index.find(path) for path in ("", "a", "a/", "a/1/", "d/1", "a/300", "a/1\0", "c/99.jsx")] == [
        None
    ] * 8
    with pytest.raises(ValueError, match="another version"):
        SiteIndex(encode_index(files, SiteRules()).replace(b"\x94\x01", b"\x94\x02", 1))


# The store


async def put(store: SiteStore, files, service="shop", settings=PLAIN, name=None):
    async def export(into):
        await asyncio.sleep(0)
        return written(into / "dist", files)

    release = name or release_name(repr(files), settings)
    return release, await store.put(service, release, settings, export)


async def test_a_release_is_published_atomically_and_only_once(tmp_path):
    store = SiteStore(tmp_path / "sites")
    (release, first), (same, second) = await put(store, FILES), await put(store, FILES)
    assert (release == same, first is None, second) == (True, False, None)
    assert await store.find("shop", release) == store.at("shop", release)
    assert await store.find("blog", release) is None
    assert [entry.name for entry in (tmp_path / "sites/shop").iterdir()] == [release]


async def test_a_release_published_twice_at_once_is_stored_once(tmp_path):
    store = SiteStore(tmp_path / "sites")
    made = [report for _, report in await asyncio.gather(*(put(store, FILES) for _ in range(5)))]
    assert [report is None for report in made].count(False) == 1


async def test_two_processes_may_publish_the_same_site(tmp_path):
    stores = [SiteStore(tmp_path / "sites") for _ in range(2)]
    results = await asyncio.gather(*(put(store, FILES) for store in stores))
    release = results[0][0]
    assert [entry.name for entry in (tmp_path / "sites/shop").iterdir()] == [release]
    assert read_index(stores[0].at("shop", release)).find("index.html")


async def test_an_interrupted_release_is_published_again(tmp_path):
    store = SiteStore(tmp_path / "sites")
    release = release_name(repr(FILES), PLAIN)
    written(store.at("shop", release), {"0123": b"no index"})
    written(tmp_path / "sites/shop/.new-1", {"0123": b"x"})
    assert await store.find("shop", release) is None
    await put(store, FILES)
    assert await store.find("shop", release)
    await store.prune("shop", {release})
    assert [entry.name for entry in (tmp_path / "sites/shop").iterdir()] == [release]


async def test_no_release_is_put_in_place_below_the_reserve_of_the_disk(tmp_path, monkeypatch):
    store = SiteStore(tmp_path / "sites", 1 << 20)
    short = [DiskSpace("bytes", free=0, whole=100 << 20, reserve=1 << 20)]
    with monkeypatch.context() as patched:
        patched.setattr(disk_reserve, "disk_spaces", lambda folder, wanted: short)
        with pytest.raises(
            PublishError, match="Ask the operator to free disk space, or to lower disk_reserve_bytes"
        ):
            await put(store, FILES)
    assert not list((tmp_path / "sites/shop").iterdir())
    await put(store, FILES)


async def test_a_publication_that_uses_up_the_reserve_of_the_disk_is_ended(tmp_path, monkeypatch):
    """A file that is one hole costs a build nothing, and its copy has its whole size."""
    monkeypatch.setattr(publishing, "_CHECKED_BYTES", 1)
    store = SiteStore(tmp_path / "sites", 1 << 20)
    free = iter([100 << 20])  # at the beginning
    monkeypatch.setattr(
        disk_reserve,
        "disk_spaces",
        lambda *_: [DiskSpace("bytes", free=next(free, 0), whole=100 << 20, reserve=1 << 20)],
    )
    with pytest.raises(PublishError, match="Ask the operator to free disk space"):
        await put(store, FILES)
    assert not list((tmp_path / "sites/shop").iterdir())


async def test_a_publication_that_fails_on_a_full_disk_leaves_no_files(tmp_path, monkeypatch):
    store = SiteStore(tmp_path / "sites")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storing, "sync_file_system", full)
    with pytest.raises(PublishError, match=r"Ask the operator to free disk space.*full") as refused:
        await put(store, FILES)
    assert str(tmp_path) not in str(refused.value)
    assert [*(tmp_path / "sites/shop").iterdir()] == []


async def test_pruning_keeps_only_the_named_releases(tmp_path):
    store = SiteStore(tmp_path / "sites")
    releases = [(await put(store, {"index.html": text}))[0] for text in (b"1", b"2", b"3")]
    await put(store, FILES, "blog", name="blog-1")
    await store.prune("shop", releases[1:])
    assert [bool(await store.find("shop", release)) for release in releases] == [False, True, True]
    await store.discard("shop")
    assert await store.services() == ["blog"]
    assert await store.find("blog", "blog-1")


@pytest.mark.parametrize("service", ["", ".", "..", "../other", "a/b"])
async def test_discarding_a_service_with_an_unusual_name_deletes_no_other_site(tmp_path, service):
    store = SiteStore(tmp_path / "sites")
    await put(store, FILES, name="one")
    await store.discard(service)
    assert await store.find("shop", "one")


async def test_a_site_that_was_set_aside_can_be_restored(tmp_path):
    store = SiteStore(tmp_path / "sites")
    await put(store, FILES, name="one")
    await store.set_aside("shop", tmp_path / "aside")
    assert await store.services() == []
    await store.put_back("shop", tmp_path / "aside")
    assert await store.find("shop", "one")
    await store.sweep(["shop"])
    assert await store.services() == []


def test_a_release_has_the_name_of_its_artifact_and_settings():
    names = {
        release_name("a", PLAIN),
        release_name("b", PLAIN),
        release_name("a", SiteSettings(fallback="index.html")),
        release_name("a", SiteSettings(folder="dist")),
    }
    assert len(names) == 4
    assert release_name("a", SiteSettings()) in names


def test_a_file_with_an_unrepresentable_modification_time_is_served(tmp_path):
    source = written(tmp_path / "build", {"index.html": b"x"})
    os.utime(source / "index.html", (2**40, 2**40))
    new = tmp_path / "new"
    new.mkdir()
    publish(source, PLAIN, new)
    site = LoadedSite(str(new), read_index(new))
    assert isinstance(site.find(b"/", likes_html=True), SitePage)
