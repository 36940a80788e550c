"""The examples of the manual for proxies pass on what clients send."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.free_ports import free_port
from tests.operate.story.proxies import MANUAL, needs_nginx, nginx, site

PART = b"PUT / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 8388608\r\n\r\n"
"""The head of a part of an upload, whose body is sent when it is asked for."""


async def first_status(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PART)
    try:
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


@needs_nginx
async def test_the_nginx_of_the_manual_takes_parts_of_uploads(tmp_path: Path) -> None:
    """Last, the control: without the line of the manual, it refuses them by itself."""
    port = free_port()
    example = site("windlass", port, "localhost", ["127.0.0.1:9"])
    async with nginx(tmp_path / "example", example):
        assert await first_status(port) == 100
    async with nginx(tmp_path / "without", example.replace("client_max_body_size 0;", "")):
        assert await first_status(port) == 413


def test_no_nginx_of_the_manual_limits_bodies() -> None:
    examples = re.findall(r"```nginx\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    assert len(examples) == 2
    assert all(example.count("listen ") == example.count("client_max_body_size 0;") for example in examples)
