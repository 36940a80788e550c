"""People of a trusted issuer, and the permissions of members."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.base.oidc.provider import JWKS
from tests.base.oidc.provider import Provider as Publisher
from tests.forged_tokens import FORGED, VALID
from tests.identity.issuer import ABSENT, LIFETIME, Issuer, invitations, invite, joined, members, role
from tests.mint import ALGORITHMS, ISSUER, NOW, Mint
from tests.world import HandClock, make_world
from windlass.config import BadSetting
from windlass.core.access import Scope

ADA = "ada@example.com"
LEEWAY = 30


# Coming in


async def test_a_signed_in_person_without_membership_is_refused_with_a_remedy(world, issuer):
    answer = await world.get("/organization", token=issuer.person(ADA))
    assert answer.status == 403
    assert "ask an admin to invite you" in answer.message
    assert await members(world) == {}


async def test_an_invited_person_is_a_member_with_that_role_from_the_first_request(world, issuer):
    assert (await invite(world, ADA, Scope.WRITE)).status == 201
    ada = issuer.person(ADA, name="Ada")
    made = await world.post(f"/organization/{world.org}/project", {"name": "shop"}, token=ada)
    assert made.status == 200
    assert (await world.delete(f"/project/{made['id']}", token=ada)).status == 403
    known = (await members(world))[ADA]
    assert (known["name"], known["role_id"], known["role_name"]) == ("Ada", role(Scope.WRITE), "Write")
    assert await invitations(world) == []


NOT_VERIFIED: dict[str, dict[str, Any]] = {
    "no address": {"email": ABSENT},
    "an address of which nothing is said": {"email_verified": ABSENT},
    "an address that is not verified": {"email_verified": False},
    "the word true": {"email_verified": "true"},
    "the number one": {"email_verified": 1},
    "null": {"email_verified": None},
    "a list of addresses": {"email": [ADA]},
    "an address with a zero byte": {"email": ADA + "\0"},
    "two addresses in one": {"email": f"eve@example.com,{ADA}"},
    "an address with a blank": {"email": f" {ADA}"},
}


async def test_an_invitation_is_valid_only_for_its_exact_verified_address(world, issuer):
    await invite(world, ADA)
    for what, claims in NOT_VERIFIED.items():
        answer = await world.get("/organization", token=issuer.person(ADA, **claims))
        assert answer.status == 403, what
    assert await invitations(world) == [ADA]
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 200


async def test_addresses_are_compared_without_regard_to_case_but_look_alikes_are_others(world, issuer):
    await invite(world, "Kim.Strauss@Example.com")
    for other in ("\u212aim.strauss@example.com", "kim.strauß@example.com", "kım.strauss@example.com"):
        assert (await world.get("/organization", token=issuer.person(other))).status == 403, other
    assert (await world.get("/organization", token=issuer.person("kim.STRAUSS@example.com"))).status == 200


async def test_a_withdrawn_invitation_admits_no_one(world, issuer):
    invited = await invite(world, ADA)
    assert (await world.delete(f"/organization/{world.org}/inviteMember/{invited['id']}")).status == 204
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 403


async def test_inviting_an_invited_or_existing_member_is_refused(world, issuer):
    await invite(world, ADA)
    assert (await invite(world, ADA.upper())).status == 409
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 200
    again = await invite(world, ADA.upper())
    assert again.status == 409
    assert "is a member already" in again.message


async def test_many_first_requests_at_once_make_one_member(world, issuer):
    await invite(world, ADA, Scope.WRITE)
    headers = [issuer.person(ADA, jti=str(number)) for number in range(20)]
    answers = await asyncio.gather(*(world.get("/organization", token=header) for header in headers))
    assert {answer.status for answer in answers} == {200}
    assert list(await members(world)) == [ADA]


async def test_joining_records_the_new_member_and_the_used_invitation(world, issuer):
    await joined(world, issuer, ADA)
    families = [event.body for event in await world.events()][-2:]
    assert b'"family":"member"' in families[0]
    assert b'"family":"inviteMember"' in families[1]


async def test_with_oidc_join_everyone_of_the_issuer_becomes_a_member_with_that_role(
    database_url, trusting, issuer
):
    async with make_world(database_url, oidc_join="Deploy", **trusting) as world:
        for header in (
            issuer.person(ADA),
            issuer.token("robot"),
            issuer.person("bo@x.example", email_verified=0),
        ):
            assert (await world.get("/organization", token=header)).status == 200
        roles = {email: one["role_id"] for email, one in (await members(world)).items()}
        assert roles == dict.fromkeys([ADA, "robot", "id-of-bo@x.example"], role(Scope.DEPLOY))


async def test_the_role_of_an_invitation_takes_precedence_over_oidc_join(database_url, trusting, issuer):
    async with make_world(database_url, oidc_join="Read", **trusting) as world:
        await joined(world, issuer, ADA, Scope.ADMIN)
        assert (await members(world))[ADA]["role_id"] == role(Scope.ADMIN)


# Being in


async def test_a_changed_role_is_in_force_for_the_next_request(world, issuer):
    ada = await joined(world, issuer, ADA)
    user, path = (await members(world))[ADA]["id"], f"/organization/{world.org}"
    for scope, status in ((Scope.WRITE, 200), (Scope.READ, 403), (Scope.ADMIN, 200), (Scope.DEPLOY, 403)):
        change = {"user_id": user, "role_id": role(scope)}
        assert (await world.put(f"{path}/member", change)).status == 200
        made = await world.post(f"{path}/project", {"name": world.name("project")}, token=ada)
        assert made.status == status, scope


async def test_a_removed_member_is_refused_at_the_next_request(world, issuer):
    ada = await joined(world, issuer, ADA)
    user = {"user_id": (await members(world))[ADA]["id"]}
    assert (await world.delete(f"/organization/{world.org}/member", user)).status == 204
    assert (await world.get("/organization", token=ada)).status == 403
    assert (await world.delete(f"/organization/{world.org}/member", user)).status == 404


async def test_a_removed_member_can_be_invited_again_as_a_new_member(world, issuer):
    ada = await joined(world, issuer, ADA, Scope.ADMIN)
    old = (await members(world))[ADA]["id"]
    await world.delete(f"/organization/{world.org}/member", {"user_id": old})
    await invite(world, ADA)
    assert (await world.get("/organization", token=ada)).status == 200
    new = (await members(world))[ADA]
    assert new["id"] != old
    assert new["role_id"] == role(Scope.READ)


async def test_a_member_of_two_organizations_has_the_respective_role_in_each(world, issuer, clock):
    ada = await joined(world, issuer, ADA, Scope.WRITE)
    clock.turn(1)
    other, admin = await world.organization()
    assert (await world.get("/organization", token=ada)).status == 200
    await invite(world, ADA, Scope.READ, other, token=admin)
    seen = await world.get("/organization", token=ada)
    assert seen["id"] == world.org
    assert {one["id"] for one in seen["results"]} == {world.org, other}
    assert await invitations(world, other, token=admin) == []
    for org, status in ((world.org, 200), (other, 403)):
        made = await world.post(f"/organization/{org}/project", {"name": "shop"}, token=ada)
        assert made.status == status
        assert (await world.get(f"/organization/{org}/project", token=ada)).status == 200


async def test_a_member_removed_from_one_organization_stays_in_another(world, issuer):
    ada = await joined(world, issuer, ADA)
    other, admin = await world.organization()
    await invite(world, ADA, Scope.READ, other, token=admin)
    await world.get("/organization", token=ada)
    user = (await members(world))[ADA]["id"]
    await world.delete(f"/organization/{world.org}/member", {"user_id": user})
    assert (await world.get(f"/organization/{world.org}/project", token=ada)).status == 404
    assert (await world.get(f"/organization/{other}/project", token=ada)).status == 200
    assert (await world.delete(f"/organization/{other}", token=admin)).status == 204
    assert (await world.get("/organization", token=ada)).status == 403


async def test_a_member_of_another_organization_cannot_be_changed_or_removed(world, issuer):
    await joined(world, issuer, ADA)
    user = (await members(world))[ADA]["id"]
    other, admin = await world.organization()
    change = {"user_id": user, "role_id": role(Scope.ADMIN)}
    assert (await world.put(f"/organization/{other}/member", change, token=admin)).status == 404
    gone = {"user_id": user}
    assert (await world.delete(f"/organization/{other}/member", gone, token=admin)).status == 404
    assert (await members(world))[ADA]["role_id"] == role(Scope.READ)


async def test_the_audit_names_members_by_the_address_verified_on_joining(world, issuer):
    await joined(world, issuer, ADA, Scope.WRITE)
    posing = issuer.person(ADA, email="boss@example.com", email_verified=False, name="The Boss")
    assert (await world.post(f"/organization/{world.org}/project", {"name": "x"}, token=posing)).status == 200
    assert b'"name":"ada@example.com"' in (await world.events())[-1].body


async def test_the_last_admin_cannot_leave_and_cannot_step_down(database_url, trusting, issuer):
    async with make_world(database_url, **trusting) as world:
        other, token = await world.organization()
        await invite(world, ADA, Scope.ADMIN, other, token=token)
        ada = issuer.person(ADA)
        (only,) = (await world.get(f"/organization/{other}/apiToken", token=ada))["results"]
        assert (await world.delete(f"/organization/{other}/apiToken/{only['id']}", token=ada)).status == 204
        herself = {"user_id": (await members(world, other, token=ada))[ADA]["id"]}
        left = await world.delete(f"/organization/{other}/member", herself, token=ada)
        down = herself | {"role_id": role(Scope.WRITE)}
        stepped = await world.put(f"/organization/{other}/member", down, token=ada)
        assert (left.status, stepped.status) == (409, 409)
        assert "last way into the organization" in left.message
        await invite(world, "bo@example.com", Scope.ADMIN, other, token=ada)
        await world.get("/organization", token=issuer.person("bo@example.com"))
        assert (await world.delete(f"/organization/{other}/member", herself, token=ada)).status == 204


# A signed-in person


async def test_the_same_address_at_another_issuer_is_another_person(database_url, clock, tmp_path):
    first, second = Issuer(clock), Issuer(clock, "https://id.example.net")
    again = {"folder": tmp_path, "clock": clock}
    async with make_world(database_url, oidc_issuer=first.address, fetcher=first.fetch, **again) as world:
        await joined(world, first, ADA, Scope.ADMIN)
    async with make_world(
        database_url, oidc_issuer=second.address, fetcher=second.fetch, oidc_join="Read", **again
    ) as world:
        assert (await world.get("/organization", token=first.person(ADA))).status == 401
        assert (await world.get("/organization", token=second.person(ADA))).status == 403
        assert (await world.get("/organization", token=second.person("bo@example.com"))).status == 200


async def test_another_subject_with_a_members_address_is_not_that_member(database_url, trusting, issuer):
    async with make_world(database_url, oidc_join="Read", **trusting) as world:
        ada = await joined(world, issuer, ADA, Scope.ADMIN)
        assert (await world.get("/organization", token=issuer.person(ADA, sub="another"))).status == 403
        assert (await world.get("/organization", token=issuer.token(ADA))).status == 403
        assert (await world.get("/organization", token=ada)).status == 200


async def test_all_tokens_of_a_person_share_one_rate_limit(world, issuer):
    ada, again = await joined(world, issuer, ADA), issuer.person(ADA, jti="another")
    bo = await joined(world, issuer, "bo@example.com")
    left = [
        int((await world.get("/organization", token=one)).headers["x-ratelimit-remaining"])
        for one in (ada, again, ada, bo)
    ]
    assert left[0] - left[1] == left[1] - left[2] == 1
    assert left[3] == left[0]


async def test_a_jwt_subject_that_is_too_long_or_contains_nul_is_refused(world, issuer):
    for subject in ("x" * 256, "a\0b"):
        answer = await world.get("/organization", token=issuer.person(ADA, sub=subject))
        assert answer.status == 401, answer
    await invite(world, ADA)
    longest = issuer.person(ADA, sub="Ж" * 255, name="\0" + "n" * 9_000)
    assert (await world.get("/organization", token=longest)).status == 200


# Being believed


async def test_an_expired_jwt_is_refused_even_if_it_was_accepted_just_before(world, issuer, clock):
    ada = await joined(world, issuer, ADA)
    clock.turn(LIFETIME + LEEWAY - 0.5)
    assert (await world.get("/organization", token=ada)).status == 200
    clock.turn(0.5)
    assert (await world.get("/organization", token=ada)).status == 401
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 200


async def test_while_the_issuers_keys_are_unknown_and_unreachable_its_tokens_get_503(world, issuer, clock):
    await invite(world, ADA)
    issuer.down = True
    answer = await world.get("/organization", token=issuer.person(ADA))
    assert answer.status == 503
    assert "10.0.0.1" not in answer.message
    issuer.down = False
    clock.turn(LEEWAY)
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 200


async def test_cached_keys_verify_tokens_while_the_issuer_is_down(world, issuer, clock):
    await joined(world, issuer, ADA)
    issuer.down = True
    clock.turn(2 * LIFETIME)
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 200


async def test_requests_at_the_start_share_one_fetch_of_the_issuers_keys(world, issuer):
    headers = [issuer.token("nobody", jti=str(number)) for number in range(10)]
    await asyncio.gather(*(world.get("/organization", token=header) for header in headers))
    assert len(issuer.asked) == 2


async def test_after_the_issuer_changed_its_keys_old_tokens_are_refused_and_new_ones_accepted(
    world, issuer, clock
):
    old = await joined(world, issuer, ADA)
    issuer.change_keys()
    clock.turn(LEEWAY)
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 200
    assert (await world.get("/organization", token=old)).status == 401


async def test_a_jwt_is_accepted_only_under_the_bearer_scheme(world, issuer):
    jwt = (await joined(world, issuer, ADA)).removeprefix("Bearer ")
    assert (await world.get("/organization", token=f"bearer {jwt}")).status == 200
    assert (await world.get("/organization", token=f"Token {jwt}")).status == 401


async def test_without_a_trusted_issuer_no_jwt_of_others_is_accepted(clock, issuer):
    async with make_world(clock=clock, fetcher=issuer.fetch) as world:
        answer = await world.get("/organization", token=issuer.person(ADA))
        assert answer.status == 401
        assert "issuer is not trusted" in answer.message
    assert issuer.asked == []


CANNOT_BE_RIGHT = [
    {"oidc_issuer": "login.example.com"},
    {"oidc_issuer": "http://127.0.0.1:8080"},
    {"oidc_algorithms": ("HS256",)},
    {"oidc_algorithms": ()},
    {"oidc_audience": ()},
]


@pytest.mark.parametrize("setting", CANNOT_BE_RIGHT, ids=str)
async def test_invalid_oidc_settings_are_refused_at_the_start(trusting, setting):
    with pytest.raises(BadSetting, match=next(iter(setting))):
        async with make_world(**trusting | setting):
            pass


# What surrounds a header's value is no part of it, and PostgreSQL keeps no zero bytes.
TRIMMED = {"a space before", "a space after", "a tab after"}
NOT_KEPT = {"a sub in other letters"}


@pytest.mark.slow
async def test_forged_tokens_are_refused_and_valid_ones_accepted(database_url):
    mint = Mint()
    publisher = Publisher(mint.jwks())
    async with make_world(
        database_url,
        clock=HandClock(NOW * 1000),
        oidc_issuer=ISSUER,
        oidc_algorithms=ALGORITHMS,
        oidc_join="Read",
        fetcher=publisher.fetch,
    ) as world:
        corpus = {**dict.fromkeys(FORGED, 401), **dict.fromkeys(VALID, 200)}
        corpus |= dict.fromkeys(TRIMMED, 200) | dict.fromkeys(NOT_KEPT, 401)
        wrong = {}
        for name, status in corpus.items():
            raw = (FORGED | VALID)[name](mint).encode("utf-8", "surrogatepass")
            answer = await world.get("/organization", token="Bearer " + raw.decode("latin-1"))
            headers = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
            headers |= {"www-authenticate"} if status == 401 else set()
            if answer.status != status or not headers <= answer.headers.keys():
                wrong[name] = answer
        assert wrong == {}
        assert set(publisher.asked) <= {f"{ISSUER}/.well-known/openid-configuration", JWKS}
