"""A registry that says too much of an image: how far a Docker engine grows, and what it keeps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.engines.dockers import docker_host
from tests.engines.small_registry import SmallRegistry
from windlass.docker.client import Docker, EngineRefused, engine_memory
from windlass.docker.client import images as pulls
from windlass.docker.client.engine_memory import TOO_MUCH, PullBackoff, is_limited, is_preferred
from windlass.docker.client.images import ask_registry, image, pull, why_not_pulled

REF = "ghcr.io/acme/shop:1"

ENGINE = """
import http.server, socketserver, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    def address_string(self):
        return ""

    def do_GET(self):
        if "/distribution/" in self.path:
            kept = []
            for _ in range(1000):
                kept.append(b"x" * (1 << 20))
                time.sleep(0.01)
        body = b'{"ApiVersion": "1.41"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

with Server(sys.argv[1], Handler) as server:
    print("ready", flush=True)
    server.serve_forever()
"""
"""An engine that grows by a megabyte each 10 ms while it reads what a registry says."""


@asynccontextmanager
async def growing_engine(folder: Path) -> AsyncIterator[Docker]:
    socket = folder / "engine.sock"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", ENGINE, str(socket), stdout=-1, stderr=-3
    )
    docker = Docker(f"unix://{socket}")
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield docker
    finally:
        await docker.close()
        process.kill()
        await process.wait()


async def test_a_pull_is_cancelled_once_the_engines_memory_grew_over_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_memory, "MAX_GROWTH_BYTES", 16 << 20)
    async with growing_engine(tmp_path) as docker:
        with pytest.raises(EngineRefused, match=TOO_MUCH) as raised:
            await ask_registry(docker, REF)
    assert why_not_pulled(REF, raised.value.message).startswith(f"Take {REF} from another registry")


@pytest.mark.nightly
async def test_without_the_memory_limit_the_pull_only_ends_by_its_timeout(tmp_path, monkeypatch):
    monkeypatch.setattr(pulls, "RESOLVE_TIMEOUT", 1.5)
    async with growing_engine(tmp_path) as docker:
        with pytest.raises(EngineRefused, match="timed out"):
            await ask_registry(docker, REF)


async def test_a_pull_timeout_is_not_reported_as_too_much_memory(tmp_path):
    async with growing_engine(tmp_path) as docker:
        with pytest.raises(TimeoutError):
            async with engine_memory.limited_memory(docker):
                raise TimeoutError


def test_each_pull_that_needs_too_much_memory_doubles_the_pause_of_its_organization(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    backoff, pauses = PullBackoff(), []
    for _ in range(9):
        with pytest.raises(EngineRefused, match=TOO_MUCH), backoff.of("acme"):
            raise EngineRefused(413, TOO_MUCH)
        began = now[0]
        while _is_paused(backoff, "acme"):
            assert not _is_paused(backoff, "another")
            now[0] += 30
        pauses.append(now[0] - began)
    assert pauses == [0, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    now[0] += engine_memory.MAX_PAUSE
    with pytest.raises(EngineRefused, match=TOO_MUCH), backoff.of("acme"):
        raise EngineRefused(413, TOO_MUCH)
    assert not _is_paused(backoff, "acme")


def test_a_refused_pull_that_is_no_rate_limit_does_not_pause_pulls():
    backoff = PullBackoff()
    for _ in range(9):
        with pytest.raises(EngineRefused, match="unknown"), backoff.of("acme"):
            raise EngineRefused(404, "manifest unknown")
    assert not _is_paused(backoff, "acme")


def _is_paused(backoff: PullBackoff, org: str) -> bool:
    try:
        with backoff.of(org):
            return False
    except EngineRefused as refused:
        return why_not_pulled(REF, refused.message).startswith(f"Deploy {REF} again within the hour")


@pytest.mark.parametrize(
    ("line", "file", "text", "limited"),
    [
        ("0::/system.slice/docker.service", "system.slice/docker.service/memory.max", "1000000", True),
        ("0::/system.slice/docker.service", "system.slice/memory.max", "1000000", True),
        ("0::/system.slice/docker.service", "system.slice/docker.service/memory.max", "max", False),
        ("3:cpu,memory:/a", "memory/a/memory.limit_in_bytes", "1000000", True),
        ("3:cpu:/a", "memory/a/memory.limit_in_bytes", "1000000", False),
        (None, "memory.max", "1", None),
    ],
)
def test_a_memory_limit_of_the_engine_is_read_from_its_control_groups(tmp_path, line, file, text, limited):
    (tmp_path / "groups" / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "groups" / file).write_text(text)
    (tmp_path / "0").mkdir()  # of the process of an engine that is not at a socket here
    if line:
        (tmp_path / "0" / "cgroup").write_text(f"{line}\n")
    assert is_limited("tcp://elsewhere", tmp_path, tmp_path / "groups") is limited


@pytest.mark.parametrize(("score", "preferred"), [("-500", True), ("0", False), ("", False)])
def test_an_engine_whose_score_lets_build_steps_outlive_services_is_recognized(tmp_path, score, preferred):
    (tmp_path / "0").mkdir()
    if score:
        (tmp_path / "0" / "oom_score_adj").write_text(f"{score}\n")
    assert is_preferred("tcp://elsewhere", tmp_path) is preferred


LONG = "x" * (2 << 20)
DESCRIPTIONS = [{"comment": LONG}, {"history": [{"created_by": LONG}]}, {"unknown": LONG}]


@pytest.mark.slow
@pytest.mark.parametrize("description", DESCRIPTIONS, ids=["configuration", "history", "unknown"])
async def test_an_image_with_a_long_description_does_not_stay_on_the_engine(description):
    docker = Docker(docker_host())
    async with SmallRegistry(**description).served() as host:
        ref = f"{host}/acme/long:1"
        with pytest.raises(EngineRefused, match=pulls.TOO_LONG_REASON) as raised:
            await pull(docker, ref)
        assert why_not_pulled(ref, raised.value.message).startswith("Use an image with a shorter")
        assert await image(docker, ref) is None
    await docker.close()


@pytest.mark.slow
async def test_an_image_with_a_short_description_stays():
    docker = Docker(docker_host())
    async with SmallRegistry(comment="x").served() as host:
        ref = f"{host}/acme/short:1"
        await pull(docker, ref)
        assert await image(docker, ref) is not None
        await docker.raw("DELETE", f"/images/{ref}")
    await docker.close()
