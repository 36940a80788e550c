"""An engine that an organization connects may answer anything: it holds no memory and no slot."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.certificates import Authority, authority, write_pair
from tests.engines.servers import server
from tests.tables import rows
from windlass.base.errors import Invalid
from windlass.config import Settings
from windlass.control.context.place import EngineAccess
from windlass.docker import provider
from windlass.docker.client import Away, Docker, EngineRefused, transports
from windlass.docker.client import client as docker_client
from windlass.docker.client.transports import DockerTransport
from windlass.docker.provider import transport
from windlass.install import connecting
from windlass.install.connecting import ClusterConnector, EngineReach

HERE = "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\nApi-Version: 1.44\r\nContent-Type: application/json\r\n"
VERSION = b'{"ApiVersion":"1.44","MinAPIVersion":"1.24"}'

Answer = Callable[[asyncio.StreamWriter], Any]


def whole(body: bytes, head: bytes = OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def plain(answer: bytes) -> Answer:
    async def say(out: asyncio.StreamWriter) -> None:
        out.write(answer)

    return say


async def endless(out: asyncio.StreamWriter) -> None:
    out.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        out.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await out.drain()


async def dripping(out: asyncio.StreamWriter) -> None:
    out.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        out.write(b"1\r\n \r\n")
        await out.drain()
        await asyncio.sleep(0.05)


async def endless_head(out: asyncio.StreamWriter) -> None:
    out.write(OK)
    while True:
        out.write(b"X-Long: " + b"x" * 60_000 + b"\r\n")
        await out.drain()


async def silent(out: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


WAYS: dict[str, Answer] = {
    "endless": endless,
    "dripping": dripping,
    "endless head": endless_head,
    "silent": silent,
    "a list": plain(whole(b"[]")),
    "no JSON": plain(whole(b"<html>")),
    "nested deep": plain(whole(b"[" * 200_000)),
    "a huge number": plain(whole(b"1" * 100_000)),
    "no text": plain(whole(b'{"ID":"\xff"}')),
    "a refusal": plain(whole(b"[" * 200_000, OK.replace(b"200 OK", b"500 No"))),
    "another id": plain(whole(b'{"ID":"ANOTHER"}')),
}


class Stub:
    """A server behind TLS that passes for a Docker engine, except at one path."""

    def __init__(self, issuer: Authority) -> None:
        self.authority = issuer
        self.at = "/info"
        self.answer: Answer = silent
        self.asked: list[str] = []
        self.open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def close(self) -> None:
        for task, out in self.open.items():
            out.transport.abort()
            task.cancel()
        await asyncio.gather(*self.open, return_exceptions=True)
        await asyncio.sleep(0)

    async def serve(self, into: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.open[task] = out
        try:
            while head := await into.readuntil(b"\r\n\r\n"):
                path = head.split()[1].decode()
                self.asked.append(path)
                if path.endswith(self.at):
                    await self.answer(out)
                else:
                    out.write(whole(VERSION if path == "/version" else b'{"ID":"OURS"}'))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client has gone, or the test is over.
        finally:
            out.transport.abort()


@asynccontextmanager
async def stub(
    folder: Path, issuer: Authority | None = None, address: str = HERE
) -> AsyncIterator[tuple[Stub, int]]:
    """Serves with a certificate for the address."""
    made = Stub(issuer or authority(folder))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_pair(made.authority, "engine", address))
    server = await asyncio.start_server(made.serve, HERE, 0, ssl=context)
    try:
        yield made, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await made.close()


def access(made: Stub, port: int, engine_id: str = "") -> EngineAccess:
    certificate, key = write_pair(made.authority, "windlass")
    return EngineAccess(
        cluster="east", org="org", name="east", engine="DOCKER", is_elsewhere=True,
        address=f"tcp://{HERE}:{port}", ca_certificate=made.authority.file.read_text(),
        certificate=certificate.read_text(), key=key.read_text(), engine_id=engine_id,
    )  # fmt: skip


def connector(folder: Path, *allowed: str) -> ClusterConnector:
    settings = Settings(data_dir=str(folder), outbound_allow=allowed or (f"{HERE}/32",))
    return ClusterConnector(settings, server(folder), connecting.gateway_link(settings))


def opened(to: EngineAccess) -> DockerTransport:
    return transport(to.remote, EngineReach((f"{HERE}/32",)))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of time and size that a test can wait for."""
    monkeypatch.setattr(provider, "_CHECK_SECONDS", 2.0)
    for name, value in {
        "CONNECT_TIMEOUT": 0.5,
        "ENGINE_ID_TIMEOUT": 0.5,
        "MAX_ANSWER_BYTES": 2**20,
        "MAX_INFO_BYTES": 2**17,
    }.items():
        monkeypatch.setattr(docker_client, name, value)


HARMLESS = {
    ("/_ping", way)
    for way in ("endless", "dripping", "a list", "no JSON", "nested deep", "a huge number", "no text")
}
"""Only the head of this answer is read."""


@pytest.mark.parametrize("at", ["/_ping", "/version", "/info"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "another id"])
async def test_connecting_to_an_engine_with_invalid_answers_is_refused(tmp_path, short, monkeypatch, way, at):
    async with stub(tmp_path / "ca") as (made, port):
        made.at, made.answer = at, WAYS[way]
        asking = connector(tmp_path).identity(access(made, port))
        if (at, way) in HARMLESS:
            monkeypatch.undo()  # it answers in time, also on a slow machine
            assert await asking == "OURS"
            return
        with pytest.raises(Invalid, match=r"^engine_address: "):
            await asking


@pytest.mark.parametrize("way", WAYS)
async def test_an_engine_that_hides_its_id_gets_no_further_requests(tmp_path, short, way):
    async with stub(tmp_path / "ca") as (made, port):
        made.answer = WAYS[way]
        docker = Docker(opened(access(made, port, "OURS")))
        try:
            with pytest.raises((Away, EngineRefused)):
                await docker.json("GET", "/containers/json")
        finally:
            await docker.close()
        assert {path for path in made.asked if path not in {"/info", "/version"}} == set()


@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_to_an_engine_that_hides_its_id_is_closed_at_once(
    tmp_path, short, monkeypatch, way
):
    """A transport that is collected instead closes its descriptor twice: once perhaps as another file."""
    sockets: list[socket.socket] = []
    monkeypatch.setattr(transports, "_end_when_silent", sockets.append)
    async with stub(tmp_path / "ca") as (made, port):
        made.answer = WAYS[way]
        docker = Docker(opened(access(made, port, "OURS")))
        try:
            with pytest.raises((Away, EngineRefused)):
                await docker.json("GET", "/containers/json")
            assert sockets, "the control of the next line"
            assert [opened.fileno() for opened in sockets if opened.fileno() != -1] == []
        finally:
            await docker.close()


async def redirected(tmp_path: Path) -> tuple[list[str], list[str]]:
    """Paths that two engines of one authority are asked for, of which the first redirects to the second."""
    async with (
        stub(tmp_path / "ca") as (made, port),
        stub(tmp_path / "ca", made.authority) as (other, elsewhere),
    ):
        head = f"HTTP/1.1 307 Go\r\nLocation: https://{HERE}:{elsewhere}/info\r\n".encode()
        made.answer = plain(whole(b'{"ID":"OURS"}', head))
        other.at = "/nothing"
        for engine_id in ("", "OURS"):
            docker = Docker(opened(access(made, port, engine_id)))
            await asyncio.gather(docker.json("GET", "/info"), return_exceptions=True)
            await docker.close()
        return made.asked, other.asked


async def test_a_redirect_of_an_engine_is_not_followed(tmp_path):
    asked, elsewhere = await redirected(tmp_path)
    assert "/info" in asked
    assert elsewhere == []


async def test_following_redirects_would_send_requests_to_another_host(tmp_path, monkeypatch):
    request = aiohttp.ClientSession._request

    def following(session: aiohttp.ClientSession, *words: Any, **given: Any) -> Any:
        return request(session, *words, **{**given, "allow_redirects": True})

    monkeypatch.setattr(aiohttp.ClientSession, "_request", following)
    _, elsewhere = await redirected(tmp_path)
    assert "/info" in elsewhere


@pytest.mark.parametrize(
    ("server", "address", "is_asked"),
    [("ours", HERE, True), ("a stranger", HERE, False), ("ours", "127.0.0.2", False)],
    ids=["its own certificate", "of another authority", "for another address"],
)
async def test_an_engine_gets_requests_only_with_a_certificate_of_its_own_authority(
    tmp_path, server, address, is_asked
):
    trusted, stranger = authority(tmp_path / "trusted"), authority(tmp_path / "stranger")
    async with stub(tmp_path, trusted if server == "ours" else stranger, address) as (made, port):
        made.at = "/nothing"
        made.authority = trusted  # the authority that the organization has stored
        await asyncio.gather(connector(tmp_path).identity(access(made, port)), return_exceptions=True)
        assert bool(made.asked) is is_asked


async def test_an_engine_with_valid_answers_is_connected(tmp_path):
    """This proves that no test above is refused for another reason."""
    async with stub(tmp_path / "ca") as (made, port):
        made.at = "/nothing"
        assert await connector(tmp_path).identity(access(made, port)) == "OURS"
        docker = Docker(opened(access(made, port, "OURS")))
        assert await docker.json("GET", "/containers/json") == {"ID": "OURS"}
        await docker.close()


@rows(
    ("address", "allowed", "is_admitted"),
    [
        ("203.0.113.9", ["203.0.113.0/24"], True),
        ("203.0.113.9", ["198.51.100.0/24"], False),
        ("127.0.0.1", ["127.0.0.0/8"], False),
        ("127.0.0.1", ["127.0.0.1/32"], True),
        ("127.8.8.8", ["127.0.0.0/8"], False),
        ("0.0.0.0", ["0.0.0.0/0"], False),
        ("169.254.169.254", ["0.0.0.0/0"], False),
        ("169.254.169.254", ["169.254.169.254/32"], True),
        ("224.0.0.1", ["0.0.0.0/0"], False),
        ("::1", ["::/0"], False),
        ("::1", ["::1/128"], True),
        ("fe80::1", ["fe80::/10"], False),
        ("8.8.8.8", [], False),
        ("::ffff:169.254.169.254", ["::/0"], False),
        ("::ffff:169.254.169.254", ["0.0.0.0/0", "::ffff:0:0/96"], False),
        ("::ffff:127.0.0.1", ["::/0", "127.0.0.0/8"], False),
        ("::ffff:0.0.0.0", ["::/0", "0.0.0.0/0"], False),
        ("::ffff:203.0.113.9", ["203.0.113.0/24"], True),
        ("::", ["::/0"], False),
        ("ff02::1", ["::/0"], False),
    ],
)  # fmt: skip
def test_loopback_and_link_local_engine_addresses_require_their_own_allowance(address, allowed, is_admitted):
    assert EngineReach(allowed).admits(ip_address(address)) is is_admitted


async def test_nothing_is_sent_to_an_address_that_is_not_allowed(tmp_path, short):
    async with stub(tmp_path / "ca") as (made, port):
        with pytest.raises(Invalid, match="WINDLASS_OUTBOUND_ALLOW"):
            await connector(tmp_path, "127.0.0.0/8").identity(access(made, port))
        assert made.asked == []
