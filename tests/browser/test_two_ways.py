"""Two people sign in by two ways: with a password and a passkey, and with an account at GitHub."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.browser.servers import Server
from tests.browser.test_newcomer import confirm
from tests.browser.test_people import PASSWORD, invite, join, sign_in
from tests.free_ports import free_port

pytestmark = pytest.mark.slow

GRACE = "grace@example.com"


class GitHubPages(BaseHTTPRequestHandler):
    """The page where a person says yes, and what the server asks afterwards, as at an own GitHub."""

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path == "/login/oauth/authorize":
            back = urlencode({"code": "code-1", "state": query["state"][0]})
            link = f'<a href="{query["redirect_uri"][0]}?{back}">Authorize</a>'
            return self._send(link.encode(), "text/html")
        answers: dict[str, Any] = {
            "/api/v3/user": {"id": 7, "login": "grace", "name": "Grace Hopper"},
            "/api/v3/user/emails": [{"email": GRACE, "verified": True, "primary": True}],
        }
        assert self.headers["Authorization"] == "Bearer gho_1"
        return self._send(json.dumps(answers[path]).encode(), "application/json")

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        is_right = (form["code"], form["client_secret"]) == (["code-1"], ["secret"])
        answer = {"access_token": "gho_1"} if is_right else {"error": "bad_verification_code"}
        self._send(json.dumps(answer).encode(), "application/json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    github = ThreadingHTTPServer(("127.0.0.1", 0), GitHubPages)
    threading.Thread(target=github.serve_forever, daemon=True).start()
    port = free_port()
    provider = {
        "kind": "github",
        "issuer": f"http://127.0.0.1:{github.server_port}",
        "client_id": "console",
        "client_secret": "secret",
    }
    more = {
        "WINDLASS_PUBLIC_URL": f"http://localhost:{port}",
        "WINDLASS_OIDC_PROVIDERS": json.dumps([provider]),
        "WINDLASS_OUTBOUND_ALLOW": "127.0.0.0/8",
    }
    server = Server(tmp_path, port, more)
    # Browsers have passkeys for localhost, and not for 127.0.0.1.
    server.url = f"http://localhost:{port}"
    yield server
    server.end()
    github.shutdown()
    github.server_close()


class Phone:
    """An authenticator of Chromium for tests (its protocol has the domain WebAuthn)."""

    def __init__(self, page: Page) -> None:
        self._line: CDPSession = page.context.new_cdp_session(page)
        self._line.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        self._id = cast(
            str,
            self._line.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"],
        )

    @property
    def passkeys(self) -> list[Any]:
        answer = self._line.send("WebAuthn.getCredentials", {"authenticatorId": self._id})
        return list(answer["credentials"])

    def lose(self) -> None:
        self._line.send("WebAuthn.clearCredentials", {"authenticatorId": self._id})


def sign_out(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/console/account")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_one_person_signs_in_with_password_and_passkey_and_another_one_with_github(
    chromium: Browser, served: Server
) -> None:
    admin, ada, grace = (chromium.new_context().new_page() for _ in range(3))
    admin.goto(served.link().replace("127.0.0.1", "localhost"))
    admin.wait_for_selector("main h1")
    link = invite(admin, served, "ada@example.com")
    invite(admin, served, GRACE)
    join(ada, link, "Ada Lovelace")

    # The link is used up.
    late = chromium.new_context().new_page()
    late.goto(link)
    expect(late.get_by_role("alert")).to_contain_text("Ask an admin for another link")

    # Ada adds a passkey, and keeps the recovery codes.
    phone = Phone(ada)
    ada.goto(f"{served.url}/console/account")
    ada.get_by_role("button", name="Add a passkey").click()
    dialog = ada.locator("dialog[open]")
    dialog.get_by_label("Name").fill("Phone")
    dialog.get_by_label("Present password").fill("not the password")
    confirm(ada, "Next")
    expect(dialog).to_contain_text("is not your present password")
    dialog.get_by_label("Present password").fill(PASSWORD)
    confirm(ada, "Next")
    codes = ada.locator("dialog[open] pre").inner_text().split()
    assert len(codes) == 10
    confirm(ada, "I have kept them")
    expect(ada.get_by_role("row", name="Phone")).to_contain_text("not used yet")
    assert len(phone.passkeys) == 1

    # It is named again, and signs in alone.
    ada.get_by_role("row", name="Phone").get_by_role("button", name="Rename").click()
    ada.locator("dialog[open]").get_by_label("Name").fill("My phone")
    confirm(ada, "Save")
    expect(ada.get_by_role("row", name="My phone")).to_be_visible()
    sign_out(ada, served)
    ada.get_by_role("button", name="Sign in with a passkey").click()
    expect(ada.locator(".who")).to_have_text("ada@example.com")

    # Beside the password, it takes the place of a code. A wrong password comes to nothing.
    sign_out(ada, served)
    sign_in(ada, "ada@example.com", "not the password")
    expect(ada.get_by_role("alert")).to_contain_text("Check the e-mail address and the password")
    sign_in(ada, "ada@example.com", PASSWORD)
    ada.get_by_role("button", name="Use a passkey").click()
    expect(ada.locator(".who")).to_have_text("ada@example.com")

    # The phone is lost: a recovery code signs in, once.
    sign_out(ada, served)
    phone.lose()
    for code, is_taken in ((codes[0], True), (codes[0], False), (codes[1], True)):
        sign_in(ada, "ada@example.com", PASSWORD)
        ada.get_by_label("Code").fill(code)
        ada.locator("form").first.get_by_role("button", name="Sign in", exact=True).click()
        if is_taken:
            expect(ada.locator(".who")).to_have_text("ada@example.com")
            sign_out(ada, served)
        else:
            expect(ada.get_by_role("alert")).to_contain_text("Check the code")
            ada.reload()

    # Grace has an account at GitHub, and no password here.
    grace.goto(f"{served.url}/console/")
    sign_in(grace, GRACE, PASSWORD)
    expect(grace.get_by_role("alert")).to_contain_text("Check the e-mail address and the password")
    grace.get_by_role("link", name="Sign in with GitHub").click()
    grace.get_by_role("link", name="Authorize").click()
    expect(grace.locator(".who")).to_have_text(GRACE)
    assert "key=" not in grace.url
    for page in (admin, ada, grace, late):
        page.context.close()
