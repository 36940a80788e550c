"""GitHub, GitLab and Google: a client id and a secret are enough. The answers are those of their published
documentation, and some that it does not have."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from click.testing import CliRunner

from tests.identity.browsers import Browser
from tests.identity.issuer import invite
from tests.identity.test_provider_sign_ins import CLIENT, CodeIssuer
from tests.world import Answer, make_world
from windlass.base.http_out import HttpResult, NoAnswer
from windlass.config.settings import OidcProvider
from windlass.core.access import Scope
from windlass.operate.user_commands import user

ADA, WORK, EVE = "ada@example.com", "ada@work.example", "eve@example.com"
SECRET = "s/3cret"


def address(email: str, *, verified: bool = True, primary: bool = False) -> dict[str, Any]:
    return {"email": email, "verified": verified, "primary": primary, "visibility": None}


class FakeGitHub:
    """The four addresses of GitHub that a sign-in needs. A test may replace each answer."""

    def __init__(self, site: str = "https://github.com", api: str = "https://api.github.com") -> None:
        self.site, self.api = site, api
        self.account: dict[str, Any] = {"id": 583231, "login": "ada", "name": "Ada Lovelace"}
        self.addresses = [address(ADA, primary=True)]
        self.instead: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self.question: dict[str, str] = {}

    def approve(self, url: str) -> tuple[str, str]:
        page, _, query = url.partition("?")
        assert page == f"{self.site}/login/oauth/authorize"
        self.question = {name: values[0] for name, values in parse_qs(query).items()}
        assert (self.question["client_id"], self.question["scope"]) == (CLIENT, "user:email")
        return "code-1", self.question["state"]

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None, **_: Any
    ) -> HttpResult:
        self.asked.append(url)
        path = urlsplit(url).path
        status, answer = self.instead.get(path.rpartition("/")[2]) or (200, b"")
        if status == 0:
            raise NoAnswer("no route")
        if not answer and status == 200:
            answer = json.dumps(self._answer(method, url, body, headers or {})).encode()
        return HttpResult(status, {}, answer, False, 1)

    def _answer(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Any:
        if url == f"{self.site}/login/oauth/access_token":
            return self._grant(method, {name: values[0] for name, values in parse_qs(body.decode()).items()})
        assert (method, headers["Authorization"]) == ("GET", "Bearer gho_16C7e42F292c6912E7")
        return {
            f"{self.api}/user": self.account,
            f"{self.api}/user/emails?per_page=100": self.addresses,
        }[url]

    def _grant(self, method: str, form: Mapping[str, str]) -> dict[str, str]:
        assert method == "POST"
        if (form["client_id"], form["client_secret"]) != (CLIENT, SECRET):
            return {"error": "incorrect_client_credentials", "error_description": "The client_id …"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if (
            form["code"] != "code-1"
            or challenge.rstrip(b"=").decode() != self.question["code_challenge"]
            or form["redirect_uri"] != self.question["redirect_uri"]
        ):
            return {"error": "bad_verification_code", "error_description": "The code passed is incorrect"}
        return {"access_token": "gho_16C7e42F292c6912E7", "scope": "user:email", "token_type": "bearer"}

    async def fetch(self, url: str) -> bytes:
        raise NoAnswer(f"GitHub publishes no document at {url}")

    async def close(self) -> None:
        """Has nothing to close."""


@pytest.fixture
def github():
    return FakeGitHub()


@pytest.fixture
async def world(database_url, clock, github):
    providers = (OidcProvider(kind="github", client_id=CLIENT, client_secret=SECRET),)
    async with make_world(database_url, clock=clock, out=github, oidc_providers=providers) as made:
        yield made


async def come_back(browser: Browser, provider: Any, name: str = "github", **changes: str) -> Answer:
    started = await browser.call("GET", f"/account/signInProvider/{name}/start")
    assert started.status == 302, started
    code, state = provider.approve(started.headers["location"])
    query = {"code": code, "state": state} | changes
    path = f"/account/signInProvider/{name}/answer?" + "&".join(f"{k}={v}" for k, v in query.items())
    answer = await browser.call("GET", path)
    browser.key = answer.headers["location"].partition("#key=")[2]
    return answer


def outcome(answer: Answer) -> str:
    """Returns the problem, or `in`."""
    place = answer.headers["location"]
    return place.partition("#problem=")[2] or ("in" if "#key=" in place else place)


async def who(browser: Browser) -> tuple[str, int]:
    account = (await browser.call("GET", "/account")).json
    return account["name"], len(account["organizations"])


async def test_a_person_signs_in_at_github_with_a_client_id_and_a_secret(world, github):
    ways = (await world.get("/account/signInProvider", token=None)).json
    assert [(way["name"], way["title"]) for way in ways["results"]] == [("github", "GitHub")]
    await invite(world, ADA, Scope.WRITE)
    browser = Browser(world)
    assert outcome(await come_back(browser, github)) == "in"
    assert await who(browser) == (ADA, 1)
    assert github.question["redirect_uri"] == ways["results"][0]["callback_url"]


async def test_the_account_at_github_stays_the_same_person_under_another_name_and_address(world, github):
    await invite(world, ADA, Scope.READ)
    await come_back(Browser(world), github)
    github.account = {"id": 583231, "login": "countess", "name": None}
    github.addresses = [address("countess@example.com", primary=True)]
    browser = Browser(world)
    assert outcome(await come_back(browser, github)) == "in"
    assert await who(browser) == (ADA, 1)


async def test_another_account_at_github_with_the_address_of_a_member_is_another_person(world, github):
    """An address that a member has given up may be somebody else's by now."""
    await invite(world, ADA, Scope.READ)
    await come_back(Browser(world), github)
    github.account = {"id": 7, "login": "ada2", "name": "Ada"}
    assert outcome(await come_back(Browser(world), github)) == "no_member"


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([address(ADA, primary=True)], "in"),
        ([address(EVE, primary=True), address(ADA)], "in"),
        ([address(ADA.upper(), primary=True)], "in"),
        ([address(EVE, primary=True)], "no_member"),
        ([address(ADA, verified=False, primary=True)], "no_email"),
        ([address(EVE, primary=True), address(ADA, verified=False)], "no_member"),
        ([address("\u212a" + ADA[1:], primary=True)], "no_member"),
        ([], "no_email"),
    ],
)
async def test_only_a_verified_address_at_github_accepts_an_invitation(world, github, addresses, expected):
    await invite(world, ADA, Scope.READ)
    github.addresses = addresses
    assert outcome(await come_back(Browser(world), github)) == expected


async def test_a_member_joins_another_organization_by_a_second_verified_address(world, github):
    second = (await world.post("/organization", {"name": "Second"})).json
    await invite(world, ADA, Scope.READ)
    await invite(world, WORK, Scope.READ, second["id"], token=second["admin_token"])
    github.addresses = [address(ADA, primary=True), address(WORK)]
    for organizations in (1, 2):
        browser = Browser(world)
        assert outcome(await come_back(browser, github)) == "in"
        assert (await who(browser))[1] == organizations


@pytest.mark.parametrize(
    ("place", "answer", "expected"),
    [
        ("access_token", (200, b'{"error": "bad_verification_code"}'), "refused"),
        ("access_token", (200, b'{"error": "incorrect_client_credentials"}'), "client"),
        ("access_token", (200, b'{"error": "redirect_uri_mismatch"}'), "client"),
        ("access_token", (200, b'{"error": "unverified_user_email"}'), "no_email"),
        ("access_token", (404, b'{"error": "Not Found"}'), "client"),
        ("access_token", (502, b"<html>Unicorn"), "unreachable"),
        ("access_token", (0, b""), "unreachable"),
        ("access_token", (200, b"access_token=gho_1&scope=user"), "broken"),
        ("access_token", (200, b'{"access_token": "a\\r\\nX-Injected: 1"}'), "broken"),
        ("access_token", (200, b'{"access_token": ""}'), "broken"),
        ("user", (401, b'{"message": "Bad credentials"}'), "broken"),
        ("user", (200, b'{"login": "ada"}'), "broken"),
        ("user", (200, b'{"id": "583231"}'), "broken"),
        ("user", (200, b'{"id": 0}'), "broken"),
        ("user", (503, b""), "unreachable"),
        ("emails", (403, b'{"message": "Resource not accessible by integration"}'), "broken"),
        ("emails", (200, b'{"email": "ada@example.com", "verified": true}'), "broken"),
        ("emails", (200, b'[{"email": "ada@example.com", "verified": "true"}]'), "broken"),
        ("emails", (200, b"[" * 100_000), "broken"),
    ],
)
async def test_each_failure_of_github_leads_to_a_problem_in_plain_words(
    world, github, caplog, place, answer, expected
):
    await invite(world, ADA, Scope.READ)
    github.instead = {place: answer}
    assert outcome(await come_back(Browser(world), github)) == expected
    assert any(getattr(record, "provider", "") == "github" for record in caplog.records)


@pytest.mark.parametrize(
    ("site", "api"),
    [
        ("https://git.example.com", "https://git.example.com/api/v3"),
        ("https://acme.ghe.com", "https://api.acme.ghe.com"),
    ],
)
async def test_the_address_of_an_own_github_leads_to_its_api(database_url, clock, site, api):
    github = FakeGitHub(site, api)
    provider = OidcProvider(kind="github", issuer=f"{site}/", client_id=CLIENT, client_secret=SECRET)
    async with make_world(database_url, clock=clock, out=github, oidc_providers=(provider,)) as world:
        await invite(world, ADA, Scope.READ)
        assert outcome(await come_back(Browser(world), github)) == "in"
        hosts = {urlsplit(url).hostname for url in github.asked}
        assert hosts == {urlsplit(site).hostname, urlsplit(api).hostname}


def code_world(database_url: str, clock: Any, fake: CodeIssuer, **provider: Any) -> Any:
    chosen = OidcProvider(client_id=CLIENT, client_secret=SECRET, **provider)
    return make_world(database_url, clock=clock, fetcher=fake.fetch, out=fake, oidc_providers=(chosen,))


@pytest.mark.parametrize(
    ("email", "claims", "expected"),
    [
        ("ada@gmail.com", {}, "in"),
        (ADA, {"hd": "example.com"}, "in"),
        (ADA, {}, "no_email"),
        (ADA, {"hd": ""}, "no_email"),
        (ADA, {"hd": True}, "no_email"),
        ("ada@gmail.com.evil.example", {}, "no_email"),
        ("ada@gmail.com", {"email_verified": False}, "no_email"),
        ("ada@gmail.com", {"email_verified": "true"}, "no_email"),
    ],
)
async def test_google_vouches_only_for_addresses_that_it_manages(
    database_url, clock, email, claims, expected
):
    """Other addresses were verified once, and may have gone to somebody else."""
    issuer = CodeIssuer(clock, "https://accounts.google.com")
    issuer.person_now, issuer.claims = email, claims
    async with code_world(database_url, clock, issuer, kind="google") as world:
        await invite(world, email, Scope.READ)
        assert outcome(await come_back(Browser(world), issuer, "google")) == expected


@pytest.mark.parametrize("own", ["", "https://gitlab.example.com"])
async def test_a_person_signs_in_at_gitlab_or_an_own_one(database_url, clock, own):
    issuer = CodeIssuer(clock, own or "https://gitlab.com")
    issuer.claims = {"sub": "42"}
    async with code_world(database_url, clock, issuer, kind="gitlab", issuer=own) as world:
        await invite(world, ADA, Scope.READ)
        assert outcome(await come_back(Browser(world), issuer, "gitlab")) == "in"


async def test_an_answer_is_taken_only_by_the_provider_at_which_the_sign_in_began(database_url, clock):
    """Otherwise one provider could finish what a person has begun at another."""
    github = FakeGitHub()
    providers = tuple(
        OidcProvider(kind="github", name=name, client_id=CLIENT, client_secret=SECRET)
        for name in ("github", "other")
    )
    async with make_world(database_url, clock=clock, out=github, oidc_providers=providers) as world:
        await invite(world, ADA, Scope.READ)
        browser = Browser(world)
        started = await browser.call("GET", "/account/signInProvider/github/start")
        code, state = github.approve(started.headers["location"])
        for name, expected in (("other", "lost"), ("github", "in")):
            memory = dict(browser.cookies)
            path = f"/account/signInProvider/{name}/answer?code={code}&state={state}"
            assert outcome(await browser.call("GET", path)) == expected
            browser.cookies = memory


async def test_no_answer_of_a_provider_leads_to_another_site(world, github):
    await invite(world, ADA, Scope.READ)
    evil = "https://evil.example/"
    more = {"redirect_uri": evil, "next": evil, "return_to": evil}
    answer = await come_back(Browser(world), github, **more)
    assert answer.headers["location"].startswith("/console/#key=")
    started = await Browser(world).call(
        "GET", f"/account/signInProvider/github/start?redirect_uri={evil}", headers={"host": "evil.example"}
    )
    assert "evil.example" not in started.headers["location"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"client_id": "a"}, "name is required, unless kind is github"),
        ({"client_id": "a", "name": "acme"}, "issuer is required"),
        ({"client_id": "a", "kind": "github"}, "GitHub takes no client without one"),
        ({"client_id": "a", "kind": "google"}, "Google takes no client without one"),
        ({"client_id": "a", "kind": "bitbucket"}, "bitbucket"),
    ],
)
def test_a_provider_that_lacks_something_is_refused_at_the_start(setting, message):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert((setting,), tuple[OidcProvider, ...])


def test_the_operator_is_told_the_callback_address_of_each_provider(monkeypatch, tmp_path):
    provider = {"kind": "github", "client_id": CLIENT, "client_secret": SECRET}
    monkeypatch.setenv("WINDLASS_OIDC_PROVIDERS", json.dumps([provider]))
    monkeypatch.setenv("WINDLASS_PUBLIC_URL", "https://windlass.example.com/")
    options = ["providers", "--data-dir", str(tmp_path / "none yet"), "--json"]
    result = CliRunner().invoke(user, options)
    assert result.exit_code == 0, result.output
    shown = {each["name"]: each for each in json.loads(result.stdout)["results"]}
    assert shown["github"]["is_set_up"]
    assert not shown["google"]["is_set_up"]
    assert (
        shown["google"]["callback_url"] == "https://windlass.example.com/account/signInProvider/google/answer"
    )
    assert SECRET not in result.output
