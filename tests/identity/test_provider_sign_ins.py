"""Sign-in through a provider: the code flow of OpenID Connect, with everything checked that comes back."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.audit.asking import events
from tests.identity.browsers import Browser
from tests.identity.issuer import Issuer, invite
from tests.world import Answer, World, make_world
from windlass.base.http_out import HttpResult, NoAnswer
from windlass.config import BadSetting
from windlass.config.settings import OidcProvider
from windlass.core.access import Scope

ADA = "ada@example.com"
CLIENT = "console-of-acme"


class CodeIssuer(Issuer):
    """The issuer, with the two endpoints of the code flow; it sees what it is sent, and checks the proof."""

    person_now = ADA
    claims: Mapping[str, Any] = {}
    endpoint_issuer = ""
    endpoints: Mapping[str, str] = {}
    """Endpoints that it publishes instead of its own."""
    is_unavailable = False

    def _documents(self) -> dict[str, Any]:
        documents = super()._documents()
        documents["/.well-known/openid-configuration"] |= {
            "issuer": self.endpoint_issuer or self.address,
            "authorization_endpoint": f"{self.address}/authorize?tenant=acme",
            "token_endpoint": f"{self.address}/token",
            **self.endpoints,
        }
        return documents

    def approve(self, url: str) -> tuple[str, str]:
        """The person says yes: returns the code and the state that the browser brings back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (asked["response_type"], asked["code_challenge_method"], asked["client_id"]) == (
            "code",
            "S256",
            CLIENT,
        )
        self.asked_now = asked
        return "code-1", asked["state"]

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None, **_: Any
    ) -> HttpResult:
        assert (method, url) == ("POST", f"{self.address}/token")
        if self.is_unavailable:
            raise NoAnswer("no route")
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        credentials = base64.b64decode((headers or {})["Authorization"].removeprefix("Basic "))
        ok = (
            form["code"] == "code-1"
            and challenge.rstrip(b"=").decode() == self.asked_now["code_challenge"]
            and form["redirect_uri"] == self.asked_now["redirect_uri"]
            and credentials == f"{CLIENT}:s%2F3cret".encode()
        )
        answer = {"id_token": self._id_token()} if ok else {"error": "invalid_grant"}
        return HttpResult(200 if ok else 400, {}, json.dumps(answer).encode(), False, 1)

    def _id_token(self) -> str:
        claims = {"aud": CLIENT, "nonce": self.asked_now["nonce"]} | dict(self.claims)
        return self.person(self.person_now, **claims).removeprefix("Bearer ")

    async def close(self) -> None:
        """Has nothing to close."""


def provider_of(issuer: CodeIssuer) -> tuple[OidcProvider]:
    """The setting with the issuer as the only provider."""
    options: dict[str, Any] = {"client_id": CLIENT, "client_secret": "s/3cret", "title": "Acme"}
    return (OidcProvider(name="acme", issuer=issuer.address, **options),)


@pytest.fixture
def issuer(clock):
    return CodeIssuer(clock)


@pytest.fixture
async def world(database_url, clock, issuer):
    async with make_world(
        database_url, clock=clock, fetcher=issuer.fetch, out=issuer, oidc_providers=provider_of(issuer)
    ) as made:
        yield made


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser(world)


async def come_back(browser: Browser, issuer: CodeIssuer, **changes: str) -> Answer:
    """Goes to the provider, says yes there, and comes back."""
    started = await browser.call("GET", "/account/signInProvider/acme/start")
    assert started.status == 302, started
    code, state = issuer.approve(started.headers["location"])
    query = {"code": code, "state": state} | changes
    return await browser.call(
        "GET", "/account/signInProvider/acme/answer?" + "&".join(f"{k}={v}" for k, v in query.items())
    )


def problem(answer: Answer) -> str:
    assert answer.status == 302, answer
    return answer.headers["location"].partition("#problem=")[2]


async def test_a_member_signs_in(world, issuer, browser):
    await invite(world, ADA, Scope.WRITE)
    answer = await come_back(browser, issuer)
    browser.key = answer.headers["location"].partition("#key=")[2]
    account = (await browser.call("GET", "/account")).json
    assert (account["name"], account["is_person"]) == (ADA, True)
    assert [org["scopes"] for org in account["organizations"]] == [["Read", "Write"]]
    (event,) = await events(world, eventType="SIGN_IN")
    assert event["triggered_by"] == ADA


async def test_a_changed_role_applies_to_a_browser_session_at_once_and_a_removal_ends_it(
    world, issuer, browser
):
    await invite(world, ADA, Scope.READ)
    answer = await come_back(browser, issuer)
    browser.key = answer.headers["location"].partition("#key=")[2]
    (member,) = (await world.get(f"/organization/{world.org}/member"))["results"]
    roles = (await world.get(f"/organization/{world.org}/availableRole"))["results"]
    (admin,) = [role["id"] for role in roles if role["name"] == "Admin"]
    create = ("POST", f"/organization/{world.org}/project", {"name": "x"})
    assert (await browser.call(*create)).status == 403
    await world.put(f"/organization/{world.org}/member", {"user_id": member["id"], "role_id": admin})
    assert (await browser.call(*create)).status == 200
    await world.delete(f"/organization/{world.org}/member", {"user_id": member["id"]})
    assert not await browser.is_signed_in()


@pytest.mark.parametrize(("azp", "is_taken"), [({}, False), ({"azp": CLIENT}, True)])
async def test_a_token_for_several_audiences_must_name_windlass_as_authorized_party(
    world, issuer, browser, azp, is_taken
):
    await invite(world, ADA, Scope.READ)
    issuer.claims = {"aud": [CLIENT, "another client"]} | azp
    answer = await come_back(browser, issuer)
    assert ("#key=" in answer.headers["location"]) is is_taken


async def test_a_provider_callback_can_be_used_only_once(world, issuer, browser):
    """The provider of this test takes its code again and again."""
    await invite(world, ADA, Scope.READ)
    started = await browser.call("GET", "/account/signInProvider/acme/start")
    memory = dict(browser.cookies)
    code, state = issuer.approve(started.headers["location"])
    path = f"/account/signInProvider/acme/answer?code={code}&state={state}"
    assert "#key=" in (await browser.call("GET", path)).headers["location"]
    thief = Browser(world)
    thief.cookies = memory
    assert problem(await thief.call("GET", path)) == "lost"
    assert "#key=" in (await come_back(Browser(world), issuer)).headers["location"]


async def test_a_person_who_is_not_a_member_is_refused_and_audited(world, issuer, browser):
    assert problem(await come_back(browser, issuer)) == "no_member"
    (event,) = await events(world, eventType="SIGN_IN_REFUSED")
    assert event["triggered_by"] == ADA


async def test_the_list_of_sign_in_providers_is_public_and_has_no_secrets(world):
    answer = await world.get("/account/signInProvider", token=None)
    (shown,) = answer["results"]
    assert (shown["name"], shown["title"]) == ("acme", "Acme")
    assert shown["callback_url"].endswith("/account/signInProvider/acme/answer")
    assert [provider["name"] for provider in answer["further"]] == ["github", "gitlab", "google"]
    assert "s/3cret" not in str(answer.json)
    assert [name for name, value in answer.json.items() if value is True] == ["password", "can_invite"]


async def test_a_provider_callback_with_another_state_is_refused(world, issuer, browser):
    await invite(world, ADA, Scope.READ)
    assert problem(await come_back(browser, issuer, state="guessed")) == "lost"
    assert "windlass_session" not in browser.cookies


async def test_a_sign_in_started_from_another_site_redirects_to_the_console(world, browser):
    start = "/account/signInProvider/acme/start"
    for site in ("same-site", "cross-site"):
        answer = await browser.call("GET", start, headers={"sec-fetch-site": site})
        assert (answer.status, answer.headers["location"]) == (302, "/console/")
        assert "set-cookie" not in answer.headers
    for site in ("same-origin", "none"):
        answer = await browser.call("GET", start, headers={"sec-fetch-site": site})
        assert "set-cookie" in answer.headers


async def test_a_provider_callback_in_another_browser_is_refused(world, issuer, browser):
    """A link to an answer, sent to another person, does not sign that person in as the sender."""
    await invite(world, ADA, Scope.READ)
    started = await browser.call("GET", "/account/signInProvider/acme/start")
    code, state = issuer.approve(started.headers["location"])
    other = Browser(world)
    answer = await other.call("GET", f"/account/signInProvider/acme/answer?code={code}&state={state}")
    assert problem(answer) == "lost"


async def test_a_sign_in_that_takes_too_long_begins_again(world, issuer, browser):
    await invite(world, ADA, Scope.READ)
    started = await browser.call("GET", "/account/signInProvider/acme/start")
    code, state = issuer.approve(started.headers["location"])
    world.clock.turn(601)
    answer = await browser.call("GET", f"/account/signInProvider/acme/answer?code={code}&state={state}")
    assert problem(answer) == "lost"


@pytest.mark.parametrize(
    "claims",
    [{"nonce": "of another sign-in"}, {"aud": "another client"}, {"iss": "https://evil.example"}, {"exp": 1}],
    ids=lambda claims: next(iter(claims)),
)
async def test_an_id_token_with_another_nonce_audience_or_time_is_refused(world, issuer, browser, claims):
    await invite(world, ADA, Scope.READ)
    issuer.claims = claims
    assert problem(await come_back(browser, issuer)) == ("clock" if "exp" in claims else "refused")


async def test_a_sign_in_with_a_wrong_authorization_code_is_refused(world, issuer, browser):
    await invite(world, ADA, Scope.READ)
    assert problem(await come_back(browser, issuer, code="guessed")) == "refused"


async def test_a_person_who_declines_at_the_provider_returns_to_the_sign_in_page(world, issuer, browser):
    assert problem(await come_back(browser, issuer, code="")) == "refused"


async def test_an_unreachable_provider_is_reported_as_unreachable(world, issuer, browser):
    issuer.down = True
    answer = await browser.call("GET", "/account/signInProvider/acme/start")
    assert problem(answer) == "unreachable"
    issuer.down = False
    issuer.is_unavailable = True
    assert problem(await come_back(browser, issuer)) == "unreachable"


async def test_a_provider_whose_issuer_differs_is_not_called(world, issuer, browser):
    issuer.endpoint_issuer = "https://evil.example"
    assert problem(await browser.call("GET", "/account/signInProvider/acme/start")) == "broken"


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
@pytest.mark.parametrize(
    "address", ["http://login.example.com/x", "javascript:alert(1)", "https://login.example.com/\u202e", "/x"]
)
async def test_no_code_and_no_secret_go_to_an_endpoint_without_https(world, issuer, browser, name, address):
    """Negative control: `test_a_member_signs_in`."""
    issuer.endpoints = {name: address}
    assert problem(await browser.call("GET", "/account/signInProvider/acme/start")) == "broken"


@pytest.mark.parametrize(
    "query",
    [
        "&".join(f"a{number}=1" for number in range(100)),
        "code=%ff&state=%00",
        "code=a;b&state=%e9",
        "&&=&",
        "code",
    ],
)
async def test_a_malformed_provider_callback_is_refused(world, issuer, browser, query):
    await invite(world, ADA, Scope.READ)
    await browser.call("GET", "/account/signInProvider/acme/start")
    assert problem(await browser.call("GET", f"/account/signInProvider/acme/answer?{query}")) == "lost"


async def test_an_unverified_address_does_not_match_an_invitation(world, issuer, browser):
    await invite(world, ADA, Scope.ADMIN)
    issuer.claims = {"email_verified": False}
    assert problem(await come_back(browser, issuer)) == "no_email"


async def test_an_answer_in_the_name_of_another_issuer_is_refused(world, issuer, browser):
    """A provider that is in another's hands could pass on the codes of this one (RFC 9207)."""
    await invite(world, ADA, Scope.READ)
    assert problem(await come_back(browser, issuer, iss="https://evil.example")) == "refused"
    assert "#key=" in (await come_back(browser, issuer, iss=issuer.address)).headers["location"]


async def test_an_unknown_provider_is_not_found(world, browser):
    assert (await browser.call("GET", "/account/signInProvider/other/start")).status == 404


async def test_the_providers_token_is_no_credential_of_the_api(world, issuer):
    """It is for the client of the console. Tokens for the API come from `oidc_issuer`."""
    await invite(world, ADA, Scope.READ)
    header = issuer.person(ADA, aud=CLIENT)
    assert (await world.get("/organization", token=header)).status == 401


@pytest.mark.parametrize("is_issuer", [True, False])
async def test_oidc_join_applies_only_to_providers_with_the_apis_issuer(
    database_url, clock, issuer, is_issuer: bool
):
    """At another provider of the console, anybody in the world may have an account."""
    async with make_world(
        database_url,
        clock=clock,
        fetcher=issuer.fetch,
        out=issuer,
        oidc_providers=provider_of(issuer),
        oidc_issuer=issuer.address if is_issuer else "https://another.example",
        oidc_join="Admin",
    ) as world:
        answer = await come_back(Browser(world), issuer)
        assert ("#key=" in answer.headers["location"]) is is_issuer


async def test_oidc_join_without_oidc_issuer_is_refused_at_the_start(issuer):
    with pytest.raises(BadSetting, match="oidc_join: set oidc_issuer too"):
        async with make_world(oidc_providers=provider_of(issuer), oidc_join="Read"):
            pass


async def test_sessions_of_a_provider_end_when_it_is_removed_from_the_settings(
    database_url, clock, issuer, tmp_path
):
    """The provider may have been taken out because its accounts are in wrong hands."""
    settings = {"database_url": database_url, "clock": clock, "fetcher": issuer.fetch, "out": issuer}
    async with make_world(folder=tmp_path, oidc_providers=provider_of(issuer), **settings) as world:
        await invite(world, ADA, Scope.WRITE)
        browser = Browser(world)
        answer = await come_back(browser, issuer)
        browser.key = answer.headers["location"].partition("#key=")[2]
    for kept, status in ((provider_of(issuer), 200), ((), 401)):
        async with make_world(folder=tmp_path, oidc_providers=kept, **settings) as world:
            browser.go_to(world)
            assert (await browser.call("GET", "/account")).status == status
