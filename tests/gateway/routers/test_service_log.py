"""A service may have an access log of its own, which is a stream of its logs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from tests.gateway.routers.town import SHOP, Town, request, until
from windlass.base.segments import Segments
from windlass.routers.builtin import service_log
from windlass.routers.rules import RouteLog, RouteRules

MOST = 100_000


def rules(folder: Path, form: str = "json") -> RouteRules:
    return RouteRules(log=RouteLog(form, str(folder), MOST))


async def lines(town: Town, folder: Path, count: int) -> list[str]:
    """The messages of the log, once there are so many."""
    segments = Segments(folder, MOST)
    found: list[Any] = []
    while len(found) < count:
        await asyncio.sleep(0.01)
        found = [json.loads(line) for line in segments.tail("shop/access", 1000)]
    assert {line["pod_name"] for line in found} == {"gateway"}
    return [line["message"] for line in found]


async def test_each_request_is_a_line_as_json(town: Town, tmp_path: Path) -> None:
    await town.shop(await town.instance(), rules=rules(tmp_path))
    for n in range(20):  # of which only some would be timed otherwise
        await town.ask(request(f"/{n}?token=secret", "GET", SHOP, "User-Agent: test"))
    found = [json.loads(line) for line in await lines(town, tmp_path, 20)]
    assert [line["path"] for line in found] == [f"/{n}" for n in range(20)]
    assert {(line["service"], line["status"], line["user_agent"]) for line in found} == {
        ("shop", 200, "test")
    }


async def test_a_line_has_the_combined_form(town: Town, tmp_path: Path) -> None:
    await town.shop(await town.instance(), rules=rules(tmp_path, "combined"))
    await town.ask(request("/a?b=c", "GET", SHOP, 'User-Agent: a "test"', "Referer: https://x.example/?q=1"))
    (line,) = await lines(town, tmp_path, 1)
    assert re.fullmatch(
        r"127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "
        r'"GET /a HTTP/1\.1" 200 \d+ "https://x\.example/" "a \\x22test\\x22"',
        line,
    )


async def test_refused_requests_are_in_the_log_and_those_of_other_services_are_not(
    town: Town, tmp_path: Path
) -> None:
    one = await town.instance()
    await town.shop(one, rules=RouteRules(log=rules(tmp_path).log, body_bytes=1))
    await town.ask(request("/large", "POST", SHOP, body=b"12"))
    await town.ask(request("/", "GET", "other.localhost"))
    await town.shop(one)
    await town.ask(request("/unlogged"))
    (line,) = await lines(town, tmp_path, 1)
    assert (json.loads(line)["path"], json.loads(line)["status"]) == ("/large", 413)


async def test_the_routers_own_log_goes_on(town: Town, tmp_path: Path) -> None:
    await town.router.log_to(str(tmp_path / "all.log"))
    await town.shop(await town.instance(), rules=rules(tmp_path / "logs"))
    await town.ask(request())
    await lines(town, tmp_path / "logs", 1)
    await town.router.log_to("")
    assert len((tmp_path / "all.log").read_text().splitlines()) == 1
    await town.ask(request())
    assert len(await lines(town, tmp_path / "logs", 2)) == 2


async def test_lines_that_wait_are_bounded(town: Town, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(service_log, "MAX_WAITING_LINES", 2)
    monkeypatch.setattr(service_log, "_WRITE_INTERVAL", 3600)
    await town.shop(await town.instance(), rules=rules(tmp_path))
    for _ in range(5):
        await town.ask(request())
    logs = town.router._shared.service_logs
    await until(lambda: logs.dropped == 3)
    await logs.close()
    assert len(await lines(town, tmp_path, 1)) == 2
