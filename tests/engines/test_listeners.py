"""A program that listens elsewhere than its service says is found out, with what to change."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.engines.stations import wanted
from tests.fakes.engine import FakeEngine
from windlass.base.clock import SystemClock
from windlass.core.deploy.workload import Artifact, HealthProbe, Instance, Phase, ProbeKind
from windlass.engines.by_hand import readiness
from windlass.engines.by_hand.listeners import ListeningPort, advise_on_address, listening_sockets
from windlass.engines.by_hand.readiness import ReadinessWait
from windlass.engines.engine import NotReady

EVERYWHERE, LOOPBACK = "0.0.0.0", "127.0.0.1"
WEB = wanted(Artifact(kind="native", ref="web"), ports=[3000, 4000])
COPY = Instance(id="web-1", service="web", generation=1, index=0, phase=Phase.RUNNING, ports={3000: 10_001})
OTHER = "web listens on 8000, nothing answers on 3000. Or make it listen on the port in the variable PORT"
TO_8000 = "Change internal_port to 8000"
ONLY = "Make web listen on 0.0.0.0: it listens on port 3000 of"
HERE, OUTSIDE = False, True


@pytest.mark.parametrize(
    ("from_outside", "listeners", "advice"),
    [
        (HERE, [(8000, LOOPBACK)], f"{TO_8000}: {OTHER}"),
        (OUTSIDE, [(8000, EVERYWHERE)], f"{TO_8000}: {OTHER}"),
        (
            HERE,
            [(9000, "::"), (8000, "::")],
            "Change internal_port to one of 8000, 9000: web listens on 8000, 9",
        ),
        (OUTSIDE, [(3000, LOOPBACK)], f"{ONLY} 127.0.0.1 only"),
        (HERE, [(10_001, "::1")], f"{ONLY} ::1 only"),
        (
            OUTSIDE,
            [(8000, LOOPBACK)],
            f"{TO_8000}, and make web listen on 0.0.0.0: it listens on port 8000 of 127",
        ),
    ],
)
def test_a_program_that_listens_elsewhere_is_told_what_to_change(from_outside, listeners, advice):
    found = [ListeningPort(port, address) for port, address in listeners]
    assert advise_on_address(WEB, COPY, 3000, found, from_outside=from_outside).startswith(advice)


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
def test_a_program_that_listens_where_it_should_or_nowhere_gets_no_advice(from_outside, listeners):
    found = [ListeningPort(port, address) for port, address in listeners]
    assert advise_on_address(WEB, COPY, 3000, found, from_outside=from_outside) == ""


@pytest.mark.parametrize(
    ("family", "table", "address"), [(socket.AF_INET, "tcp", LOOPBACK), (socket.AF_INET6, "tcp6", "::1")]
)
def test_the_tables_of_the_kernel_tell_address_and_port_of_a_listener(family, table, address):
    with socket.socket(family) as listening:
        listening.bind((address, 0))
        port = listening.getsockname()[1]
        assert ListeningPort(port, address) not in _found(table)
        listening.listen()
        assert ListeningPort(port, address) in _found(table)


def _found(table: str) -> set[ListeningPort]:
    return {listener for listener, _ in listening_sockets(Path(f"/proc/net/{table}").read_text())}


async def waited(monkeypatch: pytest.MonkeyPatch, engine: FakeEngine) -> tuple[list[str], str]:
    """Waits in vain; returns what was noted, and the failure."""
    monkeypatch.setattr(readiness, "NOTED_AFTER", -1.0)  # at the first look
    probe = HealthProbe(kind=ProbeKind.TCP, port=3000)
    web, noted = wanted(Artifact(kind="native", ref="web"), ports=[3000], ready=(probe,), patience=0.3), []

    async def note(reason: str) -> None:
        noted.append(reason)

    await engine.apply(web, 1)
    with pytest.raises(NotReady) as failed:
        await ReadinessWait(engine, SystemClock(), web, 1, note).run()
    return noted, str(failed.value)


async def test_the_port_on_which_a_program_listens_is_noted_once_and_in_the_failure(monkeypatch):
    engine = FakeEngine()
    engine.probes.trouble = "it does not answer on port 3000"
    engine.probes.listeners = [ListeningPort(8000, LOOPBACK)]
    noted, failure = await waited(monkeypatch, engine)
    assert noted == [f"{TO_8000}: {OTHER}"]
    assert failure == f"{TO_8000}: {OTHER}. web was not healthy after 0 seconds"


async def test_a_program_that_listens_nowhere_has_the_reason_noted_once(monkeypatch):
    engine = FakeEngine()
    engine.probes.trouble = "it does not answer on port 3000"
    noted, failure = await waited(monkeypatch, engine)
    assert noted == ["Look at the log: web is not ready yet: it does not answer on port 3000"]
    assert failure.startswith("Look at the log: web was not healthy after 0 seconds: it does not answer")


def test_ten_seconds_pass_before_a_wait_is_noted():
    assert readiness.NOTED_AFTER == 10.0
