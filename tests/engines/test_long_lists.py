"""A list of the engine that is too long ends no server, and long ones are read."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tests.engines.dockers import docker_host
from tests.world import ADMIN
from windlass.base.clock import SystemClock
from windlass.builders.builder import BuilderUnavailable
from windlass.config import Settings
from windlass.docker.client import Docker, EngineRefused, client
from windlass.docker.descriptions import ContainerList
from windlass.engines.engine import EngineUnavailable
from windlass.install import ownership
from windlass.install.installation import install
from windlass.install.parts import real_parts

ENTRY = b'{"Id":"a","Names":null,"Labels":{},"State":"running","Ports":[%s]}'
LONG = b"[%s]" % (ENTRY % b",".join([b'{"PrivatePort":12345,"Type":"tcp"}'] * 600_000))
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
VERSION = b'{"ApiVersion":"1.44","MinAPIVersion":"1.24"}'


@pytest.fixture
async def long_engine(tmp_path):
    """An engine with a list of containers that is longer than 16 MiB."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = VERSION if b" /version " in head else LONG
        writer.write(OK % len(body) + body)
        writer.close()

    server = await asyncio.start_unix_server(answer, tmp_path / "docker.sock")
    docker = Docker(f"unix://{tmp_path}/docker.sock")
    yield docker
    await docker.close()
    server.close()


async def test_a_container_list_may_exceed_the_limit_of_other_answers(long_engine):
    assert len(LONG) > client.MAX_ANSWER_BYTES
    (container,) = await long_engine.read_list("/containers/json", ContainerList)
    assert container == {"Id": "a", "Names": None, "Labels": {}, "State": "running"}


async def test_with_the_limit_of_other_answers_a_long_list_is_refused_with_what_to_do(
    long_engine, monkeypatch
):
    monkeypatch.setattr(client, "MAX_LIST_BYTES", client.MAX_ANSWER_BYTES)
    with pytest.raises(EngineRefused, match="remove containers and images with many ports or long labels"):
        await long_engine.read_list("/containers/json", ContainerList)


@pytest.mark.slow
@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_server_starts_although_the_engines_container_list_exceeds_the_limit(
    tmp_path, monkeypatch, caplog, goes_on
):
    settings = Settings(
        data_dir=str(tmp_path),
        key="ab" * 32,
        admin_token=ADMIN,
        engine="docker",
        gateway_port=0,
        port=0,
    )
    settings = replace(settings, docker_host=docker_host())

    async def begin() -> None:
        installation = await install(settings, parts=await real_parts(settings, SystemClock(), "lists"))
        try:
            await installation.start()
            assert await installation.ctx.places.local.engine.problem() == ""
        finally:
            await installation.stop()

    monkeypatch.setattr(client, "MAX_LIST_BYTES", 1)
    if goes_on:
        await begin()
        assert "remove containers and images with many ports or long labels" in caplog.text + str(
            [record.__dict__.get("reason") for record in caplog.records]
        )
        return
    # The control: only an engine that is unavailable was taken for one that is seen later.
    monkeypatch.setattr(ownership, "EngineError", EngineUnavailable)
    monkeypatch.setattr(ownership, "BuildError", BuilderUnavailable)
    with pytest.raises(Exception, match="remove containers and images with many ports"):
        await begin()
