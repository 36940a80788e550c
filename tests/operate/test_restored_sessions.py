"""A restore makes no session and no link valid that was ended, or used, after the backup."""

from __future__ import annotations

from pathlib import Path

from tests.identity.browsers import Browser
from tests.identity.people import code_in, invited, new_person, sign_in, use_link
from tests.operate.installations import elsewhere, settings_of
from tests.world import World, make_world
from windlass.operate.backup import backup, restore


async def test_sessions_and_links_end_with_a_restore(tmp_path, other_database):
    folder, file = tmp_path / "first", tmp_path / "all.zip"
    async with make_world(folder=folder) as world:
        browsers = {name: Browser(world) for name in ("stays", "ends")}
        for browser in browsers.values():
            await browser.sign_in()
        used = (await world.post("/account/signInLink"))["url"]
        await backup(settings_of(world), file)
        kept = dict(browsers["ends"].cookies)
        await browsers["ends"].call("DELETE", "/account/browserSession/current")
        browsers["ends"].cookies = kept
        browsers["late"] = Browser(world)
        assert (await browsers["late"].open_link(used)).status == 201
        settings = settings_of(world)
    other = elsewhere(settings, tmp_path / "new", other_database)
    await restore(other, file, force=False)
    async with make_world(other.database_url, folder=Path(other.data_dir)) as there:
        assert [await is_signed_in(browser, there) for browser in browsers.values()] == [False] * 3
        assert (await Browser(there).open_link(used)).status == 401
        await browsers["stays"].sign_in()  # the negative control: people sign in again
        assert await browsers["stays"].is_signed_in()


async def test_passwords_are_restored_and_links_to_choose_one_are_not(tmp_path, other_database):
    """A link may have been used after the backup, and would give the account to whoever has it."""
    folder, file = tmp_path / "first", tmp_path / "all.zip"
    async with make_world(folder=folder) as world:
        await new_person(world, "ada@example.com")
        code = await invited(world, "grace@example.com")
        await backup(settings_of(world), file)
        settings = settings_of(world)
    other = elsewhere(settings, tmp_path / "new", other_database)
    await restore(other, file, force=False)
    async with make_world(other.database_url, folder=Path(other.data_dir)) as there:
        assert (await sign_in(Browser(there), "ada@example.com")).status == 201
        assert (await use_link(Browser(there), code)).status == 401
        (listed,) = (await there.get(f"/organization/{there.org}/inviteMember"))["results"]
        made = await there.post(f"/organization/{there.org}/inviteMember/{listed['id']}/link")
        assert (await use_link(Browser(there), code_in(made["url"]))).status == 201


async def is_signed_in(browser: Browser, world: World) -> bool:
    browser.go_to(world)
    return await browser.is_signed_in()
