"""Questions to name servers, and answers from strangers."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.name_server import name_server
from windlass.base.dns import DnsClient, DnsFailure, NameServer, RecordType, machine_servers, parse_server
from windlass.base.dns.client import MAX_CONCURRENT_QUESTIONS
from windlass.base.dns.messages import BadMessage, read_answer, write_question

NAME = "shop.example.com"


@contextlib.asynccontextmanager
async def asked():
    """A name server, and a client that asks it."""
    async with name_server() as server:
        server.set(NAME, ("CNAME", "web.example.net"))
        server.set("web.example.net", ("A", "203.0.113.7"), ("AAAA", "2001:db8::7"))
        server.set("text.example.com", ("TXT", "é" * 300), ("TXT", ""))
        server.set("example.com", ("CAA", "0 issue ca.example; account=1"))
        yield server, DnsClient((NameServer("127.0.0.1", server.port),), seconds=0.3)


async def ask(client: DnsClient, name: str, type: RecordType):
    return await client.ask(client.servers[0], name, type)


async def test_records_are_read_with_the_aliases_that_lead_to_them():
    async with asked() as (_, client):
        found = await ask(client, NAME.upper(), RecordType.A)
        assert (found.values, found.aliases) == (("203.0.113.7",), ("web.example.net",))
        assert (await ask(client, NAME, RecordType.AAAA)).values == ("2001:db8::7",)
        assert (await ask(client, "text.example.com", RecordType.TXT)).values == ("é" * 300, "")
        assert (await ask(client, "example.com", RecordType.CAA)).values == ("0 issue ca.example; account=1",)
        assert (await ask(client, "example.com", RecordType.A)).exists
        assert not (await ask(client, "none.example.com", RecordType.A)).exists


async def test_a_truncated_answer_is_requested_again_over_tcp():
    async with asked() as (server, client):
        server.is_narrow = True
        assert (await ask(client, NAME, RecordType.A)).values == ("203.0.113.7",)


@pytest.mark.parametrize(
    ("fault", "words"),
    [("broken", "SERVFAIL"), ("unsigned", "DNSSEC"), ("silent", "does not answer")],
)
async def test_a_failure_of_a_name_server_raises_its_reason(fault, words):
    async with asked() as (server, client):
        if fault == "silent":
            server.is_silent = True
        else:
            setattr(server, fault, {NAME})
        with pytest.raises(DnsFailure, match=words) as failure:
            await ask(client, NAME, RecordType.A)
        assert failure.value.is_dnssec is (fault == "unsigned")


async def test_a_name_that_is_too_long_is_a_failure_as_any_other():
    async with asked() as (_, client):
        with pytest.raises(DnsFailure, match="no name that can be asked for"):
            await ask(client, ".".join(["a" * 50] * 6), RecordType.A)


async def test_a_circle_of_aliases_ends():
    async with asked() as (server, client):
        server.set("a.example.com", ("CNAME", "b.example.com"))
        server.set("b.example.com", ("CNAME", "a.example.com"))
        found = await ask(client, "a.example.com", RecordType.A)
        assert found.values == ()
        assert len(found.aliases) <= 2


async def test_more_questions_than_sockets_wait_for_each_other():
    async with name_server() as server:
        server.is_silent = True
        client = DnsClient((NameServer("127.0.0.1", server.port),), seconds=0.05)
        before, most = open_files(), 0
        asking = [
            asyncio.create_task(ask(client, NAME, RecordType.A)) for _ in range(3 * MAX_CONCURRENT_QUESTIONS)
        ]
        await asyncio.sleep(0)
        while not all(task.done() for task in asking):
            most = max(most, open_files() - before)
            await asyncio.sleep(0.01)
        assert MAX_CONCURRENT_QUESTIONS // 2 < most < 2 * MAX_CONCURRENT_QUESTIONS
        assert all(isinstance(task.exception(), DnsFailure) for task in asking)


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_an_answer_of_more_than_16_kib_is_refused():
    async with asked() as (server, client):
        server.is_narrow = True
        server.set("long.example.com", ("TXT", "a" * 20_000))
        with pytest.raises(DnsFailure, match="no readable answer"):
            await ask(client, "long.example.com", RecordType.TXT)


def test_a_text_of_many_empty_strings_is_read_in_one_pass():
    head = struct.pack("!HHHHHH", 7, 0x8180, 1, 1, 0, 0)
    question = write_question(7, NAME, RecordType.TXT)[12:-11]
    data = CountedBytes(
        head + question + b"\xc0\x0c" + struct.pack("!HHIH", 16, 1, 0, 60_000) + bytes(60_000)
    )
    CountedBytes.copied = 0
    assert read_answer(data, 7, NAME, RecordType.TXT).records[0].value == ""
    assert CountedBytes.copied < 4 * len(data)


class CountedBytes(bytes):
    """Bytes that count those that are copied from them."""

    copied = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if isinstance(found, bytes):
            CountedBytes.copied += len(found)
            return CountedBytes(found)
        return found


def test_an_answer_to_another_question_is_refused():
    question = write_question(7, NAME, RecordType.A)
    answer = bytearray(question)
    answer[2] |= 0x80
    assert read_answer(bytes(answer), 7, NAME, RecordType.A).records == ()
    for id, name, type in (
        (8, NAME, RecordType.A), (7, "www.example.com", RecordType.A), (7, NAME, RecordType.TXT)
    ):  # fmt: skip
        with pytest.raises(BadMessage):
            read_answer(bytes(answer), id, name, type)
    with pytest.raises(BadMessage):  # a question is no answer
        read_answer(question, 7, NAME, RecordType.A)


def test_a_name_that_points_forwards_or_at_itself_is_refused():
    head = struct.pack("!HHHHHH", 7, 0x8180, 1, 1, 0, 0)
    question = write_question(7, NAME, RecordType.A)[12:-11]
    for target in (12 + len(question), 12 + len(question) + 2, 0x3FFF):
        pointer = struct.pack("!H", 0xC000 | target)
        with pytest.raises(BadMessage):
            read_answer(head + question + pointer + b"\0" * 20, 7, NAME, RecordType.A)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 5))
def test_no_answer_of_a_stranger_raises_anything_but_a_refusal(rest, count):
    head = struct.pack("!HHHHHH", 7, 0x8180, 1, count, 0, 0)
    question = write_question(7, NAME, RecordType.A)[12:-11]
    for message in (head + question + rest, rest):
        with contextlib.suppress(BadMessage):
            assert len(read_answer(message, 7, NAME, RecordType.A).records) <= 200


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("192.0.2.1", NameServer("192.0.2.1")),
        ("192.0.2.1:5353", NameServer("192.0.2.1", 5353)),
        ("2001:db8::1", NameServer("2001:db8::1")),
        ("[2001:db8::1]:5353", NameServer("2001:db8::1", 5353)),
    ],
)
def test_name_servers_are_named_with_or_without_a_port(text, server):
    assert parse_server(text) == server


@pytest.mark.parametrize("text", ["", "dns.example.com", "192.0.2.1:", "192.0.2.1:0", "192.0.2.1:70000"])
def test_a_text_that_names_no_server_is_refused(text):
    if text == "192.0.2.1:":
        assert parse_server(text) == NameServer("192.0.2.1")
        return
    with pytest.raises(ValueError):  # noqa: PT011 (of int, ip_address or our own)
        parse_server(text)


def test_the_servers_of_the_machine_are_those_of_its_file(tmp_path):
    file = tmp_path / "resolv.conf"
    file.write_text(
        "# by hand\nsearch example.com\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver x\n"
    )
    assert [str(server) for server in machine_servers(file)] == ["192.0.2.1", "[fe80::1]"]
    file.unlink()
    assert [str(server) for server in machine_servers(file)] == ["127.0.0.1"]
