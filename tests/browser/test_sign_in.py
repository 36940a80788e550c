"""A link signs in the person who opens it, and no cookie of another service changes who is signed in."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Server

pytestmark = pytest.mark.slow

NAME = "windlass_session"
AHEAD = "Object.defineProperty(document, 'prerendering', { get: () => true });"


def another_session(server: Server, name: str) -> tuple[str, str]:
    """The cookie and the key of a session of another caller."""
    body = {"name": name, "scopes": ["Read"]}
    made = server.call("POST", f"/organization/{server.org}/apiToken", body)
    request = urllib.request.Request(
        f"{server.url}/account/browserSession",
        b"{}",
        {"Authorization": f"Token {made['token']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        cookie = answer.headers["set-cookie"].split(";")[0].partition("=")[2]
        return cookie, json.loads(answer.read())["page_key"]


def test_head_get_and_prefetch_requests_do_not_consume_a_sign_in_link(
    server: Server, new_page: Callable[..., Page]
) -> None:
    link = server.link()
    for method in ("HEAD", "GET"):
        urllib.request.urlopen(urllib.request.Request(link, method=method)).close()
    ahead = new_page("/", signed_in=False)
    ahead.add_init_script(AHEAD)
    ahead.goto("about:blank")
    ahead.goto(link)
    ahead.wait_for_timeout(500)
    expect(ahead.locator("main h1")).to_have_count(0)
    page = new_page("/", signed_in=False)
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("#notices")).to_contain_text("You are signed in as operator")


def test_a_cookie_of_another_service_on_this_host_changes_nothing(
    server: Server, new_page: Callable[..., Page]
) -> None:
    """Cookies are kept for all ports of a host. One for a longer path is sent first."""
    cookie, _ = another_session(server, "eve")
    page = new_page("/account")
    for path in ("/account", "/organization", "/project"):
        page.context.add_cookies([{"name": NAME, "value": cookie, "domain": "127.0.0.1", "path": path}])
    page.reload()
    expect(page.locator(".facts").first).to_contain_text("operator")
    page.goto(f"{server.url}/console/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_sign_in_link_with_the_key_of_another_session_is_refused(
    server: Server, new_page: Callable[..., Page], watch
) -> None:
    watch.expected.append("status of 401")
    cookie, key = another_session(server, "mallory")
    page = new_page("/account")
    page.context.add_cookies([{"name": NAME, "value": cookie, "domain": "127.0.0.1", "path": "/"}])
    page.goto("about:blank")
    page.goto(f"{server.url}/console/#key={key}")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_text("mallory")).to_have_count(0)

    # The negative control: with this key in its storage, the page would be that of the other caller.
    page.evaluate("(key) => localStorage.setItem('windlass.page-key', key)", key)
    page.goto(f"{server.url}/console/account")
    expect(page.locator(".facts").first).to_contain_text("mallory")


def test_without_browser_storage_the_session_lasts_until_the_page_is_reloaded(
    server: Server, new_page: Callable[..., Page]
) -> None:
    page = new_page(signed_in=False)
    page.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, { get() { throw new DOMException('no', 'SecurityError'); } });"
    )
    page.goto("about:blank")
    page.goto(server.link())
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.get_by_role("link", name="Account").first.click()
    expect(page.get_by_role("heading", name="Account", level=1)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_an_abandoned_sign_in_does_not_accept_a_page_key_from_a_link(
    server: Server, new_page: Callable[..., Page]
) -> None:
    _, key = another_session(server, "trudy")
    page = new_page("/account")
    page.evaluate("sessionStorage.setItem('windlass.sign-in-begun', '1')")  # as the button of a provider does
    page.reload()
    expect(page.locator(".facts").first).to_contain_text("operator")
    page.evaluate("(key) => { location.hash = `key=${key}`; }", key)
    page.wait_for_function("!location.hash")
    page.reload()
    expect(page.locator(".facts").first).to_contain_text("operator")
