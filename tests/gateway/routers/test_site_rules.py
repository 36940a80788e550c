"""The files `_redirects` and `_headers` are followed, and lines that cannot be followed are named."""

from __future__ import annotations

import itertools

import pytest

from tests.gateway.routers.sites import FILES, PAGE, serve
from tests.gateway.routers.town import request
from tests.tables import rows
from windlass.base.http_in.own_headers import GATEWAY_HEADERS
from windlass.routers.sites.media_types import media_type
from windlass.routers.sites.patterns import PathPattern, PatternTable, fill
from windlass.routers.sites.publish import has_content_hash
from windlass.routers.sites.rules import (
    MAX_FIELDS,
    MAX_HEADER_RULES,
    MAX_PATTERNS,
    MAX_PROBLEMS,
    MAX_REDIRECTS,
    HeaderRule,
    field_problem,
    parse_headers,
    parse_redirects,
)

REDIRECTS = """
# moved pages
/old            /about
/news/*         /blog/:splat          302
/u/:name/posts  /authors/:name?all=1  308
/docs/*         /elsewhere            # a comment is no status
/out            https://other.example/x
/away/*         https://other.example:8443/:splat
/app.js         /nowhere              301!
/shown/*        /about                200
/gone/*         /about                410
/same           /same
"""


@pytest.mark.parametrize(
    ("target", "status", "location"),
    [
        ("/old", 301, "/about"),
        ("/old/", 301, "/about"),
        ("/old?a=b", 301, "/about?a=b"),
        ("/news/2026/may?x", 302, "/blog/2026/may?x"),
        ("/news", 302, "/blog/"),
        ("/u/ada/posts?x=1", 308, "/authors/ada?all=1"),
        ("/out", 301, "https://other.example/x"),
        ("/away/@evil.example", 301, "https://other.example:8443/@evil.example"),
        ("/app.js", 301, "/nowhere"),
    ],
)
async def test_a_redirect_is_followed(town, tmp_path, target, status, location):
    await serve(town, tmp_path, {**FILES, "_redirects": REDIRECTS})
    said = await town.ask(request(target))
    assert (said.status, said.fields["location"]) == (status, location)


@pytest.mark.parametrize(
    ("target", "status", "body"),
    [
        ("/shown/x", 200, FILES["about.html"]),
        ("/gone/x", 410, FILES["about.html"]),
        ("/docs/", 200, FILES["docs/index.html"]),
        ("/", 200, PAGE),
    ],
)
async def test_a_rewrite_serves_another_page_unless_the_path_is_a_file(town, tmp_path, target, status, body):
    await serve(town, tmp_path, {**FILES, "_redirects": REDIRECTS})
    said = await town.ask(request(target))
    assert (said.status, said.body) == (status, body)


async def test_a_single_page_application_rewrite_serves_index_html_for_unknown_paths(town, tmp_path):
    await serve(town, tmp_path, {**FILES, "_redirects": "/* /index.html 200"})
    assert (await town.ask(request("/deep/link"))).body == PAGE
    assert (await town.ask(request("/about"))).body == FILES["about.html"]


async def test_declared_fields_are_in_answers_for_their_paths(town, tmp_path):
    declared = (
        "/*\n  X-Frame-Options: DENY\n  Link: a\n  Link: b\n"
        "/docs/*\n  Cache-Control: max-age=60\n  X-Frame-Options: SAMEORIGIN\n"
    )
    rule = HeaderRule("/about", (("Content-Security-Policy", "default-src 'self'"),))
    await serve(town, tmp_path, {**FILES, "_headers": declared}, headers=(rule,))
    page, docs, about, missing = [
        await town.ask(request(path)) for path in ("/", "/docs/", "/about", "/none")
    ]
    assert (page.fields["x-frame-options"], page.fields["link"]) == ("DENY", "a, b")
    assert "content-security-policy" not in page.fields
    assert (docs.fields["x-frame-options"], docs.fields["cache-control"]) == ("SAMEORIGIN", "max-age=60")
    assert about.fields["content-security-policy"] == "default-src 'self'"
    assert missing.status == 404


@rows(
    ("line", "why"),
    [
        ("/old", "write a path, a target"),
        ("old /new", "begin it with a path"),
        ("/a/*/b/* /new", "begin it with a path"),
        ("https://x.example/* /new", "begin it with a path"),
        ("/old id=:id /new", "conditions on the query"),
        ("/old /new 301 Country=au", "conditions are not supported"),
        ("/old /new 999", "use one of the statuses"),
        ("/old /new abc", "use one of the statuses"),
        ("/old https://other.example/ 200", "other servers"),
        ("/old javascript:alert(1)", "write a path or an address"),
        ("/old " + "/x" * 2000, "write a path"),
        ("/old/* https://shop.example:splat", "without names"),
        ("/old/* https://:splat", "without names"),
        ("/old/:a https://:a.example/", "without names"),
        ("/old/* https://shop.example@:splat/", "without names"),
    ],
)
def test_an_invalid_redirects_line_is_reported_with_its_number_and_skipped(line, why):
    parsed = parse_redirects(f"/fine /ok\n{line}\n/also /ok 302")
    assert [redirect.path for redirect in parsed.redirects] == ["/fine", "/also"]
    (problem,) = parsed.problems
    assert problem.startswith("_redirects, line 2: ")
    assert why in problem


@rows(
    ("line", "why"),
    [
        ("  no colon", "write a name, a colon and a value"),
        ("  : x", "no name"),
        ("  X Y: x", "no name"),
        ("  X: a\x01b", "characters"),
        ("  X: \u2603", "characters"),
        *((f"  {name.title()}: 1", "writes the field") for name in sorted(GATEWAY_HEADERS)),
    ],
)
def test_an_invalid_header_line_is_reported_with_its_number_and_skipped(line, why):
    parsed = parse_headers(f"/*\n  X-One: 1\n{line}\n  X-Two: 2")
    assert parsed.headers == (HeaderRule("/*", (("X-One", "1"), ("X-Two", "2"))),)
    (problem,) = parsed.problems
    assert problem.startswith("_headers, line 3: ")
    assert why in problem


def test_a_line_break_in_a_value_ends_the_value():
    (rule,) = parse_headers("/*\n  X: a\rSet-Cookie: b").headers
    assert rule.fields == (("X", "a"),)
    assert field_problem("X", "a\r\nSet-Cookie: b")
    assert not field_problem("X", 'a; b="c"')


def test_the_number_of_redirect_and_header_rules_of_a_site_is_limited():
    redirects = parse_redirects("\n".join(f"/{number} /x" for number in range(MAX_REDIRECTS + 5)))
    assert len(redirects.redirects) == MAX_REDIRECTS
    patterns = parse_redirects("\n".join(f"/{number}/* /x" for number in range(MAX_PATTERNS + 5)))
    assert len(patterns.redirects) == MAX_PATTERNS
    headers = parse_headers("\n".join(f"/{number}\n  X: 1" for number in range(MAX_HEADER_RULES + 5)))
    assert len(headers.headers) == MAX_HEADER_RULES
    fields = parse_headers("/*\n" + "\n".join(f"  X-{number}: 1" for number in range(MAX_FIELDS + 5)))
    assert len(fields.headers[0].fields) == MAX_FIELDS
    assert [len(found.problems) for found in (redirects, patterns, headers, fields)] == [1, 1, 1, 5]
    assert len(parse_redirects("x\n" * 5000).problems) == MAX_PROBLEMS


@rows(
    ("pattern", "path", "values"),
    [
        ("/a", "/a", {}),
        ("/a", "/a/", {}),
        ("/a/", "/a", {}),
        ("/a", "/ab", None),
        ("/", "/", {}),
        ("/:x", "/a", {"x": "a"}),
        ("/:x", "/", None),
        ("/:x", "/a/b", None),
        ("/:x/b/:y", "/a/b/c", {"x": "a", "y": "c"}),
        ("/*", "/", {"splat": ""}),
        ("/*", "/a/b", {"splat": "a/b"}),
        ("/*.jpg", "/a/b.jpg", {"splat": "a/b"}),
        ("/*.jpg", "/.jp", None),
        ("/a/*", "/a", {"splat": ""}),
        ("/a/*", "/ab", None),
        ("/a/:x/*", "/a/b/c/d", {"x": "b", "splat": "c/d"}),
        ("/a*a", "/a", None),
        ("/a:x", "/a:x", {}),
    ],
)
def test_a_path_pattern_matches_only_its_paths_and_returns_the_placeholders(pattern, path, values):
    assert PathPattern(pattern).match(path) == values


def test_placeholder_values_are_percent_encoded_in_a_redirect_target():
    values = {"x": "a b", "splat": "é/?#"}
    assert fill("/to/:x/:other?:splat", values, 100) == "/to/a%20b/:other?%C3%A9/%3F%23"
    assert fill("https://host:8080/:x", {"x": "1"}, 100) == "https://host:8080/1"


def test_a_redirect_target_ends_at_its_limit():
    values = {"x": "é" * 10, "y": "y" * 10}
    target = "/" + ":x" * 20 + "/:y"
    full = fill(target, values, 10_000)
    assert full is not None
    assert fill(target, values, len(full)) == full
    assert fill(target, values, len(full) - 1) is None
    assert fill("/:x", {"x": "x" * 20_000}, 10_000) is None


# The limit of time is the negative control: without the limits, one request takes many minutes.
@pytest.mark.timeout(20)
@pytest.mark.parametrize("status", [302, 200])
async def test_redirects_that_would_make_a_long_path_much_longer_do_not_delay_the_gateway(
    town, tmp_path, status
):
    line = f'/b/:x /{":x" * 900}" {status}'
    lines = "\n".join([line] * MAX_PATTERNS)
    await serve(town, tmp_path, {**FILES, "_redirects": lines})
    assert (await town.ask(request("/b/" + '"' * 15_000))).status == 404


@pytest.mark.timeout(20)
async def test_a_path_for_which_many_rules_add_headers_gets_a_limited_number(town, tmp_path):
    many = "".join(
        "/*\n" + "".join(f"  X-{rule}-{field}: 1\n" for field in range(MAX_FIELDS))
        for rule in range(MAX_HEADER_RULES - 1)
    )
    await serve(
        town, tmp_path, {**FILES, "404.html": b"gone", "_headers": f"{many}/*\n  X-0-0: 2\n  X-New: 1"}
    )
    for _ in range(200):
        said = await town.ask(request("/nothing"))
    fields = [name for name in said.fields if name.startswith("x-")]
    assert len(fields) == 100
    assert said.fields["x-0-0"] == "2"  # a later rule still replaces a value
    assert "x-new" not in fields


async def test_the_first_rewrite_whose_page_exists_applies(town, tmp_path):
    missing = "\n".join(f"/b/* /missing-{number} 200" for number in range(9))
    await serve(town, tmp_path, {**FILES, "_redirects": f"{missing}\n/b/* /about 200"})
    assert (await town.ask(request("/b/x"))).body == FILES["about.html"]


async def test_a_redirect_target_over_the_length_limit_is_answered_with_404(town, tmp_path):
    await serve(town, tmp_path, {**FILES, "_redirects": "/b/* /" + ":splat" * 300})
    said = await town.ask(request("/b/" + "x" * 10_000))
    assert said.status == 404
    assert (await town.ask(request("/b/x"))).fields["location"] == "/" + "x" * 300


@rows(
    "path",
    [
        "assets/index-B3vCqM1h.js",
        "assets/index-D9x_kQ2a.css",
        "static/js/main.3f2a1b9c.js",
        "static/js/main.3f2a1b9c.js.map",
        "static/media/logo.6ce24c58023cc2f8fd88fe9d219db6c6.svg",
        "main-5QKZ3W7Y.js",
        "chunk.4bd1b696-a8e3c0f2.js",
        "_next/static/abc/_buildManifest.js",
        "_astro/hoisted.abc.js",
        "_app/immutable/entry/start.js",
    ],
)
def test_a_name_with_a_digest_is_recognized(path):
    assert has_content_hash(path)


@rows(
    "path",
    [
        "index.html",
        "app.js",
        "jquery-3.4.1.min.js",
        "report-20240115.png",
        "photo-1280x720.jpg",
        "img/IMG_20240115.jpg",
        "user-settings.js",
        "my-JavaScript.js",
        "hero-iPhone15.png",
        "my-chapter12.png",
        "feed2024.js",
        "page-decade80.js",
        "deadbeef.js",
        "3f2a1b9c.js",
        "data-3f2a1b9c.json",
        "page-3f2a1b9c.html",
        "manual-3f2a1b9c.pdf",
        "assets/logo.svg",
        "x/_next/static/a.js",
        "bootstrap-v5beta12.js",
    ],
)
def test_a_file_name_without_a_certain_content_hash_is_not_immutable(path):
    assert not has_content_hash(path)


@rows(
    ("path", "kind"),
    [
        ("a.HTML", "text/html; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml; charset=utf-8"),
        ("a.wasm", "application/wasm"),
        ("a.woff2", "font/woff2"),
        ("a.tar.gz", "application/gzip"),
        ("a.b/c", "application/octet-stream"),
        ("README", "application/octet-stream"),
    ],
)
def test_the_content_type_of_a_static_file_is_derived_from_its_name(path, kind):
    assert media_type(path) == kind


TEXTS = (
    "/", "/a", "/a/", "/a/b", "/a/b/", "/:x", "/a/:x", "/:x/b", "/a/:x/c", "/*", "/a*", "/a/*", "/a/b/*",
    "/a/*.html", "/:x/*", "/a/:x/*", "*", "/a", "/a/b*c",
)  # fmt: skip
PARTS = ("", "/", "a", "b", "c", "ab", ".html")


def test_the_pattern_table_returns_every_matching_pattern_in_order():
    patterns = [PathPattern(text) for text in TEXTS]
    table = PatternTable(patterns)
    for parts in itertools.product(PARTS, repeat=5):
        path = f"/{''.join(parts)}"
        offered = table.candidates(path)
        assert offered == sorted(offered)
        every = [number for number, pattern in enumerate(patterns) if pattern.match(path) is not None]
        assert [number for number in offered if patterns[number].match(path) is not None] == every, path


def test_the_pattern_table_returns_few_candidates_among_thousands_of_patterns():
    texts = [f"/old/{number}" for number in range(1000)] + [f"/blog/{number}/*" for number in range(1000)]
    table = PatternTable(map(PathPattern, [*texts, "/*"]))
    assert table.candidates("/nothing/here") == [2000]
    assert table.candidates("/old/7") == [7, 2000]
    assert table.candidates("/blog/7/page") == table.candidates("/blog/7") == [1007, 2000]
