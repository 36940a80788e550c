"""The access log has one line for each request, with the caller and without any secret."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.logs.streams import asked
from tests.schemathesis.serving import served
from tests.world import ADMIN, World, make_world
from windlass.api.access_log import AccessLog
from windlass.base import line_log
from windlass.config import BadSetting


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.fixture
async def world(file: Path):
    async with make_world(access_log=True, access_log_file=str(file)) as made:
        yield made


async def lines(world: World, file: Path) -> list[Any]:
    log = world.installation.app.access_log
    assert log is not None
    await log.write()
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_a_request_is_logged_as_one_line_with_its_caller_and_status(world: World, file: Path):
    project = await world.project()
    token = await world.new_token("Read")
    (id,) = [row["id"] for row in (await world.get(f"/organization/{world.org}/apiToken"))["results"]]
    headers = {"X-Request-Id": "of-the-test"}
    answer = await world.get(f"/project/{project}?page=1", token=token, headers=headers)
    line = (await lines(world, file))[-1]
    assert line.pop("time").endswith("Z")
    assert line.pop("ms") >= 0
    assert len(line.pop("trace_id")) == 32
    assert line == {
        "level": "info",
        "logger": "windlass.access",
        "message": f"GET /project/{project} 200",
        "method": "GET",
        "path": f"/project/{project}",
        "operation": "getProject",
        "status": 200,
        "bytes": len(answer.body),
        "actor": id,
        "organization": world.org,
        "address": "203.0.113.7",
        "user_agent": "",
        "request_id": "of-the-test",
    }


async def test_requests_are_logged_whatever_their_status(world: World, file: Path):
    before = len(await lines(world, file))
    asked = [("GET", "/nothing", 404), ("PUT", "/organization", 405), ("GET", "/healthz", 200)]
    for method, path, status in asked:
        assert (await world.call(method, path)).status == status
    assert (await world.get("/organization", token="wdl_none")).status == 401
    seen = [(line["method"], line["path"], line["status"]) for line in await lines(world, file)]
    assert seen[before:] == [*asked, ("GET", "/organization", 401)]


async def test_a_caller_without_a_valid_token_has_no_actor(world: World, file: Path):
    await world.get("/organization", token="wdl_none")
    line = (await lines(world, file))[-1]
    assert (line["actor"], line["organization"]) == (None, None)


async def test_the_access_log_contains_no_tokens_and_no_query_strings(world: World, file: Path):
    token = await world.new_token("Read")
    jwt = "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
    for path in (f"/nothing/{token}", f"/project/{jwt}/x", f"/organization?token={token}&jwt={jwt}"):
        await world.get(path, token=token)
        await world.get(path, token=f"Bearer {jwt}")
    await world.get("/nothing/kept")
    await lines(world, file)
    written = file.read_text()
    for secret in (ADMIN, token, token.removeprefix("wdl_"), jwt, jwt.split(".")[1]):
        assert secret not in written
    assert "/nothing/kept" in written
    assert "/nothing/***" in written


async def test_a_long_path_is_truncated_in_the_access_log(world: World, file: Path):
    await world.get("/" + "a" * 10_000)
    assert len((await lines(world, file))[-1]["path"]) == line_log.MAX_TEXT_LENGTH


async def test_a_path_with_line_breaks_is_still_one_line(world: World, file: Path):
    before = len(await lines(world, file))
    await world.get('/a\n{"actor": "somebody else"}\r\n')
    assert len(await lines(world, file)) == before + 1


async def test_no_path_or_user_agent_is_a_command_for_a_terminal_or_names_a_token(world: World, file: Path):
    token = await world.new_token("Read")
    await world.get("/kept/a\x9b31m\x85\u2028b", headers={"User-Agent": f"kept \x9b {token}"})
    line = (await lines(world, file))[-1]
    assert (line["path"], line["user_agent"]) == ("/kept/a�31m��b", "kept � ***")
    assert token not in file.read_text()


async def test_no_path_shows_the_text_after_it_in_another_order(world: World, file: Path):
    await world.get("/kept/\u202egnp.\u2066\u200f\u061cexe")
    assert (await lines(world, file))[-1]["path"] == "/kept/\ufffdgnp.\ufffd\ufffd\ufffdexe"


async def test_an_invented_method_is_truncated_and_tokens_in_it_are_masked(world: World, file: Path):
    token = await world.new_token("Read")
    await world.call("A" * 10_000, "/organization")
    await world.call(f"GET-{token}", "/organization")
    long, masked = [line["method"] for line in await lines(world, file)][-2:]
    assert (len(long), masked) == (line_log.MAX_TEXT_LENGTH, "GET-***")
    assert token not in file.read_text()


async def test_only_the_owner_of_the_file_may_read_it(world: World, file: Path):
    await lines(world, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_an_access_log_file_that_was_moved_away_is_recreated(world: World, file: Path):
    await world.get("/healthz")
    await lines(world, file)
    file.rename(file.with_suffix(".1"))
    await world.get("/readyz")
    assert [line["path"] for line in await lines(world, file)] == ["/readyz"]


async def test_an_access_log_whose_folder_is_missing_drops_its_lines_and_touches_no_other_file(
    tmp_path: Path,
):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AccessLog(str(folder / "access.log"))
    log.open()
    folder.rename(tmp_path / "away")
    for _ in range(2):
        await log.write()
        assert os.fstat(log._descriptor)  # A closed number would soon be that of another file.
    (tmp_path / "away").rename(folder)
    await log.write()
    await log.close()


async def test_access_log_lines_are_flushed_in_the_background(file: Path):
    async with make_world(access_log=True, access_log_file=str(file)):
        async with asyncio.timeout(20):
            while not file.read_text():  # noqa: ASYNC110 (a file does not notify)
                await asyncio.sleep(0.02)
    assert file.read_text().endswith("\n")


async def test_the_last_lines_are_written_before_the_server_ends(file: Path):
    async with make_world(access_log=True, access_log_file=str(file)) as world:
        await world.get("/healthz")
    assert json.loads(file.read_text().splitlines()[-1])["path"] == "/healthz"


async def test_lines_that_a_disk_does_not_take_are_dropped_and_counted(tmp_path: Path, caplog):
    async with make_world(access_log=True, access_log_file="/dev/full") as world:
        await world.get("/healthz")
        log = world.installation.app.access_log
        assert log is not None
        with caplog.at_level(logging.WARNING, "windlass"):
            await log.write()
    dropped = [record for record in caplog.records if record.getMessage().endswith("were dropped")]
    assert dropped[0].__dict__["lines"] == 2


async def test_the_number_of_unwritten_access_log_lines_is_bounded(file: Path, monkeypatch):
    monkeypatch.setattr(line_log, "MAX_WAITING_LINES", 3)
    async with make_world(access_log=True, access_log_file=str(file)) as world:
        log = world.installation.app.access_log
        assert isinstance(log, AccessLog)
        await log.write()
        for _ in range(10):
            await world.get("/healthz")
        assert (len(log._lines), log.dropped) == (3, 7)


async def test_without_the_setting_access_log_no_access_log_is_written(tmp_path: Path):
    async with make_world() as world:
        assert world.installation.app.access_log is None


async def test_an_unwritable_access_log_file_refuses_the_start_with_the_setting(tmp_path: Path):
    with pytest.raises(BadSetting, match=r"access_log_file: .* cannot be written: No such file"):
        async with make_world(access_log=True, access_log_file=str(tmp_path / "no" / "log")):
            raise AssertionError("it has started")


@pytest.mark.parametrize(("proxy", "address"), [("127.0.0.1", "198.51.100.9"), ("192.0.2.1", "127.0.0.1")])
async def test_the_address_is_believed_of_a_trusted_proxy_only(file: Path, proxy: str, address: str):
    async with make_world(access_log=True, access_log_file=str(file), trusted_proxies=(proxy,)) as world:
        forwarded = "203.0.113.66, 198.51.100.9"
        async with served(world) as url, asked(url, "/healthz", x_forwarded_for=forwarded) as client:
            assert client.status == 200
        assert (await lines(world, file))[-1]["address"] == address
