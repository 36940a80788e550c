"""A Docker engine that never ends its answers holds up nothing, and fills no memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.answers import MAX_REASON_BYTES
from windlass.docker.client.images import image
from windlass.docker.follow import NewOutput
from windlass.docker.position import Position

HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
VERSION = HEAD % b"200 OK" + b'{"ApiVersion": "1.41", "MinAPIVersion": "1.12"}'


@asynccontextmanager
async def engine(
    folder: Path, status: bytes, piece: bytes, pause: float, version: bytes = VERSION
) -> AsyncIterator[Docker]:
    """Answers with its version, and to everything else with the same piece again and again."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            if b" /version " in request:
                writer.write(version)
                await writer.drain()
                return
            writer.write(HEAD % status)
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
        except (ConnectionError, EOFError):
            return
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, folder / "docker.sock")
    docker = Docker(f"unix://{folder}/docker.sock")
    try:
        yield docker
    finally:
        await docker.close()
        server.close()


async def test_an_endless_refusal_is_read_as_far_as_a_reason_goes(tmp_path: Path) -> None:
    async with engine(tmp_path, b"500 Internal Server Error", b"x" * 4096, 0) as docker:
        with pytest.raises(EngineRefused) as refused:
            await docker.raw("GET", "/info")
    assert 0 < len(str(refused.value)) <= MAX_REASON_BYTES + 100


@pytest.mark.parametrize("ref", ["a/../../containers/x", "docker.io/./windlass/x:1"])
async def test_an_image_name_does_not_lead_to_another_part_of_the_api(tmp_path: Path, ref: str) -> None:
    async with engine(tmp_path, b"200 OK", b"{}", 0) as docker:
        with pytest.raises(EngineRefused, match="has no part"):
            await image(docker, ref)


async def test_an_engine_that_fails_to_report_its_version_is_not_reported_as_too_old(tmp_path: Path) -> None:
    fails = HEAD % b"500 Internal Server Error" + b'{"message": "out of memory"}'
    async with engine(tmp_path, b"200 OK", b"{}", 0, fails) as docker:
        with pytest.raises(EngineRefused, match="out of memory"):
            await docker.json("GET", "/info")


async def test_an_answer_that_arrives_byte_by_byte_times_out(tmp_path: Path) -> None:
    async with engine(tmp_path, b"200 OK", b" ", 0.05) as docker:
        with pytest.raises(Away):
            await docker.raw("GET", "/info", timeout=0.5)


@pytest.mark.nightly
async def test_without_a_total_timeout_a_dripping_answer_never_ends(tmp_path: Path) -> None:
    """The control: what is streamed has no limit as a whole, and outlasts its patience."""
    received = 0
    async with (
        engine(tmp_path, b"200 OK", b" ", 0.1) as docker,
        docker.stream("GET", "/info", timeout=2.0) as answer,
    ):
        async for chunk in answer.chunks():
            received += len(chunk)
            if received > 30:
                break
    assert received > 30


def test_an_error_text_of_the_engine_in_container_output_is_ignored() -> None:
    line = b"2026-01-31T09:05:00.007123456Z ready"
    found = [b"Error grabbing logs: unexpected EOF", line]
    assert [*NewOutput(Position()).new(found)] == [("2026-01-31T09:05:00.007123456Z", b"ready")]


async def test_a_connection_closed_before_the_request_is_sent_means_that_the_engine_is_unavailable(
    tmp_path, monkeypatch
):
    """An error of the task that sends the request would reach the event loop, and end this test."""

    async def write_eof(writer: aiohttp.http.StreamWriter, chunk: bytes = b"") -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    async with engine(tmp_path, b"200 OK", b"{}", 0.01) as docker:
        monkeypatch.setattr(aiohttp.http.StreamWriter, "write_eof", write_eof)
        with pytest.raises(Away):
            await docker.json("POST", "/containers/x/start")
        gc.collect()
