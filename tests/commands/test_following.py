"""Logs that are followed: shown as they come, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.cli.said import say
from tests.commands.streamer import END, Turn, line, remark, streaming
from tests.commands.test_stories import shop
from tests.logs.streams import settled
from tests.tokens import ADMIN
from windlass.cli.following import StreamEvent, parse_events
from windlass.engines.workload import OutputLine

APP = "00000000-0000-4000-8000-000000000001"
FOLLOW = ("application", "log", APP, "--follow")


def followed(*turns: Turn, words=FOLLOW):
    with streaming(*turns) as server:
        said = say(*words, url=server.url)
        assert not server.turns
        return said, server.asked


def shown(said) -> list[str]:
    return [json.loads(line)["message"] for line in said.out.splitlines()]


# With a real server


class Terminal:
    """`windlass` in a process of its own, whose output is read as it comes."""

    def __init__(self, url: str, *words: str, piped: bool, **more: str) -> None:
        ours, theirs = os.pipe() if piped else pty.openpty()
        environment = {
            "WINDLASS_URL": url,
            "WINDLASS_TOKEN": ADMIN,
            "TERM": "xterm",
            "COLUMNS": "120",
            **more,
        }
        command = [sys.executable, "-m", "windlass", *words]
        self.process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment)
        os.close(theirs)
        self._output = ours
        self._seen = b""

    async def line(self) -> str:
        async with asyncio.timeout(30):
            while b"\n" not in self._seen:
                self._seen += await asyncio.to_thread(os.read, self._output, 65_536)
        found, _, self._seen = self._seen.partition(b"\n")
        return found.decode().rstrip("\r")

    async def interrupt(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, error = await asyncio.to_thread(self.process.communicate, timeout=30)
        return self.process.returncode, error.decode()


@contextlib.contextmanager
def at_a_terminal(url: str, *words: str, piped: bool = False, **more: str):
    """`more`: variables of the environment."""
    terminal = Terminal(url, *words, piped=piped, **more)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.communicate()
        os.close(terminal._output)


async def logging(windlass, *messages: str) -> None:
    [web] = [one for one in await applications(windlass) if one["name"] == "web"]
    now = windlass.world.clock.now()
    windlass.world.engine.says(web["id"], *(OutputLine(now, message, "web-1", "7") for message in messages))


async def applications(windlass):
    return (await windlass.done("application", "list", "--environment", "production"))["results"]


async def test_a_piped_followed_log_prints_one_json_object_per_line_as_it_arrives(windlass):
    await shop(windlass)
    await logging(windlass, "before")
    with at_a_terminal(windlass.url, "application", "log", "web", "--follow", piped=True) as terminal:
        assert json.loads(await terminal.line())["message"] == "before"
        for number in range(3):
            await logging(windlass, f"line {number}")
            said = json.loads(await terminal.line())
            assert (said["message"], said["pod_name"]) == (f"line {number}", "web-1")
        assert await terminal.interrupt() == (130, "")
        windlass.world.installation.app.stop_streams()


async def test_a_followed_log_on_a_terminal_shows_time_and_instance_in_colour_without_control_sequences(
    windlass,
):
    await shop(windlass)
    with at_a_terminal(windlass.url, "application", "log", "web", "--follow") as terminal:
        await logging(windlass, "hello \x1b[2J there")
        line = await terminal.line()
        assert "\x1b[36mweb-1\x1b[0m" in line
        assert line.endswith("hello  there")
        assert await terminal.interrupt() == (130, "")
        windlass.world.installation.app.stop_streams()


async def test_a_build_log_is_followed_to_the_end_of_its_build(windlass):
    await shop(windlass)
    building = windlass.world.builder.gate = asyncio.Event()
    deployment = await windlass.done("application", "deploy", "web")
    settling = asyncio.create_task(windlass.world.settle())
    words = ("deployment", "log", deployment["id"], "--application", "web", "--follow")
    following = asyncio.create_task(windlass(*words))
    await asyncio.sleep(0.1)
    assert not following.done()
    building.set()
    await settling
    said = await following
    assert (said.code, said.err) == (0, "")
    assert any(message.startswith("Building ") for message in shown(said))


async def test_following_the_log_of_a_deleted_service_ends(windlass):
    app = await shop(windlass)
    following = asyncio.create_task(windlass("application", "log", "web", "--follow"))
    assert (await windlass.world.delete(f"/application/{app}")).status == 204
    while not following.done():
        await windlass.world.run(1)
        await asyncio.sleep(0.01)
    assert following.result().code in {0, 1}  # 1: it was gone before anybody listened


async def test_each_event_is_a_line_and_for_programs_a_line_of_json(windlass):
    await shop(windlass)
    org = windlass.world.org
    with (
        at_a_terminal(windlass.url, "organization", "events/stream") as person,
        at_a_terminal(windlass.url, "organization", "events/stream", org, piped=True) as program,
    ):
        await settled(lambda: len(windlass.world.installation.app._streams) == 2)
        await windlass.done("application", "edit", "web", "--description", "hello")
        line = await person.line()
        assert "\x1b[36moperator\x1b[0m  UPDATE APPLICATION web  (shop/production)" in line
        told = json.loads(await program.line())
        assert (told["event_type"], told["target_name"]) == ("UPDATE", "web")
        assert await person.interrupt() == await program.interrupt() == (130, "")
        windlass.world.installation.app.stop_streams()


async def test_the_status_stream_prints_one_line_for_each_changed_service(windlass):
    await shop(windlass)
    [web] = [one["id"] for one in await applications(windlass) if one["name"] == "web"]
    said = await windlass("environment", "status/stream", "production", "--no-follow", "--text")
    assert said.code == 0, said
    assert f"application {web}  STOPPED" in said.out.splitlines()
    assert said.out.startswith("environment ")


async def test_an_event_with_only_an_id_is_not_shown_and_advances_the_position():
    said, asked = followed(Turn([b"id: 7\n\n"], breaks=True), Turn([line("one"), END]))
    assert shown(said) == ["one"]
    assert asked[1]["last-event-id"] == "7"


# With a server that goes away


@pytest.mark.parametrize("breaks", [True, False], ids=["killed", "stopped"])
def test_a_broken_log_stream_is_resumed_after_the_last_received_line(breaks):
    said, asked = followed(Turn([line("one"), line("two")], breaks=breaks), Turn([line("three"), END]))
    assert said.code == 0
    assert shown(said) == ["one", "two", "three"]
    assert [headers.get("last-event-id") for headers in asked] == [None, "two"]
    assert "Trying again" in said.err
    assert said.err.endswith("Continuing.\n")


def test_a_truncated_log_line_is_not_printed_and_is_received_again_after_the_reconnect():
    whole = line("two")
    said, asked = followed(Turn([line("one"), whole[:20]], breaks=True), Turn([whole, END]))
    assert shown(said) == ["one", "two"]
    assert asked[1]["last-event-id"] == "one"


def test_a_follower_that_received_no_event_reconnects_without_last_event_id():
    _, asked = followed(Turn(breaks=True), Turn([END]))
    assert "last-event-id" not in asked[1]


@pytest.mark.parametrize("status", [429, 502, 503])
def test_following_retries_while_a_restarting_server_answers_with_an_error(status):
    said, _ = followed(Turn([line("one")], breaks=True), Turn(status=status), Turn([line("two"), END]))
    assert (said.code, shown(said)) == (0, ["one", "two"])
    assert said.err.count("Trying again") == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_following_ends_with_the_message_of_a_refusal_after_a_reconnect(status):
    said, _ = followed(Turn([line("one")], breaks=True), Turn(status=status))
    assert (said.code, shown(said)) == (1, ["one"])
    assert f"windlass: no, {status}" in said.err


def test_following_fails_at_once_if_the_server_is_unreachable():
    assert say(*FOLLOW, url="http://127.0.0.1:1").code == 1


def test_missing_lines_are_announced_on_standard_error():
    said, _ = followed(Turn([line("one"), remark("gone", "some are no longer kept"), line("two"), END]))
    assert shown(said) == ["one", "two"]
    assert said.err == "some are no longer kept\n"


def test_following_ends_with_exit_code_0_at_the_end_of_the_log():
    said, asked = followed(Turn([line("one"), END, line("two")]))
    assert (said.code, said.err, shown(said), len(asked)) == (0, "", ["one"], 1)


def test_a_streamed_answer_is_printed_as_it_arrives():
    pieces = [line("one"), b": still here\n\n", END]
    said, _ = followed(Turn(pieces), words=("api", "GET", "/application/x/log?follow=true"))
    assert (said.code, said.out) == (0, b"".join(pieces).decode())


def test_a_streamed_call_that_breaks_off_prints_what_it_received():
    said, _ = followed(Turn([line("one")], breaks=True), words=("api", "GET", "/x"))
    assert (said.code, said.out) == (1, line("one").decode())
    assert "the connection was lost" in said.err


# How events are read


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_wherever_the_stream_is_cut(size):
    said = (
        ": a comment\n\nid: 1\ndata: é\n\nevent: gone\ndata: a\ndata:b\n\nid\ndata: c\r\n\r\ndata: unfinished"
    )
    text = said.encode()
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    assert list(parse_events(pieces)) == [
        StreamEvent("message", "é", "1"),
        StreamEvent("gone", "a\nb", ""),
        StreamEvent("message", "c", ""),
    ]
