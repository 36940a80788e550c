"""Sign-ins and refused credentials are in the audit."""

from __future__ import annotations

from tests.audit.asking import events, told
from tests.identity.issuer import invite
from windlass.core.access import Scope

ADA = "ada@example.com"


async def test_a_person_at_a_new_address_records_a_sign_in_event(world, issuer):
    await invite(world, ADA, Scope.READ)
    for address in ("198.51.100.1", "198.51.100.1", "198.51.100.2"):
        answer = await world.get("/organization", token=issuer.person(ADA), address=address)
        assert answer.status == 200
    found = await events(world, eventType="SIGN_IN")
    assert [(one["triggered_by"], one["address"]) for one in found] == [
        (ADA, "198.51.100.2"),
        (ADA, "198.51.100.1"),
    ]
    assert (found[0]["target_type"], found[0]["target_name"]) == ("MEMBERS_AND_ROLES", ADA)


async def test_a_request_after_half_a_day_of_absence_is_a_new_sign_in(world, issuer):
    await invite(world, ADA, Scope.READ)
    for hours in (1, 1, 13):
        assert (await world.get("/organization", token=issuer.person(ADA))).status == 200
        world.clock.turn(hours * 3600)
    assert (await world.get("/organization", token=issuer.person(ADA))).status == 200
    assert len(await events(world, eventType="SIGN_IN")) == 2


async def test_a_sign_in_without_membership_is_recorded_in_the_first_organization(world, issuer):
    for _ in range(3):
        answer = await world.get("/organization", token=issuer.person(ADA), address="198.51.100.3")
        assert answer.status == 403
    (found,) = await events(world, eventType="SIGN_IN_REFUSED")
    assert (found["triggered_by"], found["address"]) == (ADA, "198.51.100.3")
    assert told(found)["message"] == answer.message


async def test_use_of_a_session_of_a_revoked_token_is_recorded(world):
    robot = await world.new_token("Read", name="robot")
    session = (await world.post("/account/session", token=robot))["token"]
    (made,) = await events(world, subTargetType="API_TOKEN", eventType="CREATE")
    await world.delete(f"/organization/{world.org}/apiToken/{told(made)['id']}")
    assert (await world.get("/organization", token=f"Bearer {session}")).status == 401
    (found,) = await events(world, eventType="TOKEN_REFUSED")
    assert found["triggered_by"] == "robot"
