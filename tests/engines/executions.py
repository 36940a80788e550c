"""Every engine runs commands beside a program, with input and output, and leaves none of them behind."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from typing import Any

import pytest

from tests.engines import programs
from tests.engines.stations import LONG, AtStation, Opener, Station, until, wanted
from windlass.engines.engine import EngineError, Execution, ExecutionRequest, TerminalSize
from windlass.engines.workload import Instance

SLEEP = "sleep 13579"
LISTS = "for line in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $line; echo; done 2>/dev/null"
DIALOGUE = 'read line; stty size; echo "$SECRET got $line"; exit 3'
LEAVES = f"{SLEEP} & setsid {SLEEP} & echo ready; {SLEEP}"


async def read_until(execution: Execution, words: bytes) -> bytes:
    output = b""
    async with asyncio.timeout(LONG):
        while words not in output:
            piece = await execution.read()
            assert piece, output
            output += piece
    return output


async def sleepers(station: Station, instance: Instance) -> int:
    return await _sleepers(station.engine, instance)


async def _sleepers(engine: Any, instance: Instance) -> int:
    _, listed = await engine.execute(instance, ("sh", "-c", LISTS), LONG)
    return int(listed.count(f"\n{SLEEP}"))


class Executions(AtStation):
    @pytest.mark.essential
    async def test_a_command_in_a_terminal_gets_terminal_size_input_and_variables(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS), variables={"SECRET": "s3"}))
        request = ExecutionRequest(("sh", "-c", DIALOGUE), TerminalSize(100, 30))
        execution = await station.engine.open_execution(made, request)
        try:
            await execution.resize(TerminalSize(101, 31))
            await execution.write(b"hello\n")
            output = await read_until(execution, b"s3 got hello")
            assert await execution.wait() == 3
        finally:
            await execution.close()
        assert b"31 101" in output

    @pytest.mark.essential
    async def test_input_and_output_bytes_of_an_executed_command_are_not_changed(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        sent, came = bytes(range(256)) * 2000, bytearray()
        execution = await station.engine.open_execution(made, ExecutionRequest(("cat",)))

        async def write() -> None:
            await execution.write(sent)
            await execution.end_input()

        writing = asyncio.ensure_future(write())
        try:
            async with asyncio.timeout(LONG):
                while piece := await execution.read():
                    came += piece
                assert await execution.wait() == 0
        finally:
            writing.cancel()
            await execution.close()
        assert bytes(came) == sent

    @pytest.mark.essential
    async def test_closing_an_execution_ends_the_command_and_its_child_processes(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        request = ExecutionRequest(("sh", "-c", LEAVES), TerminalSize(80, 24))
        execution = await station.engine.open_execution(made, request)
        try:
            await read_until(execution, b"ready")
            await until(lambda: _are(3, station, made))
        finally:
            await execution.close()
        assert await sleepers(station, made) == 0
        (seen,) = await station.seen(made.service)
        assert seen.restarts == 0

    async def test_an_execution_whose_endless_output_is_not_read_can_be_closed(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        execution = await station.engine.open_execution(made, ExecutionRequest(("yes",)))
        try:
            assert (await execution.read()).startswith(b"y\n")
        finally:
            await execution.close()

    async def test_opening_an_execution_of_a_missing_program_fails_with_126_or_127_or_is_refused(
        self, rig, station
    ):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        try:
            execution = await station.engine.open_execution(made, ExecutionRequest(("no-such-program",)))
        except EngineError:
            return
        try:
            output = b""
            while piece := await execution.read():
                output += piece
            assert await execution.wait() in (126, 127)
            assert b"no-such-program" in output
            assert b"OCI runtime" not in output
        finally:
            await execution.close()

    async def test_opening_an_execution_in_a_removed_instance_is_refused(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        await station.engine.remove(made.service)
        with pytest.raises(EngineError):
            await station.engine.open_execution(made, ExecutionRequest(("true",)))

    @pytest.mark.essential
    async def test_commands_left_by_a_killed_server_are_ended_at_the_next_start(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        processes = multiprocessing.get_context("forkserver")
        other = processes.Process(target=open_and_be_killed, args=(rig.opener(), made))
        other.start()
        await asyncio.to_thread(other.join)
        assert other.exitcode == -signal.SIGKILL
        async with Station(rig) as later:
            await until(lambda: _are(0, later, made))


async def _are(number: int, station: Station, instance: Instance) -> bool:
    return await sleepers(station, instance) == number


def open_and_be_killed(opener: Opener, instance: Instance) -> None:
    asyncio.run(_open_and_be_killed(opener, instance))


async def _open_and_be_killed(opener: Opener, instance: Instance) -> Any:
    engine = opener()
    await engine.start(lambda service: None, lambda service, lines: None)
    request = ExecutionRequest(("sh", "-c", f"trap '' HUP; {LEAVES}"), TerminalSize(80, 24))
    execution = await engine.open_execution(instance, request)
    await read_until(execution, b"ready")

    async def all_run() -> bool:
        return await _sleepers(engine, instance) == 3

    await until(all_run)  # one that has yet to begin its program does not show its variables
    os.kill(os.getpid(), signal.SIGKILL)
