"""A gateway serves static sites while no server is there, and after another one has taken its place."""

from __future__ import annotations

import os
from pathlib import Path

from tests.gateway.gateway_town import GatewayTown
from tests.gateway.routers.sites import FILES, PAGE, made
from tests.gateway.routers.town import calling, request, route
from windlass.gateway.doors import Doors
from windlass.gateway.journal import Journal, JournaledRoutes
from windlass.gateway.messages import Open, SetRoutes

LARGE = os.urandom(1024) * 16384
"""16 MB, which no sockets hold."""


async def test_a_download_completes_at_the_replaced_gateway_and_the_next_request_goes_to_the_successor(
    town: GatewayTown, tmp_path: Path
):
    release, _ = made(tmp_path, {**FILES, "film.mp4": LARGE})
    await town.router.set("shop", [route(site=str(release))])
    idle, busy = await town.caller(), await town.caller()
    assert (await idle.ask(request())).body == PAGE
    await busy.send(request("/film.mp4"))
    begun = await busy.reader.readexactly(1000)
    await town.replace()
    assert (await town.ask(request())).body == PAGE
    assert (await idle.ask(request("/about"))).body == FILES["about.html"]
    whole = begun + await busy.reader.readexactly(len(LARGE) - 1000 + begun.index(b"\r\n\r\n") + 4)
    assert whole.endswith(LARGE)


async def test_a_killed_gateway_restores_its_static_sites_from_the_journal(tmp_path: Path):
    release, _ = made(tmp_path, FILES)
    journal = Journal(tmp_path / "journal")
    journal.open()
    doors = Doors(journal, tmp_path)
    opened = Open("local", "127.0.0.1", 0)
    await doors.change(opened)
    await doors.change(SetRoutes("local", "shop", (route(site=str(release)),)))
    await doors.stop()
    journal.close()
    journal = Journal(tmp_path / "journal")
    journal.open()
    doors = Doors(journal, tmp_path)
    await doors.restore({})
    try:
        async with calling(doors.port("local")) as caller:
            assert (await caller.ask(request())).body == PAGE
    finally:
        await doors.stop()
        journal.close()


def test_a_gateway_with_a_static_site_keeps_running_without_a_server():
    told = JournaledRoutes()
    told.note(SetRoutes("local", "shop", (route(),)))
    assert told.is_empty
    told.note(SetRoutes("local", "shop", (route(site="/somewhere"),)))
    assert not told.is_empty
