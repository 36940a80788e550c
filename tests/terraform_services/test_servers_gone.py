"""The server that started a run is gone: the run stores its state at another server of its place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from msgspec.structs import replace

from tests.free_ports import free_port
from tests.hostile.test_lying_runs import begun, state
from tests.repositories import Repository
from tests.stub_server import StubServer
from tests.terraform_services.conftest import new_environment
from tests.terraform_services.modules import MODULE, Service, needs_program
from tests.terraform_services.test_moved_states import SOURCE
from tests.whole import place
from tests.world import World, make_world
from windlass.base.clock import SECOND
from windlass.config import Settings
from windlass.control.context.place import Place
from windlass.control.context.server_addresses import address_at
from windlass.control.records.run_servers import ADDRESS_LIFETIME_MS, announce_address, other_addresses
from windlass.launch.launcher import LaunchRefused
from windlass.launch.run_server import RunServer, relay
from windlass.terraform import run_programs


def nowhere() -> str:
    return f"http://127.0.0.1:{free_port()}"


class Taken(BaseHTTPRequestHandler):
    """Notes each request, and answers its body."""

    requests: list[tuple[str, str, bytes, str]]

    def _note(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.requests.append((self.command, self.path, body, self.headers["Authorization"]))
        code = 423 if self.command == "LOCK" else 200
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_LOCK = do_UNLOCK = _note

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def another() -> Iterator[tuple[str, list[tuple[str, str, bytes, str]]]]:
    Taken.requests = []
    with StubServer(("127.0.0.1", 0), Taken) as server, server.in_thread():
        yield f"http://127.0.0.1:{server.server_address[1]}", Taken.requests


def test_requests_of_a_run_fall_back_to_another_server(capsys: pytest.CaptureFixture[str]):
    with another() as (url, requests):
        server = RunServer([nowhere(), nowhere(), url], "secret", "")
        assert server.send("PUT", "/plan", b"plan", timeout=0) == b"plan"
        server.send("PUT", "/resources", b"", timeout=0)
    assert [request[:3] for request in requests] == [("PUT", "/plan", b"plan"), ("PUT", "/resources", b"")]
    assert capsys.readouterr().err.count("another one is asked") == 2, "it stays at the one that answers"
    with pytest.raises(LaunchRefused, match="it does not answer"):
        RunServer([nowhere(), nowhere()], "secret", "").send("GET", "/run", timeout=0)


def test_the_terraform_program_reaches_another_server_with_its_own_credential():
    with another() as (url, requests):
        servers = RunServer([nowhere(), url], "of-the-launcher", "")
        program = RunServer([relay(servers)], "of-the-program", "")
        assert program.send("POST", "/state?ID=1", b"{}", timeout=0) == b"{}"
        assert program.pass_on("LOCK", "/state", b"info", {"Authorization": "x"}) == (423, b"info")
    headers = program._headers["Authorization"]
    assert requests == [("POST", "/state?ID=1", b"{}", headers), ("LOCK", "/state", b"info", "x")]
    assert program.pass_on("GET", "/state", b"", {})[0] == 503, "the program asks again"


@pytest.mark.slow
async def test_a_run_completes_although_the_server_that_started_it_is_gone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    needs_program()
    port = free_port()
    servers: list[tuple[Settings, Place]] = []

    def of_one_that_is_gone(settings: Settings, place: Place) -> str:
        servers.append((settings, place))
        return address_at(replace(settings, port=port + 1), place)

    async def others(*_: object) -> list[str]:
        return [address_at(*servers[0])]

    monkeypatch.setattr(run_programs, "address_at", of_one_that_is_gone)
    monkeypatch.setattr("windlass.terraform.kind.other_addresses", others)
    repository = Repository(tmp_path / "repository").put({"infra/main.tf": MODULE})
    repository.commit("A module")
    async with (
        place("process", port=port, git_allow_local=True, stop_seconds=1, settle_seconds=0) as house,
        house.windlass() as windlass,
    ):
        service = Service(windlass, repository, await new_environment(windlass))
        await service.make()
        ended = await service.run()
        assert ended["status"] == "SUCCEEDED", ended
        assert (await service.get("lock"))["is_locked"] is False
        assert [version["is_current"] for version in await service.results("stateVersion")].count(True) == 1
        assert {output["name"] for output in await service.results("output")} >= {"size"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made_world:
        yield made_world


async def test_servers_of_a_place_know_each_others_addresses_while_they_run(world: World):
    store, clock = world.installation.ctx.store, world.clock
    one, other = "http://10.0.0.1:8080", "http://10.0.0.2:8080"
    for address in (one, other, "", other):
        await store.write(partial(announce_address, place="local", address=address))
    await store.write(partial(announce_address, place="second", address="http://10.0.0.3:8080"))
    assert await other_addresses(store.reads, "local", one, clock.now()) == [other]
    clock.turn(ADDRESS_LIFETIME_MS // SECOND - 1)
    assert await other_addresses(store.reads, "local", one, clock.now()) == [other]
    await store.write(partial(announce_address, place="local", address=one))
    clock.turn(2)
    assert await other_addresses(store.reads, "local", one, clock.now()) == []
    assert await other_addresses(store.reads, "local", other, clock.now()) == [one]


async def test_a_paused_server_never_overwrites_a_later_state(world: World):
    run = await begun(world, terraform_files_source=SOURCE)
    for serial, status in ((1, 200), (3, 200), (2, 409), (3, 200), (4, 200)):
        assert (await run.send("POST", "state", state({}, serial=serial))).status == status
    versions = (await world.get(f"/terraform/{run.service}/stateVersion"))["results"]
    assert [version["number"] for version in versions] == [3, 2, 1]
