"""A forgotten password is replaced with a link: by mail, or of the operator on the machine."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.audit.asking import events
from tests.identity.browsers import Browser
from tests.identity.issuer import members
from tests.identity.mail_server import MailServer
from tests.identity.people import OTHER_PASSWORD, PASSWORD, code_in, invited, new_person, sign_in, use_link
from tests.world import World, make_world
from windlass.base.clock import HOUR, SystemClock
from windlass.control.people import password_sign_in
from windlass.control.people.operator_links import leave_operator_link
from windlass.control.people.password_links import RESET, make_link, stored
from windlass.operate.users import list_people, make_reset_link
from windlass.terminal.command_errors import CommandRefused

ADA = "ada@example.com"


@pytest.fixture
async def mails():
    async with MailServer() as server:
        yield server


@pytest.fixture
def mailing(trusting, mails):
    return {
        **trusting,
        "smtp_host": "127.0.0.1",
        "smtp_port": mails.port,
        "smtp_security": "none",
        "smtp_from": "windlass@example.com",
    }


async def ask(world: World, email: str, **options):
    return await Browser(world).call("POST", "/account/passwordReset", {"email": email}, **options)


async def test_a_mailed_link_sets_a_new_password(database_url, mailing, mails):
    async with make_world(database_url, **mailing) as world:
        await new_person(world, ADA)
        assert (await ask(world, "ADA@example.com")).status == 202
        mail = await mails.next()
        assert (mail["To"], mail["From"]) == (ADA, "windlass@example.com")
        assert "Your passkeys stay, unless you choose" in mail.get_content()
        (url,) = re.findall(r"\S+#password=\S+", mail.get_content())
        assert (await use_link(Browser(world), code_in(url), OTHER_PASSWORD)).status == 201
        assert (await sign_in(Browser(world), ADA, OTHER_PASSWORD)).status == 201
        assert (await use_link(Browser(world), code_in(url), PASSWORD)).status == 401


async def test_an_unknown_address_has_the_same_answer_and_gets_no_mail(database_url, mailing, mails):
    async with make_world(database_url, **mailing) as world:
        await new_person(world, ADA)
        known, unknown = await ask(world, ADA), await ask(world, "nobody@example.com")
        assert (known.status, known.body) == (unknown.status, unknown.body)
        assert (await mails.next())["To"] == ADA
        await world.installation.app.stop_mails()
        assert mails.mails == []


async def test_mails_to_one_person_are_limited(database_url, mailing, mails):
    async with make_world(database_url, **mailing) as world:
        await new_person(world, ADA)
        for _ in range(6):
            assert (await ask(world, ADA)).status == 202
        await world.installation.app.stop_mails()
        assert len(mails.mails) == 3


async def test_a_mail_server_that_is_away_changes_no_answer(database_url, mailing, mails):
    async with make_world(database_url, **{**mailing, "smtp_port": 1}) as world:
        await new_person(world, ADA)
        assert (await ask(world, ADA)).status == 202
        await world.installation.app.stop_mails()
        assert (await sign_in(Browser(world), ADA)).status == 201


async def test_without_a_mail_server_a_forgotten_password_answers_409_for_every_address(world):
    await new_person(world, ADA)
    known, unknown = await ask(world, ADA), await ask(world, "nobody@example.com")
    assert (known.status, known.message) == (unknown.status, unknown.message) == (409, known.message)
    assert not (await world.get("/account/signInProvider", token=None))["password_reset"]


# The operator


async def test_the_operator_makes_a_link_while_the_server_runs(database_url, trusting, tmp_path):
    clock = trusting["clock"]
    clock.ms = SystemClock().now()  # the command has the time of the machine
    async with make_world(database_url, folder=tmp_path, **trusting) as world:
        browser = await new_person(world, ADA)
        await world.installation.note_mark()
        settings = world.installation.ctx.settings
        (listed,) = await list_people(settings)
        assert (listed.email, listed.organizations) == (ADA, 1)
        made = await make_reset_link(settings, "Ada@example.com")
        code = code_in(made.url)
        assert code not in "".join(file.read_text() for file in tmp_path.glob("password-links/*"))
        answers = await asyncio.gather(
            *(use_link(Browser(world), code, f"{OTHER_PASSWORD} {number}") for number in range(3))
        )
        assert sorted(answer.status for answer in answers) == [201, 401, 401]
        assert not await browser.is_signed_in()
        found = await events(world, eventType="PASSWORD_LINK_CREATED")
        assert [event["triggered_by"] for event in found] == ["operator"]


async def test_the_operator_makes_a_link_before_the_server_starts(database_url, trusting, tmp_path):
    trusting["clock"].ms = SystemClock().now()
    async with make_world(database_url, folder=tmp_path, **trusting) as world:
        await new_person(world, ADA)
        settings = world.installation.ctx.settings
    made = await make_reset_link(settings, ADA)
    async with make_world(database_url, folder=tmp_path, **trusting) as world:
        browser = Browser(world)
        assert (await use_link(browser, code_in(made.url), OTHER_PASSWORD)).status == 201
        assert await browser.is_signed_in()


async def test_a_reset_link_for_an_unknown_address_is_refused_and_names_the_command_user_list(world):
    await world.installation.note_mark()
    with pytest.raises(CommandRefused, match="windlass user list"):
        await make_reset_link(world.installation.ctx.settings, "nobody@example.com")


async def test_a_link_of_the_operator_that_has_expired_is_refused(world):
    await new_person(world, ADA)
    person = await world.installation.ctx.store.reads.people.at(ADA)
    link = make_link(RESET, person.id, world.clock.now() - HOUR)
    leave_operator_link(world.installation.ctx.settings, stored(link, link.ends - HOUR))
    assert (await use_link(Browser(world), link.code, OTHER_PASSWORD)).status == 401
    fresh = make_link(RESET, person.id, world.clock.now())
    leave_operator_link(world.installation.ctx.settings, stored(fresh, world.clock.now()))
    assert (await use_link(Browser(world), fresh.code, OTHER_PASSWORD)).status == 201


async def test_an_interrupted_acceptance_leaves_the_link_and_no_member(world, monkeypatch):
    """Member, password, session and the used link are one change: either all of them are stored, or none."""
    code = await invited(world, ADA)

    async def fails(*_: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(password_sign_in, "open_for", fails)
        assert (await use_link(Browser(world), code)).status == 500
    assert await members(world) == {}
    assert (await sign_in(Browser(world), ADA)).status == 401
    assert (await use_link(Browser(world), code)).status == 201
