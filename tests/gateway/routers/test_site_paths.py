"""No request reaches a file that is not part of a site, however its path is written."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.routers.sites import FILES, serve, written
from tests.gateway.routers.town import request
from windlass.routers.builtin.site_pages import (
    LoadedSite,
    LocationAnswer,
    SitePage,
    decoded_path,
    encoded_target,
    with_query,
)
from windlass.routers.sites.index import SiteFile, SiteIndex, SiteRules, encode_index
from windlass.routers.sites.rules import HeaderRule, Redirect

SECRET = b"SECRET-OF-ANOTHER"
WAYS = [
    "/../secret.txt",
    "/docs/../../secret.txt",
    "/%2e%2e/secret.txt",
    "/%2E%2E%2Fsecret.txt",
    "/..%2fsecret.txt",
    "/..%5csecret.txt",
    "/..\\secret.txt",
    "/%252e%252e/secret.txt",
    "/..;/secret.txt",
    "/.%00./secret.txt",
    "/docs/%00/../../secret.txt",
    "/%c0%ae%c0%ae/secret.txt",
    "/%uff0e%uff0e/secret.txt",
    "//secret.txt",
    "/./../secret.txt",
    "/docs//../../secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/link.txt",
    "/links/secret.txt",
    "/.git/config",
    "/.env",
    "/%2eenv",
    "/docs/.hidden/x.txt",
    "/.well-known/.secret",
    "/release/index",
    "/_redirects",
    "/_headers",
    "/secret.txt",
    "/secret.txt%20",
    "/docs/..",
    "/docs/../.",
    "/docs/%2e%2e",
    "/*",
    "/%",
    "/%zz",
    "/" + "a/../" * 500 + "secret.txt",
]


@pytest.mark.parametrize("target", WAYS)
async def test_no_path_leads_out_of_a_site(town, tmp_path, target):
    built = tmp_path / "built"
    written(tmp_path, {"secret.txt": SECRET})
    written(built, {".git/config": SECRET, ".env": SECRET, "docs/.hidden/x.txt": SECRET, "_headers": SECRET})
    written(built, {".well-known/.secret": SECRET, "_redirects": "/old /new"})
    (built / "link.txt").symlink_to(tmp_path / "secret.txt")
    (built / "links").symlink_to(tmp_path)
    (built / "inner.txt").symlink_to(".env")
    await serve(town, tmp_path, FILES)
    said = await town.ask(request(target))
    assert said.status in {301, 404}
    assert SECRET not in said.body
    assert (await town.ask(request("/inner.txt"))).status == 404


async def test_well_known_files_and_symlinks_inside_the_site_are_served(town, tmp_path):
    built = written(tmp_path / "built", {".well-known/security.txt": b"mail us"})
    (built / "latest.txt").symlink_to("docs/plan b.txt")
    await serve(town, tmp_path)
    assert (await town.ask(request("/.well-known/security.txt"))).body == b"mail us"
    assert (await town.ask(request("/latest.txt"))).body == b"plan"


def site_of(*paths: str, **rules) -> LoadedSite:
    files = {path: SiteFile(path, 1, "text/html", 0) for path in paths}
    return LoadedSite("/release", SiteIndex(encode_index(files, SiteRules(**rules))))


NAMES = ["index.html", "a/index.html", "a/b.html", "é.txt", "a b", ".well-known/x", "%41"]
PIECES = [
    "/",
    ".",
    "..",
    "%2e",
    "%2F",
    "%5c",
    "\\",
    "%00",
    "%",
    "a",
    "b",
    "é",
    "%C3%A9",
    "index.html",
    "~",
    "?",
    ".git",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12))
def test_a_path_is_served_only_if_its_file_is_in_the_index(pieces):
    target = "/" + "".join(pieces)
    raw = target.encode("utf-8", "replace")
    page = site_of(*NAMES).find(raw, likes_html=True)
    if isinstance(page, SitePage):
        path = unquote(raw.partition(b"?")[0].decode())
        name = page.plain.path.removeprefix("/release/")
        assert name in NAMES
        assert path[1:] in {name, name.removesuffix(".html"), name.removesuffix("index.html")}
    elif isinstance(page, LocationAnswer):
        (location,) = re.findall("Location: ([^\r]*)\r\n", page.head.decode())
        assert location.startswith("/")
        assert not location.startswith("//")


@given(st.text(max_size=20))
def test_a_decoded_path_has_no_part_with_a_special_meaning(text):
    path = decoded_path(b"/" + quote(text, "/").encode())
    if path is not None:
        parts = path.split("/")
        assert not {".", ".."} & {*parts}
        assert all(part[:1] != "." or part == ".well-known" for part in parts)
        assert "\\" not in path
        assert "\0" not in path
        assert "//" not in path


@given(st.text(max_size=30), st.text(max_size=10))
def test_a_redirect_to_a_path_never_leaves_the_site_or_its_line(splat, query):
    rules = (Redirect("/*", "/:splat", 302, True),)
    page = site_of("index.html", redirects=rules).find(
        b"/" + quote(splat, "/").encode() + b"?" + quote(query).encode(), likes_html=False
    )
    if isinstance(page, LocationAnswer):
        (location,) = re.findall(rb"Location: ([^\r\n]*)\r\n", page.head)
        assert location.startswith(b"/")
        assert location[1:2] not in {b"/", b"\\"}


@pytest.mark.parametrize(
    ("target", "query", "result"),
    [
        ("//evil.example/", b"", "/evil.example/"),
        ("/\\evil.example", b"", "/%5Cevil.example"),
        ("/a b\r\nX: y", b"", "/a%20b%0D%0AX:%20y"),
        ("https://other.example/ä", b"", "https://other.example/%C3%A4"),
        ("/a", b"x=1", "/a?x=1"),
        ("/a?y", b"x=1", "/a?y"),
        ("/a#top", b"x=1", "/a?x=1#top"),
    ],
)
def test_a_redirect_target_is_encoded_and_gets_the_query(target, query, result):
    assert with_query(encoded_target(target), query) == result


async def test_long_paths_are_not_cached(town, tmp_path):
    await serve(town, tmp_path)
    caller = await town.caller()
    for number in range(50):
        said = await caller.ask(request(f"/?{number}"))
        assert said.status == 200
        await caller.ask(request(f"/{'x' * 3000}{number}"))
    (site,) = town.router._shared.sites.files.sites._values.values()
    assert len(site._pages) == 1
    await asyncio.sleep(0)


@pytest.mark.parametrize(("length", "most"), [(10, 1000), (100_000, 10)])
def test_cached_pages_are_limited_by_the_size_of_their_headers(length, most):
    site = site_of("index.html", headers=(HeaderRule("/*", (("X-Long", "x" * length),)),))
    targets = [
        "/"
        + "".join(
            f"%{ord(letter):x}" if number >> at & 1 else letter for at, letter in enumerate("index.html")
        )
        for number in range(1000)
    ]
    pages = [site.find(target.encode(), likes_html=True) for target in targets]
    assert all(isinstance(page, SitePage) and page.status == 200 for page in pages)
    kept = sum(site.kept(target.encode()) is not None for target in targets)
    assert 0 < kept <= most
    assert (kept == len(targets)) is (length == 10)
