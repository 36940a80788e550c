"""A restore makes no session and no link valid that was ended, or used, after the backup."""

from __future__ import annotations

from pathlib import Path

from tests.identity.browsers import Browser
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


async def is_signed_in(browser: Browser, world: World) -> bool:
    browser.go_to(world)
    return await browser.is_signed_in()
