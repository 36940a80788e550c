"""The benchmarks, without their numbers: what they count is counted right, and what they say is explained."""

import asyncio
import os
import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench import report
from bench.__main__ import measured
from bench.cases import CASES
from bench.load import NUMBER, Generator, Load, Refused
from bench.measure import QUICK, Bench, Line, Target

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: text/plain\r\n\r\nhello"
TOO_MANY = OK.replace(b"200 OK", b"429 Too Many Requests")


class Scribe:
    """A server that always gives the same answer, in pieces, and keeps what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.pieces = (answer[:20], answer[20:-1], answer[-1:]) if answer else ()
        self.asked: list[bytes] = []
        self.closed: list[asyncio.Future[None]] = []


class Connection(asyncio.Protocol):
    def __init__(self, scribe: Scribe) -> None:
        self.scribe = scribe
        self.closed = asyncio.get_running_loop().create_future()
        scribe.closed.append(self.closed)

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, exc):
        self.closed.set_result(None)

    def data_received(self, data):
        self.scribe.asked.append(data)
        if not self.scribe.pieces:
            self.transport.close()
        self.write(self.scribe.pieces)

    def write(self, pieces):
        """Each piece sets the timer of the next one: after a pause, timers that are due keep no order."""
        if pieces and not self.closed.done():
            self.transport.write(pieces[0])
            asyncio.get_running_loop().call_later(0.002, self.write, pieces[1:])


async def loaded(scribe: Scribe, *requests: str, turns: int = 1):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(scribe), "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    generator = Generator(Load(port=port, pid=os.getpid(), requests=requests, connections=4))
    await generator.connect()
    try:
        return [await generator.put(0.1) for _ in range(turns)]
    finally:
        generator.close()
        await asyncio.gather(*scribe.closed)
        server.close()


async def test_an_answer_received_in_pieces_counts_once():
    scribe = Scribe(OK)
    [found] = await loaded(scribe, "GET / HTTP/1.1\r\n\r\n")
    assert 0 < found.answers == len(scribe.asked)


async def test_all_requests_of_a_round_are_answered_before_the_next_round():
    scribe = Scribe(OK)
    found = await loaded(scribe, f"GET /{NUMBER} HTTP/1.1\r\n\r\n", turns=3)
    assert all(one.answers > 0 for one in found)
    assert sum(one.answers for one in found) == len(scribe.asked) == len(set(scribe.asked))


async def test_different_requests_are_sent_alternately():
    scribe = Scribe(OK)
    await loaded(scribe, "GET /a HTTP/1.1\r\n\r\n", "GET /b HTTP/1.1\r\n\r\n")
    a, b = (scribe.asked.count(f"GET /{name} HTTP/1.1\r\n\r\n".encode()) for name in "ab")
    assert a > 0
    assert abs(a - b) <= 1


async def test_no_request_number_is_sent_twice():
    scribe = Scribe(OK)
    await loaded(scribe, f"GET /{NUMBER} HTTP/1.1\r\n\r\n")
    assert scribe.asked
    assert len(set(scribe.asked)) == len(scribe.asked)


async def test_an_unsuccessful_answer_ends_the_load():
    with pytest.raises(Refused, match="429 Too Many Requests"):
        await loaded(Scribe(TOO_MANY), "GET / HTTP/1.1\r\n\r\n")


async def test_a_server_that_hangs_up_ends_the_load():
    with pytest.raises(Refused, match="closed a connection"):
        await loaded(Scribe(b""), "GET / HTTP/1.1\r\n\r\n")


def test_the_reported_ratio_is_the_median_of_all_rounds():
    line = Line(what="x", unit="/s", ours=[10, 90, 30], limit=[10, 100, 60], target=Target(0.8, "≥"))
    assert line.ratios == [1.0, 0.9, 0.5]
    assert report.cells(line) == ("x", "30.0/s", "60.0/s", "0.90", "≥ 0.8, met", "0.50 – 1.00")


def test_an_absolute_target_is_compared_with_windlass_own_number():
    line = Line(what="x", unit="s", ours=[0.7, 0.5, 0.8], limit=[2, 2, 2], target=Target(0.6, "≤", "s"))
    assert report.cells(line) == ("x", "0.70 s", "2.00 s", "0.35", "≤ 0.6 s, missed", "0.50 s – 0.80 s")


def test_writing_a_report_replaces_only_the_old_report(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write("new", page)
    assert page.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"


def test_every_case_is_explained_and_the_report_has_cases_in_their_order():
    page = report.README.read_text()
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == list(CASES)
    reported = re.findall(r"^\| \*\*(\w+)\*\* \|", page, re.MULTILINE)
    assert reported == [name for name in CASES if name in reported]
    assert reported


def test_a_benchmark_case_that_does_not_end_times_out_and_is_reported():
    bench = Bench(replace(QUICK, patience=1), Path())

    def endless(bench: Bench) -> list[Line]:
        time.sleep(600)
        return []

    reason = measured(endless, bench)
    assert reason == "given up after 1 s"
    assert "| did not come to its end: given up after 1 s |" in report.table({"reads": reason})


def test_a_case_that_fails_does_not_end_the_others():
    assert measured(lambda _: [][0], Bench(QUICK, Path())) == "it failed with IndexError"
