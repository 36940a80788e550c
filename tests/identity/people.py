"""People who sign in with an e-mail address and a password."""

from __future__ import annotations

from tests.identity.browsers import Browser
from tests.identity.issuer import invite
from tests.world import Answer, World
from windlass.core.access import Scope

PASSWORD = "correct horse battery"
OTHER_PASSWORD = "another good password"


def code_in(url: str) -> str:
    return url.partition("#password=")[2]


async def invited(world: World, email: str, scope: Scope = Scope.READ, org: str = "", **options) -> str:
    """Returns the code of the link of an invitation."""
    answer = await invite(world, email, scope, org, **options)
    assert answer.status == 201, answer
    code = code_in(answer["invitation_link"])
    assert code
    return code


async def use_link(browser: Browser, code: str, password: str = PASSWORD, name: str = "Ada") -> Answer:
    answer = await browser.call(
        "PUT", "/account/passwordLink", {"code": code, "password": password, "name": name}
    )
    if answer.status == 201:
        browser.key = answer["page_key"]
    return answer


async def sign_in(browser: Browser, email: str, password: str = PASSWORD, **options) -> Answer:
    answer = await browser.call(
        "POST", "/account/browserSession", {"email": email, "password": password}, **options
    )
    if answer.status == 201:
        browser.key = answer["page_key"]
    return answer


async def new_person(
    world: World, email: str, scope: Scope = Scope.READ, org: str = "", **options
) -> Browser:
    """Returns the browser of a person who has accepted an invitation."""
    browser = Browser(world)
    answer = await use_link(browser, await invited(world, email, scope, org, **options))
    assert answer.status == 201, answer
    return browser
