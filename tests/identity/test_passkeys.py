"""Passkeys: added on the page of the account, they sign in alone or beside the password. Each rule of the
standard is broken once; the same sign-in without the break succeeds (`test_a_passkey_signs_in_alone`)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from tests.audit.asking import events
from tests.identity.authenticator import PRESENT, VERIFIED, Authenticator
from tests.identity.browsers import Browser
from tests.identity.issuer import members
from tests.identity.mail_server import MailServer
from tests.identity.people import PASSWORD, code_in, new_person, sign_in, use_link
from tests.world import Answer, World, make_world
from windlass.base.webauthn import PasskeyRefused, WebAuthn, from_base64url, to_base64url

ADA, EVE = "ada@example.com", "eve@example.com"
URL = "https://windlass.example.com"


@pytest.fixture
async def world(database_url, clock):
    async with make_world(database_url, clock=clock, public_url=URL) as made:
        yield made


@pytest.fixture
def device():
    return Authenticator(URL)


async def begin(browser: Browser, password: str = PASSWORD) -> Answer:
    return await browser.call("POST", "/account/passkey", {"password": password})


async def add(browser: Browser, device: Authenticator, name: str = "Phone") -> Answer:
    begun = await begin(browser)
    assert begun.status == 201, begun
    return await browser.call("PUT", "/account/passkey", {"passkey": device.create(begun.json), "name": name})


async def person_with_passkey(
    world: World, device: Authenticator, email: str = ADA
) -> tuple[Browser, list[str]]:
    browser = await new_person(world, email)
    answer = await add(browser, device)
    assert answer.status == 200, answer
    return browser, answer["recovery_codes"]


async def challenge(browser: Browser) -> dict[str, Any]:
    answer = await browser.call("POST", "/account/passkeyChallenge", {})
    assert answer.status == 201, answer
    return dict(answer.json)


async def send(browser: Browser, passkey: dict[str, str], **more: Any) -> Answer:
    answer = await browser.call("POST", "/account/browserSession", {"passkey": passkey}, **more)
    if answer.status == 201:
        browser.key = answer["page_key"]
    return answer


async def sign_in_alone(browser: Browser, device: Authenticator) -> Answer:
    return await send(browser, device.sign(await challenge(browser)))


async def passkeys(browser: Browser) -> list[dict[str, Any]]:
    return list((await browser.call("GET", "/account"))["person"]["passkeys"])


async def test_a_passkey_signs_in_alone(world, device):
    await person_with_passkey(world, device)
    browser = Browser(world)
    assert (await sign_in_alone(browser, device)).status == 201
    assert (await browser.call("GET", "/account"))["name"] == ADA
    assert (await passkeys(browser))[0]["last_used_at"]


async def test_a_passkey_is_a_second_factor_beside_the_password(world, device):
    await person_with_passkey(world, device)
    browser = Browser(world)
    further = await sign_in(browser, ADA)
    assert (further.status, further["next"], further["setup"]) == (200, "SECOND_FACTOR", None)
    device.flags = PRESENT  # the password has been asked for already
    body = {"email": ADA, "password": PASSWORD, "passkey": device.sign(further["passkey"])}
    assert (await browser.call("POST", "/account/browserSession", body)).status == 201


async def test_a_passkey_does_not_replace_a_wrong_password(world, device):
    await person_with_passkey(world, device)
    browser = Browser(world)
    further = await sign_in(browser, ADA)
    body = {"email": ADA, "password": "not the password", "passkey": device.sign(further["passkey"])}
    assert (await browser.call("POST", "/account/browserSession", body)).status == 401


async def test_a_recovery_code_signs_in_a_person_who_lost_the_only_passkey(world, device):
    _, codes = await person_with_passkey(world, device)
    assert len(codes) == 10
    for code, status in ((codes[0], 201), (codes[0], 401), ("000000", 401), (codes[1], 201)):
        body = {"email": ADA, "password": PASSWORD, "second_factor": code}
        assert (await Browser(world).call("POST", "/account/browserSession", body)).status == status


async def test_passkeys_are_listed_renamed_and_removed(world, device):
    browser, codes = await person_with_passkey(world, device)
    world.clock.turn(1)  # they are listed by age
    assert (await add(browser, Authenticator(URL), "Key"))["recovery_codes"] == []
    first, second = await passkeys(browser)
    assert (first["name"], second["name"], first["last_used_at"]) == ("Phone", "Key", None)
    path = f"/account/passkey/{first['id']}"
    assert (await browser.call("PATCH", path, {"name": "Old phone"})).status == 204
    assert [each["name"] for each in await passkeys(browser)] == ["Old phone", "Key"]
    assert (await browser.call("DELETE", path, {"password": "not the password"})).status == 400
    assert (await browser.call("DELETE", path, {"password": PASSWORD})).status == 204
    assert (await browser.call("DELETE", path, {"password": PASSWORD})).status == 404
    assert (await sign_in_alone(Browser(world), device)).status == 401
    assert (await browser.call("GET", "/account"))["person"]["recovery_codes_left"] == 10
    kinds = [event["event_type"] for event in await events(world) if "SECOND_FACTOR" in event["event_type"]]
    assert sorted(kinds) == ["SECOND_FACTOR_ADDED"] * 2 + ["SECOND_FACTOR_REMOVED"]
    path = f"/account/passkey/{second['id']}"
    assert (await browser.call("DELETE", path, {"password": PASSWORD})).status == 204
    assert (await browser.call("GET", "/account"))["person"]["recovery_codes_left"] == 0
    assert (await sign_in(Browser(world), ADA)).status == 201
    assert (await use_code(world, codes[0])).status == 201, "the password is enough again"


async def use_code(world: World, code: str) -> Answer:
    body = {"email": ADA, "password": PASSWORD, "second_factor": code}
    return await Browser(world).call("POST", "/account/browserSession", body)


async def test_passkeys_of_another_person_cannot_be_changed(world, device):
    browser, _ = await person_with_passkey(world, device)
    eve = await new_person(world, EVE)
    path = f"/account/passkey/{(await passkeys(browser))[0]['id']}"
    assert (await eve.call("PATCH", path, {"name": "Mine"})).status == 404
    assert (await eve.call("DELETE", path, {"password": PASSWORD})).status == 404
    assert (await browser.call("PATCH", path, {"name": "Mine"})).status == 204


async def test_a_stolen_session_adds_no_passkey(world, device):
    browser = await new_person(world, ADA)
    assert (await begin(browser, "not the password")).status == 400
    assert (await begin(browser)).status == 201


async def test_a_new_passkey_ends_all_other_sessions(world, device):
    browser = await new_person(world, ADA)
    other = Browser(world)
    await sign_in(other, ADA)
    assert (await add(browser, device)).status == 200
    assert not await other.is_signed_in()
    assert await browser.is_signed_in()


async def test_an_admin_and_the_link_of_the_operator_remove_lost_passkeys(world, device):
    await person_with_passkey(world, device)
    member = (await members(world))[ADA]["id"]
    path = f"/organization/{world.org}/member"
    assert (await world.post(f"{path}/secondFactorReset", {"user_id": member})).status == 204
    assert (await sign_in_alone(Browser(world), device)).status == 401
    assert (await sign_in(Browser(world), ADA)).status == 201


async def test_a_new_password_by_a_link_needs_the_passkey_too(world, device):
    await person_with_passkey(world, device)
    member = (await members(world))[ADA]["id"]
    path = f"/organization/{world.org}/member/passwordReset"
    code = code_in((await world.post(path, {"user_id": member}))["url"])
    browser = Browser(world)
    further = await use_link(browser, code, "another good password")
    assert (further.status, further["next"]) == (200, "SECOND_FACTOR")
    body = {"code": code, "password": "another good password", "passkey": device.sign(further["passkey"])}
    assert (await browser.call("PUT", "/account/passwordLink", body)).status == 201


@pytest.mark.parametrize("removes", [True, False])
async def test_a_new_password_by_a_link_removes_all_other_passkeys_if_that_is_asked(world, device, removes):
    """Somebody who has had the password may have added one, which would outlive the new password."""
    browser, _ = await person_with_passkey(world, device)
    thief = Authenticator(URL)
    assert (await add(browser, thief)).status == 200
    member = (await members(world))[ADA]["id"]
    path = f"/organization/{world.org}/member/passwordReset"
    code = code_in((await world.post(path, {"user_id": member}))["url"])
    body = {"code": code, "password": "another good password", "remove_passkeys": removes}
    further = await Browser(world).call("PUT", "/account/passwordLink", body)
    body["passkey"] = device.sign(further["passkey"])
    assert (await Browser(world).call("PUT", "/account/passwordLink", body)).status == 201
    assert (await sign_in_alone(Browser(world), thief)).status == (401 if removes else 201)
    assert (await sign_in_alone(Browser(world), device)).status == 201


@pytest.mark.parametrize(("is_required", "status"), [(True, 200), (False, 201)])
async def test_a_recovery_code_with_a_link_can_remove_all_passkeys(
    database_url, clock, device, tmp_path, is_required, status
):
    options = {"clock": clock, "public_url": URL, "folder": tmp_path}
    async with make_world(database_url, **options) as world:
        _, codes = await person_with_passkey(world, device)
        member = (await members(world))[ADA]["id"]
        path = f"/organization/{world.org}/member/passwordReset"
        code = code_in((await world.post(path, {"user_id": member}))["url"])
    async with make_world(database_url, require_second_factor=is_required, **options) as world:
        body = {"code": code, "password": PASSWORD, "second_factor": codes[0], "remove_passkeys": True}
        answer = await Browser(world).call("PUT", "/account/passwordLink", body)
        assert answer.status == status, "a required second factor is added at the next sign-in"
        assert (await sign_in_alone(Browser(world), device)).status == 401


async def test_a_mail_tells_of_a_new_passkey(database_url, clock, device):
    async with MailServer() as mails:
        mailing: dict[str, Any] = {
            "smtp_host": "127.0.0.1",
            "smtp_port": mails.port,
            "smtp_security": "none",
        }
        async with make_world(database_url, clock=clock, public_url=URL, **mailing) as world:
            await person_with_passkey(world, device)
            mail = await mails.next()
    assert (mail["To"], mail["Subject"]) == (ADA, "A new passkey for Windlass")
    assert f"{URL}/console/account" in mail.get_content()


async def test_a_passkey_satisfies_a_required_second_factor_and_the_last_one_stays(
    database_url, clock, device, tmp_path
):
    options = {"clock": clock, "public_url": URL, "folder": tmp_path}
    async with make_world(database_url, **options) as world:
        browser, _ = await person_with_passkey(world, device)
    async with make_world(database_url, require_second_factor=True, **options) as world:
        browser.go_to(world)
        assert await browser.is_signed_in()
        path = f"/account/passkey/{(await passkeys(browser))[0]['id']}"
        assert (await browser.call("DELETE", path, {"password": PASSWORD})).status == 409
        assert (await sign_in_alone(Browser(world), device)).status == 201


# What is refused


def another_challenge(device: Authenticator) -> None:
    device.client = {"challenge": "A" * 43}


def another_page(device: Authenticator) -> None:
    device.origin = "https://evil.example"


def an_application_below(device: Authenticator) -> None:
    """A page of an application at a name below that of the server may ask for the passkeys of the server."""
    device.origin = "https://app.windlass.example.com"


def another_port(device: Authenticator) -> None:
    device.origin = f"{URL}:8443"


def plain_http(device: Authenticator) -> None:
    device.origin = URL.replace("https", "http")


def another_host(device: Authenticator) -> None:
    device.host = "evil.example"


def a_frame(device: Authenticator) -> None:
    device.client = {"crossOrigin": True}


def nobody_there(device: Authenticator) -> None:
    device.flags = VERIFIED


def another_kind(device: Authenticator) -> None:
    device.client = {"type": "payment.get"}


BREAKS = [
    another_challenge,
    another_page,
    an_application_below,
    another_port,
    plain_http,
    another_host,
    a_frame,
    nobody_there,
    another_kind,
]


@pytest.mark.parametrize("break_", BREAKS)
async def test_an_answer_of_an_authenticator_that_is_not_for_this_page_is_refused(world, device, break_):
    await person_with_passkey(world, device)
    break_(device)
    assert (await sign_in_alone(Browser(world), device)).status == 401


@pytest.mark.parametrize("break_", BREAKS)
async def test_a_passkey_that_is_not_for_this_page_is_not_added(world, device, break_):
    browser = await new_person(world, ADA)
    break_(device)
    assert (await add(browser, device)).status == 400
    assert await passkeys(browser) == []


async def test_another_key_does_not_sign_for_a_passkey(world, device):
    await person_with_passkey(world, device)
    thief = Authenticator(URL)
    thief.credential = device.credential
    assert (await sign_in_alone(Browser(world), thief)).status == 401
    assert (await sign_in_alone(Browser(world), device)).status == 201


async def test_a_passkey_without_pin_or_fingerprint_does_not_sign_in_alone(world, device):
    await person_with_passkey(world, device)
    device.flags = PRESENT
    assert (await sign_in_alone(Browser(world), device)).status == 401
    device.flags = PRESENT | VERIFIED
    assert (await sign_in_alone(Browser(world), device)).status == 201


async def test_an_answer_works_once(world, device):
    await person_with_passkey(world, device)
    answer = device.sign(await challenge(Browser(world)))
    assert (await send(Browser(world), answer)).status == 201
    assert (await send(Browser(world), answer)).status == 401


async def test_an_answer_works_for_five_minutes(world, device):
    await person_with_passkey(world, device)
    for seconds, status in ((299, 201), (301, 401)):
        answer = device.sign(await challenge(Browser(world)))
        world.clock.turn(seconds)
        assert (await send(Browser(world), answer)).status == status


async def test_a_copy_of_an_authenticator_is_refused(world, device):
    device.counter = 5
    await person_with_passkey(world, device)
    for counter, status in ((6, 201), (6, 401), (3, 401), (0, 401), (7, 201)):
        device.counter = counter
        assert (await sign_in_alone(Browser(world), device)).status == status


async def test_an_authenticator_without_a_counter_is_taken_again_and_again(world, device):
    await person_with_passkey(world, device)
    for _ in range(3):
        assert (await sign_in_alone(Browser(world), device)).status == 201


async def test_a_challenge_serves_only_its_purpose_and_its_person(world, device):
    browser, _ = await person_with_passkey(world, device)
    other = Authenticator(URL)
    await person_with_passkey(world, other, EVE)
    second = (await sign_in(Browser(world), ADA))["passkey"]
    alone = await challenge(Browser(world))
    to_add = (await begin(browser)).json

    def as_second(passkey: dict[str, str]) -> dict[str, Any]:
        return {"email": ADA, "password": PASSWORD, "passkey": passkey}

    for body, status in (
        ({"passkey": device.sign(second)}, 401),
        ({"passkey": device.sign(to_add)}, 401),
        (as_second(device.sign(alone)), 401),
        (as_second(other.sign(second)), 401),
        (as_second(device.sign(second)), 201),
    ):
        assert (await Browser(world).call("POST", "/account/browserSession", body)).status == status
    eve = Browser(world)
    await sign_in_alone(eve, other)
    made = {"passkey": Authenticator(URL).create(to_add), "name": "x"}
    assert (await eve.call("PUT", "/account/passkey", made)).status == 400
    assert (await browser.call("PUT", "/account/passkey", made)).status == 200


async def test_a_passkey_of_another_person_is_not_added_again(world, device):
    await person_with_passkey(world, device)
    eve = await new_person(world, EVE)
    assert (await add(eve, device)).status == 409
    assert (await add(eve, Authenticator(URL))).status == 200


async def test_a_passkey_sign_in_from_another_site_is_refused(world, device):
    """Otherwise a person would work in the account of the attacker, and leave secrets there."""
    await person_with_passkey(world, device)
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 201)):
        browser = Browser(world)
        answer = device.sign(await challenge(browser))
        assert (await send(browser, answer, headers={"sec-fetch-site": site})).status == status


async def test_a_sign_in_brings_new_secrets_whatever_the_browser_had(world, device):
    """A cookie that somebody has put into the browser before is no session afterwards."""
    await person_with_passkey(world, device)
    browser = Browser(world)
    begun = await challenge(browser)
    browser.cookies = {"__Host-windlass_session": "of-the-attacker"}
    assert (await send(browser, device.sign(begun))).status == 201
    assert "of-the-attacker" not in browser.cookies.values()
    assert await browser.is_signed_in()


@pytest.mark.parametrize("field", ["challenge", "credential", "client_data", "attestation"])
@pytest.mark.parametrize("value", ["", "A", "é", "AAAA", "_" * 3000, "bnVsbA", "W10", "e30"])
async def test_malformed_answers_are_refused_and_no_fault(world, device, field, value):
    browser = await new_person(world, ADA)
    begun = (await begin(browser)).json
    good = device.create(begun)
    answer = await browser.call("PUT", "/account/passkey", {"passkey": good | {field: value}, "name": "x"})
    assert answer.status == 400, answer
    assert (await browser.call("PUT", "/account/passkey", {"passkey": good, "name": "x"})).status == 200
    names = {"attestation": "signature"}
    bent = device.sign(await challenge(browser)) | {names.get(field, field): value}
    assert (await send(Browser(world), bent)).status == 401
    bent = device.sign(await challenge(browser)) | {"authenticator_data": value}
    assert (await send(Browser(world), bent)).status == 401


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        (URL, URL),
        (f"{URL}:8443", f"{URL}:8443"),
        (f"{URL}:443/", URL),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://windlass.localhost", "http://windlass.localhost"),
        ("http://windlass.example.com", ""),
        ("http://127.0.0.1:8080", ""),
        ("https://192.0.2.1", ""),
        ("https://[2001:db8::1]", ""),
    ],
)
async def test_passkeys_are_offered_where_browsers_have_them(database_url, clock, url, origin):
    async with make_world(database_url, clock=clock, public_url=url) as world:
        ways = await world.get("/account/signInProvider", token=None)
        assert ways["passkey_origin"] == origin
        answer = await Browser(world).call("POST", "/account/passkeyChallenge", {})
        assert answer.status == (201 if origin else 404)


async def test_passkeys_of_a_former_address_still_count_as_a_second_factor(
    database_url, clock, device, tmp_path
):
    """Otherwise a new address of the server would leave the password alone. Recovery codes help."""
    options = {"clock": clock, "folder": tmp_path}
    async with make_world(database_url, public_url=URL, **options) as world:
        _, codes = await person_with_passkey(world, device)
    async with make_world(database_url, public_url="https://new.example.com", **options) as world:
        assert (await sign_in_alone(Browser(world), device)).status == 401
        assert (await sign_in(Browser(world), ADA)).status == 200
        assert (await use_code(world, codes[0])).status == 201


def test_the_library_of_passkeys_is_not_imported_before_its_first_use():
    program = (
        "import sys, windlass.api.account, windlass.install.installation; "
        "print([name for name in sys.modules if name.partition('.')[0] == 'fido2'])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    later = program.replace("; print", "; import fido2.server; print")
    run = subprocess.run([sys.executable, "-c", later], capture_output=True, text=True, check=True)
    assert "fido2.server" in run.stdout


def test_bytes_that_no_authenticator_has_made_are_refused_by_name(device):
    """Each is refused as such, and none ends in a fault of the server."""
    webauthn, draw = WebAuthn("windlass.example.com", URL), random.Random(20)
    question = webauthn.ask_to_add("ada", ADA, "Ada", [])
    good = device.create({"challenge": "", "options": json.loads(question.options)})
    known = webauthn.read_added(
        question.challenge, good["credential"], good["client_data"], good["attestation"]
    )
    signed = device.sign({"challenge": "", "options": {"challenge": question.challenge}})
    refused = 0

    def bent(text: str) -> str:
        data = bytearray(from_base64url(text))
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        return to_base64url(bytes(data[: draw.choice((len(data), draw.randrange(len(data))))]))

    for _ in range(1500):
        for read in (
            lambda: webauthn.read_added(
                question.challenge, good["credential"], good["client_data"], bent(good["attestation"])
            ),
            lambda: webauthn.read_signed(
                question.challenge,
                known.public_key,
                good["credential"],
                signed["client_data"],
                bent(signed["authenticator_data"]),
                bent(signed["signature"]),
                verify_user=True,
            ),
        ):
            try:
                read()
            except PasskeyRefused:
                refused += 1
    assert refused > 2500


def test_deeply_nested_bytes_of_an_authenticator_are_refused(device):
    webauthn = WebAuthn("windlass.example.com", URL)
    question = webauthn.ask_to_add("ada", ADA, "Ada", [])
    good = device.create({"challenge": "", "options": json.loads(question.options)})
    for nested in (b"\x81" * 10_000, b"\xa1\x00" * 5000, b"\x9a\xff\xff\xff\xff", b"\x5a\xff\xff\xff\xff"):
        with pytest.raises(PasskeyRefused):
            webauthn.read_added(
                question.challenge, good["credential"], good["client_data"], to_base64url(nested)
            )
    client = to_base64url(b"[" * 10_000)
    with pytest.raises(PasskeyRefused):
        webauthn.read_added(question.challenge, good["credential"], client, good["attestation"])
    known = webauthn.read_added(
        question.challenge, good["credential"], good["client_data"], good["attestation"]
    )
    assert known.id == good["credential"]
