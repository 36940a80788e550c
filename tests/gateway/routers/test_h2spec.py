"""The router as programs of others see it: h2spec, which tries each sentence of the standard, and curl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.routers.http2_caller import make_http2_town
from tests.gateway.routers.issuing import issue, issuing_authority
from tests.gateway.routers.secure_town import https_port
from tests.gateway.routers.town import Town
from tests.needs import needs, program

pytestmark = pytest.mark.slow
HOST = "localhost"


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with make_http2_town() as made:
        await made.router.put_certificate("localhost", issue(HOST))
        await made.shop(await made.instance("a body that is long enough"), hosts=(HOST,))
        yield made


async def output_of(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return said.decode(errors="replace")


@needs("h2spec")
async def test_h2spec_finds_no_fault(town: Town) -> None:
    said = await output_of(
        "h2spec", "-h", HOST, "-p", str(https_port(town)), "-t", "-k", "--strict", "-o", "5"
    )
    assert "146 tests, 146 passed, 0 skipped, 0 failed" in said, said[-5000:]


async def test_curl_is_served_by_http2(town: Town, tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    authority.write_bytes(issuing_authority().pem)
    address = f"https://{HOST}:{https_port(town)}/"
    curl = (program("curl"), "-s", "--http2", "--cacert", str(authority))
    said = await output_of(*curl, address, address, "-w", "%{http_version} %{http_code} %{num_connects}\n")
    body = "a body that is long enough"
    assert said == f"{body}2 200 1\n{body}2 200 0\n"
