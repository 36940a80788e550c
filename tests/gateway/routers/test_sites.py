"""A static site is served by the router from the files of its release."""

from __future__ import annotations

import gzip

import pytest

from tests.gateway.routers.sites import FILES, PAGE, SCRIPT, serve
from tests.gateway.routers.town import request, route

GZIP = "Accept-Encoding: br;q=1.0, gzip;q=0.8, *;q=0.1"


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        ("/", PAGE, "text/html; charset=utf-8"),
        ("/?q=1", PAGE, "text/html; charset=utf-8"),
        ("/index.html", PAGE, "text/html; charset=utf-8"),
        ("/about", FILES["about.html"], "text/html; charset=utf-8"),
        ("/about.html", FILES["about.html"], "text/html; charset=utf-8"),
        ("/docs/", FILES["docs/index.html"], "text/html; charset=utf-8"),
        ("/docs/plan%20b.txt", b"plan", "text/plain; charset=utf-8"),
        ("/app.js", SCRIPT, "text/javascript; charset=utf-8"),
        ("/photo.png", FILES["photo.png"], "image/png"),
    ],
)
async def test_a_static_site_answers_a_path_with_its_file_and_content_type(
    town, tmp_path, target, body, kind
):
    await serve(town, tmp_path)
    said = await town.ask(request(target))
    assert (said.status, said.body, said.fields["content-type"]) == (200, body, kind)
    assert said.fields["accept-ranges"] == "bytes"


@pytest.mark.parametrize(
    ("target", "location"),
    [("/docs", "/docs/"), ("/docs?a=b", "/docs/?a=b"), ("/about/", "/about"), ("/d%C3%A9", "/d%C3%A9/")],
)
async def test_a_page_is_found_with_and_without_its_slash(town, tmp_path, target, location):
    await serve(town, tmp_path, {**FILES, "dé/index.html": b"x"})
    said = await town.ask(request(target))
    assert (said.status, said.fields["location"]) == (301, location)


async def test_a_folder_is_never_listed(town, tmp_path):
    await serve(town, tmp_path, {"index.html": b"x", "docs/a.txt": b"a"})
    assert [(await town.ask(request(path))).status for path in ("/docs", "/docs/", "/docs/a.txt")] == [
        404,
        404,
        200,
    ]


async def test_head_has_the_fields_of_get_and_no_content(town, tmp_path):
    await serve(town, tmp_path)
    caller = await town.caller()
    head = await caller.ask(request("/photo.png", "HEAD"), head_only=True)
    said = await caller.ask(request("/photo.png"))
    differing = {"date"}
    assert {**head.fields, "date": ""} == {**said.fields, "date": ""}, differing
    assert int(head.fields["content-length"]) == len(said.body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
async def test_other_methods_are_refused_with_those_that_are_allowed(town, tmp_path, method):
    await serve(town, tmp_path)
    caller = await town.caller()
    said = await caller.ask(request("/", method, body=b"a=b"))
    assert (said.status, said.fields["allow"]) == (405, "GET, HEAD")
    assert (await caller.ask(request("/"))).body == PAGE


async def test_a_compressed_copy_is_sent_to_clients_that_accept_it(town, tmp_path):
    await serve(town, tmp_path)
    plain, packed = (
        await town.ask(request("/app.js")),
        await town.ask(request("/app.js", "GET", "shop.localhost", GZIP)),
    )
    assert "content-encoding" not in plain.fields
    assert packed.fields["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body == SCRIPT
    assert len(packed.body) < len(plain.body)
    assert plain.fields["vary"] == packed.fields["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("field", ["Accept-Encoding: gzip;q=0", "Accept-Encoding: identity, gzip ; q=0.000"])
async def test_a_static_file_is_not_compressed_if_accept_encoding_refuses_gzip(town, tmp_path, field):
    await serve(town, tmp_path)
    assert (await town.ask(request("/app.js", "GET", "shop.localhost", field))).body == SCRIPT


async def test_compressed_and_plain_answers_have_different_etags(town, tmp_path):
    await serve(town, tmp_path)
    plain = await town.ask(request("/app.js"))
    packed = await town.ask(request("/app.js", "GET", "shop.localhost", GZIP))
    assert plain.fields["etag"] != packed.fields["etag"]
    other = f"If-None-Match: {plain.fields['etag']}"
    assert (await town.ask(request("/app.js", "GET", "shop.localhost", GZIP, other))).status == 200


@pytest.mark.parametrize("form", ["{}", 'W/{}, "x"', '"y" , {}', "*"])
async def test_content_that_the_client_has_is_not_sent_again(town, tmp_path, form):
    await serve(town, tmp_path)
    caller = await town.caller()
    first = await caller.ask(request("/photo.png"))
    said = await caller.ask(
        request("/photo.png", "GET", "shop.localhost", f"If-None-Match: {form.format(first.fields['etag'])}")
    )
    assert (said.status, said.body) == (304, b"")
    assert said.fields["etag"] == first.fields["etag"]
    assert "content-length" not in said.fields
    assert (await caller.ask(request("/"))).body == PAGE


async def test_if_modified_since_matches_only_the_exact_date(town, tmp_path):
    await serve(town, tmp_path)
    modified = (await town.ask(request("/"))).fields["last-modified"]
    later = "Fri, 31 Dec 2100 00:00:00 GMT"
    said = [
        (await town.ask(request("/", "GET", "shop.localhost", f"If-Modified-Since: {date}"))).status
        for date in (modified, later, "yesterday")
    ]
    assert said == [304, 200, 200]


async def test_if_none_match_takes_precedence_over_if_modified_since(town, tmp_path):
    await serve(town, tmp_path)
    modified = (await town.ask(request("/"))).fields["last-modified"]
    fields = (f"If-Modified-Since: {modified}", 'If-None-Match: "other"')
    assert (await town.ask(request("/", "GET", "shop.localhost", *fields))).status == 200


@pytest.mark.parametrize(
    ("wanted", "begin", "end"),
    [
        ("0-9", 0, 10),
        ("1000-", 1000, 1024),
        ("-24", 1000, 1024),
        ("1000-99999", 1000, 1024),
        ("-5000", 0, 1024),
    ],
)
async def test_a_part_of_a_file_is_sent(town, tmp_path, wanted, begin, end):
    await serve(town, tmp_path)
    said = await town.ask(request("/photo.png", "GET", "shop.localhost", f"Range: bytes={wanted}"))
    assert (said.status, said.fields["content-range"]) == (206, f"bytes {begin}-{end - 1}/1024")
    assert said.body == FILES["photo.png"][begin:end]


@pytest.mark.parametrize("wanted", ["1024-", "5000-6000", "-0"])
async def test_a_part_that_is_not_there_is_refused_with_the_size(town, tmp_path, wanted):
    await serve(town, tmp_path)
    caller = await town.caller()
    said = await caller.ask(request("/photo.png", "GET", "shop.localhost", f"Range: bytes={wanted}"))
    assert (said.status, said.fields["content-range"], said.body) == (416, "bytes */1024", b"")
    assert (await caller.ask(request("/"))).body == PAGE


@pytest.mark.parametrize(
    "wanted", ["bytes=0-1,5-6", "lines=1-2", "bytes=5-1", "bytes=x-", "bytes=-", "bytes=" + "0-,1-," * 3000]
)
async def test_unsupported_ranges_are_answered_with_the_whole_file(town, tmp_path, wanted):
    await serve(town, tmp_path)
    said = await town.ask(request("/photo.png", "GET", "shop.localhost", f"Range: {wanted}"))
    assert (said.status, said.body) == (200, FILES["photo.png"])


async def test_a_range_request_with_an_outdated_if_range_gets_the_whole_file(town, tmp_path):
    await serve(town, tmp_path)
    tag = (await town.ask(request("/photo.png"))).fields["etag"]
    said = [
        (
            await town.ask(
                request("/photo.png", "GET", "shop.localhost", "Range: bytes=0-1", f"If-Range: {known}")
            )
        ).status
        for known in (tag, '"other"', f"W/{tag}")
    ]
    assert said == [206, 200, 200]


async def test_only_files_with_a_content_hash_in_their_name_are_cached_for_a_year(town, tmp_path):
    await serve(town, tmp_path, {**FILES, "assets/index-B3vCqM1h.js": b"x"})
    hashed, other = await town.ask(request("/assets/index-B3vCqM1h.js")), await town.ask(request("/app.js"))
    assert hashed.fields["cache-control"] == "public, max-age=31536000, immutable"
    assert other.fields["cache-control"] == "no-cache"


async def test_a_missing_page_is_answered_with_the_sites_404_page(town, tmp_path):
    await serve(town, tmp_path, {**FILES, "404.html": b"<h1>Gone</h1>"})
    said = await town.ask(request("/nowhere", "GET", "shop.localhost", "If-None-Match: *"))
    assert (said.status, said.body) == (404, b"<h1>Gone</h1>")
    assert (await town.ask(request("/404"))).status == 200


@pytest.mark.parametrize(
    ("target", "accept", "status"),
    [
        ("/orders/7", "text/html,application/xhtml+xml", 200),
        ("/users/john.doe", "text/html", 200),
        ("/orders/7", "*/*", 404),
        ("/orders/7", "application/json", 404),
        ("/assets/old-1a2b3c4d.js", "text/html", 404),
        ("/missing.png", "image/avif,image/webp,*/*", 404),
    ],
)
async def test_the_fallback_page_answers_navigation_but_not_missing_assets(
    town, tmp_path, target, accept, status
):
    await serve(town, tmp_path, fallback="index.html")
    said = await town.ask(request(target, "GET", "shop.localhost", f"Accept: {accept}"))
    assert said.status == status
    assert (said.body == PAGE) is (status == 200)
    if status == 200:
        assert said.fields["vary"] == "Accept"


async def test_answers_of_a_site_have_no_security_headers_by_default(town, tmp_path):
    await serve(town, tmp_path)
    said = await town.ask(request("/"))
    assert sorted(said.fields) == [
        "accept-ranges",
        "cache-control",
        "content-length",
        "content-type",
        "date",
        "etag",
        "last-modified",
    ]


async def test_a_site_below_a_path_is_rewritten_like_any_route(town, tmp_path):
    release = await serve(town, tmp_path)
    await town.router.set("shop", [route(site=str(release), path="/shop", rewrite="/")])
    assert (await town.ask(request("/shop/about"))).body == FILES["about.html"]
    assert (await town.ask(request("/about"))).status == 404


async def test_requests_of_a_site_are_counted_by_status(town, tmp_path):
    await serve(town, tmp_path)
    for target in ("/", "/nowhere", "/docs"):
        await town.ask(request(target))
    traffic = town.router.traffic()["shop"]
    assert (traffic.requests, traffic.answers, traffic.active) == (3, [0, 0, 1, 1, 1, 0], 0)


async def test_requests_that_wait_behind_each_other_are_answered_in_order(town, tmp_path):
    await serve(town, tmp_path)
    caller = await town.caller()
    await caller.send(
        request("/photo.png") + request("/about") + request("/app.js", "HEAD") + request("/nowhere")
    )
    bodies = [(await caller.said()).body, (await caller.said()).body]
    assert bodies == [FILES["photo.png"], FILES["about.html"]]
    assert (await caller.said(head_only=True)).status == 200
    assert (await caller.said()).status == 404


async def test_an_http_1_0_client_of_a_site_gets_its_answer_and_connection_close(town, tmp_path):
    await serve(town, tmp_path)
    caller = await town.caller()
    await caller.send(b"GET / HTTP/1.0\r\nHost: shop.localhost\r\n\r\n")
    answer = await caller.rest()
    assert answer.endswith(b"Connection: close\r\n\r\n" + PAGE)


async def test_a_site_whose_files_are_missing_is_answered_with_503(town, tmp_path):
    await town.router.set("shop", [route(site=str(tmp_path / "none"))])
    said = await town.ask(request("/"))
    assert (said.status, said.fields["retry-after"]) == (503, "5")
