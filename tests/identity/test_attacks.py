"""Attacks on signing in that mix up people, providers, hosts or browsers; and what is allowed beside each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.identity.authenticator import Authenticator
from tests.identity.browsers import Browser
from tests.identity.issuer import invite
from tests.identity.people import PASSWORD, code_in, invited, new_person, sign_in, use_link
from tests.identity.test_known_providers import SECRET, FakeGitHub, come_back, outcome, who
from tests.identity.test_passkeys import add, challenge, send, sign_in_alone
from tests.identity.test_provider_sign_ins import CLIENT, CodeIssuer
from tests.identity.test_second_factors import App, sign_in_with
from tests.world import make_world
from windlass.api import cookies
from windlass.api.cookies import Cookies
from windlass.base.http_out import HttpResult
from windlass.config.settings import OidcProvider

ADA, KIM = "ada@example.com", "kim@example.com"
URL = "https://windlass.example.com"


class TwoIssuers:
    """Two OpenID Connect providers, of which each knows only its own addresses."""

    def __init__(self, clock: Any) -> None:
        self.good = CodeIssuer(clock)
        self.other = CodeIssuer(clock, "https://login.other.example")

    def _of(self, url: str) -> CodeIssuer:
        return self.other if url.startswith(self.other.address) else self.good

    async def fetch(self, url: str) -> bytes:
        return await self._of(url).fetch(url)

    async def send(self, method: str, url: str, *args: Any, **options: Any) -> HttpResult:
        return await self._of(url).send(method, url, *args, **options)

    async def close(self) -> None:
        """Has nothing to close."""


@pytest.fixture
def issuers(clock):
    return TwoIssuers(clock)


@pytest.fixture
async def two(database_url, clock, issuers):
    providers = tuple(
        OidcProvider(name=name, issuer=issuer.address, client_id=CLIENT, client_secret=SECRET)
        for name, issuer in (("acme", issuers.good), ("other", issuers.other))
    )
    options = {"clock": clock, "fetcher": issuers.fetch, "out": issuers}
    async with make_world(database_url, oidc_providers=providers, **options) as made:
        yield made


@pytest.fixture
def github():
    return FakeGitHub()


@pytest.fixture
async def hub(database_url, clock, github):
    providers = (OidcProvider(kind="github", client_id=CLIENT, client_secret=SECRET),)
    options = {"clock": clock, "out": github, "public_url": URL}
    async with make_world(database_url, oidc_providers=providers, **options) as made:
        yield made


# Providers


async def test_another_provider_with_the_same_subject_and_address_is_another_person(two, issuers):
    await invite(two, ADA)
    assert outcome(await come_back(Browser(two), issuers.good, "acme")) == "in"
    assert outcome(await come_back(Browser(two), issuers.other, "other")) == "no_member"
    assert outcome(await come_back(Browser(two), issuers.good, "acme")) == "in"


async def test_a_token_of_one_provider_is_refused_in_the_name_of_another(two, issuers):
    await invite(two, ADA)
    honest = issuers.other._id_token
    issuers.other._id_token = lambda: issuers.good.person(
        ADA, aud=CLIENT, nonce=issuers.other.asked_now["nonce"]
    ).removeprefix("Bearer ")
    assert outcome(await come_back(Browser(two), issuers.other, "other")) == "refused"
    issuers.other._id_token = honest
    assert outcome(await come_back(Browser(two), issuers.other, "other")) == "in"


async def test_the_code_of_another_sign_in_is_refused(hub, github):
    """Somebody puts the code of an own sign-in into the address with which another person comes back."""
    await invite(hub, ADA)
    victim, thief = Browser(hub), Browser(hub)
    started = await victim.call("GET", "/account/signInProvider/github/start")
    _, state = github.approve(started.headers["location"])
    stolen, _ = github.approve(
        (await thief.call("GET", "/account/signInProvider/github/start")).headers["location"]
    )
    path = f"/account/signInProvider/github/answer?code={stolen}&state={state}"
    assert outcome(await victim.call("GET", path)) == "refused"
    assert outcome(await come_back(victim, github)) == "in"


async def test_a_sign_in_at_a_provider_brings_new_secrets_whatever_the_browser_had(hub, github):
    await invite(hub, ADA)
    browser = Browser(hub)
    browser.cookies["__Host-windlass_session"] = planted = "x" * 43
    assert outcome(await come_back(browser, github)) == "in"
    assert browser.cookies["__Host-windlass_session"] != planted
    stranger = Browser(hub)
    stranger.cookies["__Host-windlass_session"], stranger.key = planted, browser.key
    assert not await stranger.is_signed_in()
    assert await browser.is_signed_in()


HOST_PREFIX, SECURE_PREFIX = "__Host-", "__Secure-"


def set_by_a_neighbour(cookies: dict[str, str]) -> dict[str, str]:
    """Returns the cookies that a service at another name of the same domain can set for the console: browsers
    take those with this prefix from the host itself only."""
    return {name: value for name, value in cookies.items() if not name.startswith(HOST_PREFIX)}


@pytest.mark.parametrize("prefix", [HOST_PREFIX, SECURE_PREFIX])
async def test_a_service_of_the_same_domain_cannot_bring_a_browser_into_the_session_of_another_person(
    monkeypatch, hub, github, prefix
):
    """It sets the cookie of its own sign-in, and sends the browser to the answer of the provider. Negative
    control: it succeeds with the other prefix, which only wants https."""
    monkeypatch.setattr(cookies, "HOST_PREFIX", prefix)
    await invite(hub, ADA)
    thief, victim = Browser(hub), Browser(hub)
    started = await thief.call("GET", "/account/signInProvider/github/start")
    code, state = github.approve(started.headers["location"])
    assert [*thief.cookies] == [f"{prefix}windlass_sign_in"]
    victim.cookies |= set_by_a_neighbour(thief.cookies)
    path = f"/account/signInProvider/github/answer?code={code}&state={state}"
    answer = await victim.call("GET", path, headers={"sec-fetch-site": "same-site"})
    assert outcome(answer) == ("lost" if prefix == HOST_PREFIX else "in")


async def test_all_cookies_of_the_console_belong_to_its_own_host(hub, github):
    """Browsers take the prefix only from https, for all paths and without a domain."""
    await invite(hub, ADA)
    browser = Browser(hub)
    started = await browser.call("GET", "/account/signInProvider/github/start")
    code, state = github.approve(started.headers["location"])
    path = f"/account/signInProvider/github/answer?code={code}&state={state}"
    of_password = Cookies(URL).known("sealed")[1].decode()
    for text in (
        started.headers["set-cookie"],
        (await browser.call("GET", path)).headers["set-cookie"],
        of_password,
    ):
        assert text.startswith(HOST_PREFIX), text
        rules = {rule.strip().lower() for rule in text.split(";")}
        assert {"secure", "path=/", "httponly"} <= rules
        assert not any(rule.startswith("domain") for rule in rules)


async def test_two_browsers_with_one_answer_of_a_provider_get_one_session(hub, github):
    await invite(hub, ADA)
    browser = Browser(hub)
    started = await browser.call("GET", "/account/signInProvider/github/start")
    code, state = github.approve(started.headers["location"])
    path = f"/account/signInProvider/github/answer?code={code}&state={state}"
    twins = [Browser(hub) for _ in range(4)]
    for twin in twins:
        twin.cookies = dict(browser.cookies)
    answers = await asyncio.gather(*(twin.call("GET", path) for twin in twins))
    assert sorted(map(outcome, answers)) == ["in", "lost", "lost", "lost"]


async def test_a_person_with_a_password_and_one_at_github_with_the_same_address_are_two(hub, github):
    """An account at GitHub gets nothing of a password account by the address alone, and the other way."""
    browser = await new_person(hub, ADA)
    assert outcome(await come_back(Browser(hub), github)) == "no_member"
    second = (await hub.post("/organization", {"name": "Second"})).json
    await invite(hub, ADA, org=second["id"], token=second["admin_token"])
    own = Browser(hub)
    assert outcome(await come_back(own, github)) == "in"
    assert await who(own) == (ADA, 1)
    assert await who(browser) == (ADA, 1)


# Hosts


@pytest.mark.parametrize("host", ["evil.example", "windlass.example.com.evil.example", "evil.example:443"])
async def test_the_host_of_a_request_is_in_no_link_and_in_no_redirect(hub, github, host):
    sent = {"host": host, "x-forwarded-host": host, "forwarded": f"host={host}"}
    made = await invite(hub, ADA, headers=sent)
    started = await Browser(hub).call("GET", "/account/signInProvider/github/start", headers=sent)
    ways = await hub.call("GET", "/account/signInProvider", token=None, headers=sent)
    link = await hub.call("POST", "/account/signInLink", headers=sent)
    texts = [made["invitation_link"], started.headers["location"], str(ways.json), link["url"]]
    assert not any("evil" in text for text in texts), texts
    assert all(text.count("windlass.example.com") for text in texts)


@pytest.mark.parametrize(
    "path",
    [
        "/account/signInProvider/github/start?next=//evil.example",
        "/account/signInProvider/github/answer?error=access_denied&next=https://evil.example",
        "/account/signInProvider/github/answer?redirect_uri=https://evil.example",
        "/account/signInProvider//evil.example/start",
        "/account/signInProvider/%2f%2fevil.example/answer",
    ],
)
async def test_signing_in_leads_to_the_console_or_the_provider_and_nowhere_else(hub, path):
    answer = await Browser(hub).call("GET", path)
    place = answer.headers.get("location", "")
    assert answer.status in {302, 404, 400, 401}
    assert place.startswith(("/console/", "https://github.com/login/oauth/authorize?")) or not place
    assert "evil.example" not in place


# Addresses


@pytest.mark.parametrize(
    ("typed", "is_known"),
    [
        (KIM, True),
        ("KIM@Example.COM", True),
        (f"  {KIM} ", True),
        ("\u212aim@example.com", False),  # the Kelvin sign, whose lower case is k
        ("k\u0131m@example.com", False),  # i without a dot, whose upper case is I
        ("kim@exam\uff50le.com", False),  # a wide p, which NFKC makes a p
        ("kim\u200b@example.com", False),
        ("kim+x@example.com", False),
        ("kim@example.com.", False),
    ],
)
async def test_an_email_address_matches_in_any_case_but_not_as_a_look_alike(world, typed, is_known):
    await new_person(world, KIM)
    answer = await sign_in(Browser(world), typed)
    assert answer.status == (201 if is_known else 401), answer


async def test_a_look_alike_of_an_address_is_another_person(world):
    first = await new_person(world, KIM)
    look_alike = "\u212aim@example.com"
    answer = await invite(world, look_alike)
    if answer.status == 201:
        second = Browser(world)
        await use_link(second, code_in(answer["invitation_link"]), "another good password")
        assert (await second.call("GET", "/account"))["id"] != (await first.call("GET", "/account"))["id"]
    assert (await sign_in(Browser(world), KIM, "another good password")).status == 401
    assert (await sign_in(Browser(world), KIM)).status == 201


async def test_the_same_address_in_capital_letters_is_invited_to_the_same_person(world):
    await new_person(world, KIM)
    second = (await world.post("/organization", {"name": "Second"})).json
    code = await invited(world, KIM.upper(), org=second["id"], token=second["admin_token"])
    stranger = await use_link(Browser(world), code, "another good password")
    assert stranger.status == 401, "the present password is asked for"
    browser = Browser(world)
    assert (await use_link(browser, code, PASSWORD)).status == 201
    assert await who(browser) == (KIM, 2)


# Second factors


async def test_an_app_that_was_never_confirmed_is_no_second_factor_beside_a_passkey(hub):
    """Who knows the password could otherwise begin to add an app, and use it in place of the passkey."""
    browser = await new_person(hub, ADA)
    await add(browser, Authenticator(URL))
    setup = await browser.call("POST", "/account/secondFactor", {"password": PASSWORD})
    app = App(hub, setup["secret"])
    assert (await sign_in_with(Browser(hub), app.code())).status == 401
    confirmed = await browser.call("PUT", "/account/secondFactor", {"second_factor": app.code()})
    assert confirmed.status == 200, confirmed
    hub.clock.turn(30)
    assert (await sign_in_with(Browser(hub), app.code())).status == 201


async def test_attempts_with_passkeys_are_limited_like_those_with_codes(hub):
    device, thief = Authenticator(URL), Authenticator(URL)
    await add(await new_person(hub, ADA), device)
    thief.credential = device.credential
    statuses = []
    for number in range(12):
        address = f"203.0.113.{number}"
        further = await sign_in(Browser(hub), ADA, address=address)
        body = {"email": ADA, "password": PASSWORD, "passkey": thief.sign(further["passkey"])}
        answer = await Browser(hub).call("POST", "/account/browserSession", body, address=address)
        statuses.append(answer.status)
    assert statuses == [401] * 10 + [429] * 2
    assert (await sign_in_alone(Browser(hub), device)).status == 201


async def test_an_answer_at_twins_opens_one_session(hub):
    device = Authenticator(URL)
    await add(await new_person(hub, ADA), device)
    answer = device.sign(await challenge(Browser(hub)))
    answers = await asyncio.gather(*(send(Browser(hub), answer) for _ in range(4)))
    assert sorted(each.status for each in answers) == [201, 401, 401, 401]


async def test_an_unknown_passkey_and_one_of_a_removed_person_have_the_same_answer(hub):
    device = Authenticator(URL)
    browser = await new_person(hub, ADA)
    await add(browser, device)
    assert (await sign_in_alone(Browser(hub), device)).status == 201
    (member,) = (await hub.get(f"/organization/{hub.org}/member"))["results"]
    await hub.delete(f"/organization/{hub.org}/member", {"user_id": member["id"]})
    removed = await sign_in_alone(Browser(hub), device)
    unknown = await sign_in_alone(Browser(hub), Authenticator(URL))
    assert (removed.status, removed.message) == (unknown.status, unknown.message) == (401, unknown.message)
