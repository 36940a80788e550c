"""A program that listens elsewhere than its service says is found out, with what to change."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.engines.stations import wanted
from tests.fakes.engine import FakeEngine
from tests.free_ports import free_port
from windlass.base.clock import SystemClock
from windlass.engines.engine import ListensElsewhere, NotReady
from windlass.engines.rollout import readiness
from windlass.engines.rollout.listeners import (
    ListeningPort,
    PortMismatch,
    find_port_mismatch,
    listening_sockets,
)
from windlass.engines.rollout.probes import speaks_http
from windlass.engines.rollout.readiness import ReadinessWait
from windlass.engines.workload import (
    Artifact,
    HealthProbe,
    Instance,
    Phase,
    ProbeKind,
    Volume,
    Workload,
)

EVERYWHERE, LOOPBACK = "0.0.0.0", "127.0.0.1"
PROBE = HealthProbe(kind=ProbeKind.TCP, port=3000)
WEB = wanted(Artifact(kind="native", ref="web"), ports=[3000, 4000])
COPY = Instance(
    id="web-1",
    service="web",
    generation=1,
    index=0,
    phase=Phase.RUNNING,
    address=LOOPBACK,
    ports={3000: 10_001},
)
PLACE = "Set ports[0].internal_port to"
OTHER = (
    f"{PLACE} 8000: web listens on 8000, and the {WEB.family} says 3000. Or make it listen on the "
    f"port in the "
    "variable PORT"
)
SHARED = ": without containers, a port of its own choice is for one instance only"
ONLY = "Make web listen on 0.0.0.0, at the port in the variable PORT: it listens on"
HERE, OUTSIDE = False, True


def misplaced(from_outside: bool, listeners: list[tuple[int, str]]) -> PortMismatch | None:
    found = [ListeningPort(port, address) for port, address in listeners]
    return find_port_mismatch(WEB, COPY, 3000, found, from_outside=from_outside)


@pytest.mark.parametrize(
    ("from_outside", "listeners", "expected"),
    [
        (HERE, [(8000, LOOPBACK)], PortMismatch(OTHER + SHARED, 8000, True)),
        (OUTSIDE, [(8000, EVERYWHERE)], PortMismatch(OTHER, 8000, True)),
        (OUTSIDE, [(8000, EVERYWHERE), (9229, LOOPBACK)], PortMismatch(OTHER, 8000, True)),
        (OUTSIDE, [(8000, EVERYWHERE), (4000, EVERYWHERE)], PortMismatch(OTHER, 8000, False)),
        (OUTSIDE, [(3000, LOOPBACK)], PortMismatch(f"{ONLY} 127.0.0.1:3000 only", None, True)),
        (HERE, [(10_001, "::1")], PortMismatch(f"{ONLY} [::1]:10001 only", None, True)),
        (OUTSIDE, [(8000, LOOPBACK)], PortMismatch(f"{ONLY} 127.0.0.1:8000 only", None, True)),
    ],
)
def test_a_program_listening_on_another_port_or_address_gets_advice(from_outside, listeners, expected):
    assert misplaced(from_outside, listeners) == expected


def test_advice_lists_all_other_ports_and_chooses_none():
    several = misplaced(HERE, [(9000, "::"), (8000, "::")])
    assert several is not None
    assert several.advice.startswith(f"{PLACE} one of 8000, 9000: web listens on 8000, 9000, and the ")
    assert several.port is None


@pytest.mark.parametrize(
    ("from_outside", "listeners"),
    [
        (HERE, []),
        (HERE, [(3000, LOOPBACK)]),
        (HERE, [(10_001, "::")]),
        (HERE, [(4000, EVERYWHERE)]),
        (OUTSIDE, [(3000, EVERYWHERE), (8000, EVERYWHERE)]),
    ],
)
def test_a_program_listening_as_declared_or_nowhere_gets_no_advice(from_outside, listeners):
    assert misplaced(from_outside, listeners) is None


@pytest.mark.parametrize(
    ("family", "table", "address"), [(socket.AF_INET, "tcp", LOOPBACK), (socket.AF_INET6, "tcp6", "::1")]
)
def test_listening_sockets_are_read_from_the_kernel_tables_with_address_and_port(family, table, address):
    with socket.socket(family) as listening:
        listening.bind((address, 0))
        port = listening.getsockname()[1]
        assert ListeningPort(port, address) not in _found(table)
        listening.listen()
        assert ListeningPort(port, address) in _found(table)


def _found(table: str) -> set[ListeningPort]:
    return {listener for listener, _ in listening_sockets(Path(f"/proc/net/{table}").read_text())}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """An engine whose program never passes its probe, and a wait that looks at once and is soon sure."""
    for name in ("NOTED_AFTER", "CHECK_INTERVAL", "SURE_AFTER"):
        monkeypatch.setattr(readiness, name, 0.0)
    engine = FakeEngine()
    engine.probes.problem = "it does not answer on port 3000"
    return engine


async def waited(engine: FakeEngine, web: Workload | None = None) -> tuple[list[str], NotReady]:
    """Waits in vain; returns what was noted, and the failure."""
    web, noted = web or program(patience=0.3), []

    async def note(reason: str) -> None:
        noted.append(reason)

    await engine.apply(web, 1)
    with pytest.raises(NotReady) as failed:
        await ReadinessWait(engine, SystemClock(), web, 1, note).run()
    return noted, failed.value


def program(*, automatic: bool = False, **fields: Any) -> Workload:
    web = wanted(Artifact(kind="native", ref="web"), ports=[3000], ready=(PROBE,), **fields)
    return replace(web, ports=tuple(replace(port, automatic=automatic) for port in web.ports))


async def test_the_port_on_which_a_program_listens_is_logged_once_and_in_the_failure(engine):
    engine.probes.listeners = [ListeningPort(8000, LOOPBACK)]
    noted, failure = await waited(engine)
    assert noted == [OTHER + SHARED]
    assert str(failure) == f"{OTHER}{SHARED}. web was not healthy after 0 seconds"


async def test_a_program_that_listens_nowhere_has_the_reason_noted_once(engine):
    noted, failure = await waited(engine)
    assert noted == ["Look at the log: web is not ready yet: it does not answer on port 3000"]
    assert str(failure).startswith("Look at the log: web was not healthy after 0 seconds: it does not answer")


@pytest.mark.parametrize(
    ("look_seconds", "pause"), [(0.0, 0.1), (0.001, 0.1), (0.002, 0.2), (0.01, 1.0), (5.0, 1.0)]
)
def test_pauses_are_short_while_looks_are_cheap(look_seconds: float, pause: float):
    assert readiness.longest_pause(look_seconds) == pause


async def test_a_late_start_is_noticed_after_a_short_pause(engine, monkeypatch):
    """Without the limit, the pauses before 60 looks are minutes."""
    looks: list[float] = []

    def limit(look_seconds: float) -> float:
        looks.append(look_seconds)
        if len(looks) == 60:
            engine.probes.problem = ""
        return 0.001

    monkeypatch.setattr(readiness, "longest_pause", limit)
    web = program(patience=3600)
    await engine.apply(web, 1)
    await ReadinessWait(engine, SystemClock(), web, 1).run()
    assert len(looks) == 60
    assert all(seconds >= 0 for seconds in looks)


def test_a_readiness_wait_is_logged_after_10_and_given_up_after_20_seconds():
    assert (readiness.SURE_AFTER, readiness.NOTED_AFTER, readiness.WRONG_PORT_TIMEOUT) == (3.0, 10.0, 20.0)


async def test_waiting_for_a_program_that_listens_only_on_another_port_is_given_up_early(engine, monkeypatch):
    monkeypatch.setattr(readiness, "WRONG_PORT_TIMEOUT", 0.01)
    engine.probes.listeners = [ListeningPort(8000, LOOPBACK)]
    noted, failure = await waited(engine, program(patience=300))
    assert noted == [OTHER + SHARED]
    assert str(failure).startswith(f"{OTHER}{SHARED}. web was given ")


@pytest.mark.parametrize(
    "fields", [{"watched": True}, {"volumes": (Volume(name="v1", mount="/data"),)}], ids=["probe", "volumes"]
)
async def test_a_program_with_a_long_probe_or_start_is_waited_for_until_the_end(engine, monkeypatch, fields):
    monkeypatch.setattr(readiness, "WRONG_PORT_TIMEOUT", 0.0)
    engine.probes.listeners = [ListeningPort(8000, LOOPBACK)]
    _, failure = await waited(engine, program(patience=0.1, **fields))
    assert str(failure).endswith(". web was not healthy after 0 seconds")


async def test_a_program_that_listens_elsewhere_briefly_gets_no_advice(engine, monkeypatch):
    monkeypatch.setattr(readiness, "SURE_AFTER", 300.0)
    engine.probes.listeners = [ListeningPort(8000, LOOPBACK)]
    noted, _ = await waited(engine, program(automatic=True, patience=0.1))
    assert noted == []


async def test_a_port_chosen_by_windlass_is_replaced_by_the_one_on_which_the_program_answers(engine):
    engine.probes.listeners, engine.probes.speaks = [ListeningPort(8000, LOOPBACK)], {8000}
    noted, failure = await waited(engine, program(automatic=True, patience=300))
    assert isinstance(failure, ListensElsewhere)
    assert (failure.port, noted) == (8000, [])


@pytest.mark.parametrize(
    ("automatic", "port", "speaks"),
    [(False, 8000, {8000}), (True, 8000, set()), (True, 6379, {6379})],
    ids=["a person chose the port", "it is no HTTP", "a port of databases"],
)
async def test_an_automatic_port_is_switched_only_to_a_single_http_port(engine, automatic, port, speaks):
    engine.probes.listeners, engine.probes.speaks = [ListeningPort(port, LOOPBACK)], speaks
    _, failure = await waited(engine, program(automatic=automatic, patience=0.1))
    assert not isinstance(failure, ListensElsewhere)


@pytest.mark.parametrize(
    ("answer", "is_http"), [(b"HTTP/1.0 404 Not Found\r\n", True), (b"SSH-2.0-x\r\n", False), (b"", False)]
)
async def test_a_port_speaks_http_if_its_answer_is_an_http_response(answer, is_http):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, LOOPBACK, 0) as server:
        assert await speaks_http(LOOPBACK, server.sockets[0].getsockname()[1]) is is_http


async def test_a_port_on_which_nothing_listens_speaks_no_http():
    assert not await speaks_http(LOOPBACK, free_port())
