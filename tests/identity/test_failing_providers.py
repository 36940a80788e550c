"""A provider that fails: the person is told what to do, and the log has the provider's own words."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.identity.browsers import Browser
from tests.identity.issuer import invite
from tests.identity.test_provider_sign_ins import ADA, CLIENT, CodeIssuer, come_back, problem, provider_of
from tests.world import make_world
from windlass.base.clock import SECOND
from windlass.base.http_out import AddressRefused, HttpResult, NoAnswer
from windlass.console.files import ROOT
from windlass.control.people import github, openid_connect, provider_protocol, sign_in
from windlass.core.access import Scope

ESCAPE = "out of order\x1b[31m"


class FailingIssuer(CodeIssuer):
    """Its token endpoint answers whatever a test has chosen."""

    token_answer: tuple[int, bytes] | None = None

    async def send(self, method: str, url: str, *args: Any, **options: Any) -> HttpResult:
        if self.token_answer is None:
            return await super().send(method, url, *args, **options)
        status, body = self.token_answer
        return HttpResult(status, {}, body, False, 1)


@pytest.fixture
def issuer(clock):
    return FailingIssuer(clock)


@pytest.fixture
async def world(database_url, clock, issuer):
    options = {"clock": clock, "fetcher": issuer.fetch, "out": issuer}
    async with make_world(database_url, oidc_providers=provider_of(issuer), **options) as made:
        await invite(made, ADA, Scope.READ)
        yield made


@pytest.fixture
def browser(world) -> Browser:
    return Browser(world)


def complaint(error: str) -> bytes:
    return json.dumps({"error": error, "error_description": ESCAPE}).encode()


def logged(caplog, field: str) -> list[Any]:
    return [vars(record)[field] for record in caplog.records if field in vars(record)]


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (500, complaint("server_error"), "unreachable"),
        (503, b"<html>", "unreachable"),
        (400, complaint("temporarily_unavailable"), "unreachable"),
        (400, complaint("invalid_grant"), "refused"),
        (401, complaint("invalid_client"), "client"),
        (200, complaint("incorrect_client_credentials"), "client"),
        (400, complaint("unsupported_grant_type"), "broken"),
        (404, b"", "broken"),
        (302, b"", "broken"),
        (200, b"<html>", "broken"),
        (200, b"[" * 100_000, "broken"),
        (200, b"\xff", "broken"),
        (200, b"{}", "broken"),
        (200, b'{"id_token": null}', "broken"),
        (200, b'{"id_token": "a.b.c"}', "refused"),
    ],
)
async def test_each_failed_token_response_of_a_provider_leads_to_a_problem_code_and_is_logged(
    issuer, browser, caplog, status, body, word
):
    issuer.token_answer = status, body
    assert problem(await come_back(browser, issuer)) == word
    assert "acme" in logged(caplog, "provider")
    if b"error" in body:
        assert logged(caplog, "error") == [json.loads(body)["error"]]
        assert logged(caplog, "description") == [ESCAPE]


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("access_denied", "refused"),
        ("login_required", "refused"),
        ("server_error", "unreachable"),
        ("temporarily_unavailable", "unreachable"),
        ("invalid_scope", "broken"),
        ("unauthorized_client", "client"),
        ("redirect_uri_mismatch", "client"),
        ("unverified_user_email", "no_email"),
        ("x" * 5000, "broken"),
    ],
)
async def test_an_error_of_the_provider_leads_to_a_problem_code_and_is_logged(
    issuer, browser, caplog, error, word
):
    assert problem(await come_back(browser, issuer, code="", error=error)) == word
    assert logged(caplog, "error") == [error[:200]]


async def test_an_error_of_another_sign_in_is_not_logged(issuer, browser, caplog):
    """Otherwise any page could write lines into the log."""
    assert problem(await come_back(browser, issuer, code="", state="guessed", error="made-up")) == "lost"
    assert logged(caplog, "error") == []


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (b"<html>", "broken"),
        (b"[" * 100_000, "broken"),
        (b"\xff", "broken"),
        (b"{}", "broken"),
        (None, "unreachable"),
    ],
)
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys"])
async def test_an_invalid_provider_document_is_distinguished_from_an_unreachable_one(
    issuer, browser, path: str, document: bytes | None, word: str
):
    fetch: Callable[[str], Awaitable[bytes]] = issuer.fetch

    async def failing(url: str) -> bytes:
        if not url.endswith(path):
            return await fetch(url)
        if document is None:
            raise NoAnswer("no route")
        return document

    browser._world.installation.authenticator.fetch = failing
    if path == "/keys":
        assert problem(await come_back(browser, issuer)) == word
    else:
        assert problem(await browser.call("GET", "/account/signInProvider/acme/start")) == word


async def test_a_provider_at_a_forbidden_address_is_reported_as_misconfigured(issuer, browser):
    async def refuse(*_: Any, **__: Any) -> HttpResult:
        raise AddressRefused("10.0.0.5 is not a public address")

    issuer.send = refuse
    assert problem(await come_back(browser, issuer)) == "broken"


@pytest.mark.parametrize("seconds", [-3600, 3600, -10, 10])
async def test_a_wrong_clock_at_a_sign_in_is_reported_as_such(world, issuer, browser, seconds):
    now = world.clock.now() // SECOND
    issuer.claims = {"iat": now + seconds, "exp": now + seconds + 600}
    answer = await come_back(browser, issuer)
    if abs(seconds) > 600:
        assert problem(answer) == "clock"
    else:
        assert "#key=" in answer.headers["location"]


@pytest.mark.parametrize("subject", ["x" * 256, "a\0b"])
async def test_a_subject_that_cannot_be_stored_is_reported_as_a_provider_problem(
    issuer, browser, caplog, subject
):
    issuer.claims = {"sub": subject}
    assert problem(await come_back(browser, issuer)) == "broken"
    assert "acme" in logged(caplog, "provider")


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "of another sign-in"},
        {"azp": "another client"},
        {"azp": "another client", "aud": [CLIENT, "another client"]},
    ],
)
async def test_a_token_of_another_sign_in_is_logged(issuer, browser, caplog, claims):
    issuer.claims = claims
    assert problem(await come_back(browser, issuer)) == "refused"
    assert any(next(iter(claims)) in record.getMessage() for record in caplog.records)


async def test_new_keys_of_a_provider_are_used_some_seconds_after_the_former_ones_were_read(
    world, issuer, browser
):
    assert "#key=" in (await come_back(browser, issuer)).headers["location"]
    issuer.change_keys()
    assert problem(await come_back(browser, issuer)) == "refused"
    world.clock.turn(3)
    assert "#key=" in (await come_back(browser, issuer)).headers["location"]


def without_text(source: str, words: str) -> set[str]:
    """Returns the reasons of the source that the page has no text for."""
    problems = words.partition("problems: {")[2].partition("},")[0]
    told = set(re.findall(r'(\w+): "', problems))
    reasons = re.findall(r"(?:SignInFailed\(|return )(.*)", source)
    return {word for reason in reasons for word in re.findall(r'"([a-z_]+)"', reason)} - told


def test_the_sign_in_page_has_a_text_for_each_problem_code():
    modules = (sign_in, provider_protocol, openid_connect, github)
    source = "".join(Path(str(module.__file__)).read_text() for module in modules)
    words = (ROOT / "js/words.js").read_text()
    assert without_text(source, words) == set()
    assert without_text(source, words.replace("no_member:", "another:")) == {"no_member"}
