"""Pages say that the database is unavailable, and since when, and why a session or a right has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly
ENDS = ["ERR_CONNECTION", "Failed to load", "503", "ERR_INCOMPLETE", "ERR_EMPTY"]
NewPage = Callable[..., Page]
WITH_OUTAGE = """\
import sys
from pathlib import Path
from windlass.base.errors import Unavailable
from windlass.control.people.authenticate import Authenticator

outage, admit, recent = Path(sys.argv.pop(1)), Authenticator.admit, Authenticator.recent_verdict

async def admit_or_fail(self, header):
    if outage.exists():
        raise Unavailable("The database cannot be reached; nothing was changed")
    return await admit(self, header)

Authenticator.admit = admit_or_fail
Authenticator.recent_verdict = lambda *words: None if outage.exists() else recent(*words)
from windlass.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file: while it exists, the server cannot read its database."""
    return tmp_path_factory.mktemp("outage") / "is-on"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, outage: Path) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("console"), program=("-c", WITH_OUTAGE, str(outage)))
    yield running
    running.end()


@pytest.fixture(scope="module")
def app(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    made = Repository(tmp_path_factory.mktemp("outage") / "repository")
    app = server.application(server.environment(project="Outage"), made)
    server.deploy(app)
    return app


def test_pages_show_that_the_database_is_unavailable_and_since_when(
    server: Server, new_page: NewPage, watch, app: str, outage: Path
) -> None:
    watch.expected += ENDS
    paths = ("/", f"/application/{app}", f"/application/{app}/logs", f"/organization/{server.org}/audit")
    pages = [new_page(path) for path in paths]
    for page in pages:
        expect(page.get_by_text("Last seen")).to_have_count(0)  # the negative control
    outage.touch()
    try:
        *following, audit = pages
        told = []
        for page in following:
            expect(page.get_by_text("cannot read its database").first).to_be_visible()
            told.append(page.get_by_text("Last seen").first.inner_text())
        audit.get_by_role("button", name="Refresh").click()
        expect(audit.locator(".stale")).to_contain_text("The database cannot be reached")
        # A page that is opened meanwhile says it, and continues by itself.
        late = new_page("/", signed_in=False)
        following[0].wait_for_timeout(6000)
        for page, before in zip(following, told, strict=True):
            assert page.get_by_text("Last seen").first.inner_text() == before
    finally:
        outage.unlink()
    for page in pages:
        expect(page.get_by_text("Last seen")).to_have_count(0)
    expect(late.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_last_seen_time_does_not_change_while_the_server_is_unreachable(
    server: Server, new_page: NewPage, watch
) -> None:
    watch.expected += ENDS
    page = new_page("/")
    server.stop()
    try:
        expect(page.locator(".stale")).to_contain_text("Last seen")
        before = page.locator(".stale").inner_text()
        page.wait_for_timeout(5000)  # some attempts to connect
        assert page.locator(".stale").inner_text() == before
    finally:
        server.start()
    expect(page.locator(".stale")).to_have_count(0)


def test_the_page_of_signing_in_says_why_the_session_has_ended(
    server: Server, new_page: NewPage, watch, app: str
) -> None:
    watch.expected += ["status of 401", "ERR_INCOMPLETE"]
    tokens = f"/organization/{server.org}/apiToken"
    reasons = {"deleted": "token behind this session was revoked", "signed out": "this session has ended"}
    for name, reason in reasons.items():
        made = server.call("POST", tokens, {"name": name, "scopes": ["Read"]})
        pages = []
        for path in ("", f"application/{app}/logs"):
            page = new_page(signed_in=False)
            page.goto(server.link(made["token"]))
            page.wait_for_selector("main h1")
            page.goto(f"{server.url}/console/{path}")
            page.wait_for_selector("main h1")
            pages.append(page)
        if name == "deleted":
            server.call("DELETE", f"{tokens}/{made['id']}")
        else:
            other = new_page(signed_in=False)
            other.goto(server.link(made["token"]))
            other.wait_for_selector("main h1")
            other.get_by_role("link", name="Account").first.click()
            for left in reversed(range(len(pages))):
                end = other.locator("main").get_by_role("button", name="End session")
                expect(end).to_have_count(left + 1)
                end.first.click()
                other.locator("dialog[open]").get_by_role("button", name="End session").click()
                expect(end).to_have_count(left)
        for page in pages:
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            expect(page.locator(".trouble")).to_contain_text(reason)


def test_a_log_stream_refused_with_403_shows_the_reason_in_the_log(
    server: Server, new_page: NewPage, watch, app: str
) -> None:
    watch.expected.append("status of 403")
    page = new_page("/")
    refusal = {"status": 403, "error": "Forbidden", "message": "You are not a member here any more"}
    page.route("**/log?follow=true*", partial(Route.fulfill, status=403, json=refusal))
    page.goto(f"{server.url}/console/application/{app}/logs")
    expect(page.locator(".log")).to_contain_text(
        "Nothing more is shown here. You are not a member here any more"
    )
    page.unroute_all()
    page.reload()
    expect(page.locator(".log-line").first).to_be_visible()
    expect(page.locator(".log")).not_to_contain_text("Nothing more is shown")  # the negative control
