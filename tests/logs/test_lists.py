"""Logs over HTTP, as lists."""

from __future__ import annotations

from urllib.parse import quote

from tests.logs.streams import FOLLOW, log, say
from tests.tables import rows
from tests.world import NOON, World
from windlass.base.clock import stamp


async def test_a_line_has_its_instance_and_its_time(world: World, app: str):
    say(world, app, "hello")
    (line,) = (await world.get(f"/application/{app}/log"))["results"]
    assert line.pop("id")
    assert line == {"created_at": stamp(NOON), "message": "hello", "pod_name": "pod-1", "version": "7"}


async def test_without_a_number_a_thousand_lines_are_answered(world: World, app: str):
    say(world, app, *(f"line {number}" for number in range(1500)))
    assert await log(world, app) == [f"line {number}" for number in range(500, 1500)]
    assert await log(world, app, "tail=2") == ["line 1498", "line 1499"]


async def test_since_is_inclusive_and_until_is_exclusive(world: World, app: str):
    for number in range(10):
        say(world, app, f"line {number}", at=NOON + number)
    for since, until in ((3, 6), (0, 1), (5, 5), (9, 99)):
        wanted = [f"line {number}" for number in range(since, min(until, 10))]
        assert await log(world, app, f"since={NOON + since}&until={NOON + until}") == wanted
        stamps = f"since={stamp(NOON + since)}&until={quote(stamp(NOON + until))}"
        assert await log(world, app, stamps) == wanted
    assert await log(world, app, f"since={NOON + 4}&tail=2") == ["line 8", "line 9"]
    assert await log(world, app, "since=2027-01-01T00:00:00Z") == []
    assert await log(world, app, "until=99999999999999&tail=1&since=&search=") == ["line 9"]


async def test_a_log_search_matches_plain_text_in_the_message_only(world: World, app: str):
    say(world, app, "GET /a+b?c=1&d 200", "GET /x 500", "tab\there", 'quoted "é"', "pod-1 said created_at")
    assert await log(world, app, f"search={quote('/a+b?c=1&d')}") == ["GET /a+b?c=1&d 200"]
    assert await log(world, app, "search=GET&tail=1") == ["GET /x 500"]
    assert await log(world, app, f"search={quote(chr(9))}") == ["tab\there"]
    assert await log(world, app, "search=" + quote('"é"')) == ['quoted "é"']
    assert await log(world, app, "search=pod-1") == ["pod-1 said created_at"]
    assert await log(world, app, "search=get") == []


@rows(
    "query",
    [
        "since=yesterday",
        "since=2026-13-01T00:00:00Z",
        "since=2026-01-01",
        "until=-1",
        "until=1e9",
        "until=2026-01-01T00:00:00.0000Z",
        "until=999999999999999",
        "follow=maybe",
        "follow=",
        f"search={'x' * 1025}",
        "tail=0&follow=true",
    ],
)
async def test_a_wrong_parameter_of_a_log_is_refused_by_name(world: World, app: str, query: str):
    answer = await world.get(f"/application/{app}/log?{query}")
    assert answer.status == 400
    assert answer.message.startswith(query.partition("=")[0] + ": ")


async def test_a_reader_without_access_cannot_follow(world: World, app: str):
    _, stranger = await world.organization()
    assert (await world.get(f"/application/{app}{FOLLOW}", token=stranger)).status == 404
    assert (await world.get(f"/application/{app}{FOLLOW}", token=None)).status == 401
