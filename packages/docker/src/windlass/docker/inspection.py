"""Converts the engine's container descriptions to instances and outcomes."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from windlass.base.clock import instant
from windlass.docker import names as words
from windlass.docker.descriptions import ContainerSummary, container_name, is_cut_off
from windlass.engines.workload import Instance, Outcome, Phase

MEGABYTE: Final = 1024 * 1024
CUT_OFF: Final = "lost its network, which was removed from the Docker engine: it is created again"
_LAST_PORT: Final = 65_535
_LAST_CODE: Final = 2**31
_MAX_ERROR_LENGTH: Final = 4096

# Exit codes with a conventional meaning in shells and inits.
_SHELL_EXIT_CODES = {126: ": the command cannot be run", 127: ": the command was not found"}

_PHASES = {
    "running": Phase.RUNNING,
    "paused": Phase.WAITING,
    "restarting": Phase.WAITING,
    # Created, but not started yet: run() starts it.
    "created": Phase.WAITING,
}


class LastExit(Struct, frozen=True):
    """The last exit of an instance. The engine forgets it at the next start."""

    exit_code: int
    out_of_memory: bool = False
    otherwise: str = ""
    """Other reason than an exit code."""


def is_same_run(
    earlier_inspection: Mapping[str, Any] | None, later_inspection: Mapping[str, Any] | None
) -> bool:
    """Returns whether a container was running and has not been restarted between two descriptions."""
    if earlier_inspection is None or later_inspection is None or not earlier_inspection["State"]["Running"]:
        return False
    was, now = earlier_inspection["State"], later_inspection["State"]
    return all(was[name] == now[name] for name in ("Running", "Pid", "StartedAt"))


def instance(
    inspection: Mapping[str, Any],
    address: str,
    last_exit: LastExit | None,
    restarts: int = 0,
    *,
    is_due: bool = False,
    was_cut_off: bool = False,
) -> Instance:
    """`restarts` are those by Windlass; `is_due`: it will start the container again; `was_cut_off`: its last
    end was not caused by its program."""
    state = inspection["State"]
    service, generation, index = words.identity(inspection["Config"]["Labels"])
    phase = _PHASES.get(state["Status"], Phase.WAITING if is_due else Phase.EXITED)
    if phase is Phase.RUNNING and is_cut_off(inspection):
        phase, last_exit, was_cut_off = Phase.EXITED, LastExit(0, otherwise=CUT_OFF), True
    restarts = min(max(int(inspection.get("RestartCount") or 0), restarts), _LAST_CODE)
    is_known = last_exit is not None and bool(last_exit.otherwise)  # the engine does not know the reason
    end = last_exit if phase is Phase.RUNNING or is_known else _last_exit(state) or last_exit
    return Instance(
        id=str(inspection["Name"]).lstrip("/"),
        service=service,
        generation=generation,
        index=index,
        phase=phase,
        address=address,
        ports=_host_ports(inspection) if phase is Phase.RUNNING else {},
        inside=_inner_address(inspection) if phase is Phase.RUNNING else "",
        exit_code=end.exit_code if end else None,
        reason=_exit_reason(end, inspection["HostConfig"]["Memory"]) if end else "",
        is_cut_off=was_cut_off,
        restarts=restarts,
        started_at=milliseconds(state["StartedAt"]) if phase is Phase.RUNNING else 0,
    )


def held_instance(container: ContainerSummary, address: str) -> Instance:
    """Returns an instance for a container that the engine lists but cannot describe."""
    service, generation, index = words.identity(container["Labels"])
    return Instance(
        id=container_name(container),
        service=service,
        generation=generation,
        index=index,
        phase=Phase.WAITING,
        address=address,
        reason="is not described by the Docker engine: its start or its end hangs",
        is_cut_off=True,
    )


def outcome_of(inspection: Mapping[str, Any]) -> Outcome:
    """Returns the outcome of a one-off container."""
    state = inspection["State"]
    end = _last_exit(state) or LastExit(exit_code(state["ExitCode"]))
    ended_at = milliseconds(state["FinishedAt"])
    return Outcome(
        exit_code=end.exit_code,
        reason=_exit_reason(end, inspection["HostConfig"]["Memory"]),
        # A busy engine may record the start of a short run after its end.
        started_at=min(milliseconds(state["StartedAt"]), ended_at),
        ended_at=ended_at,
    )


def milliseconds(stamp: str) -> int:
    """Converts a time such as `2026-01-31T09:05:00.007123456Z` to milliseconds. Returns 0 for the year 1,
    which Docker uses for "never"."""
    if len(stamp) == 30 and stamp[19] == ".":  # a fast path for the format of output lines
        return _parse_second(stamp[:19]) + int(stamp[20:23])
    return max(0, instant(datetime.fromisoformat(stamp)))


@lru_cache(64)
def _parse_second(stamp: str) -> int:
    return instant(datetime.fromisoformat(stamp + "+00:00"))


def _last_exit(state: Mapping[str, Any]) -> LastExit | None:
    if state["Status"] == "paused":
        return LastExit(0, otherwise="is paused: unpause the container (docker unpause)")
    if state.get("Error"):
        error = str(state["Error"])[:_MAX_ERROR_LENGTH]
        return LastExit(exit_code(state["ExitCode"]), otherwise=f"could not be started: {error}")
    if state["Status"] == "created":
        return None
    return LastExit(exit_code(state["ExitCode"]), bool(state.get("OOMKilled")))


def exit_code(value: Any) -> int:
    """Converts an exit code. Raises ValueError for a number out of range."""
    if not -_LAST_CODE <= (code := int(value)) < _LAST_CODE:
        raise ValueError("not the exit code of a process")
    return code


def _exit_reason(last_exit: LastExit, memory: int) -> str:
    if last_exit.otherwise:
        return last_exit.otherwise
    if last_exit.out_of_memory and last_exit.exit_code:
        return f"was killed: out of memory (it may use {memory // MEGABYTE} MB)"
    if last_exit.exit_code > 128:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(last_exit.exit_code - 128).name}"
    return f"exited with code {last_exit.exit_code}{_SHELL_EXIT_CODES.get(last_exit.exit_code, '')}"


def _inner_address(inspection: Mapping[str, Any]) -> str:
    networks = inspection["NetworkSettings"].get("Networks") or {}
    return next((str(network["IPAddress"]) for network in networks.values() if network.get("IPAddress")), "")


def _host_ports(inspection: Mapping[str, Any]) -> dict[int, int]:
    """Returns the host port of each container port. If a number is published for TCP and UDP, returns the TCP
    port."""
    ports: dict[int, int] = {}
    published = inspection["NetworkSettings"].get("Ports") or {}
    for inside, bound in sorted(published.items(), key=lambda item: not item[0].endswith("/udp")):
        if bound:
            ports[_parse_port(inside.partition("/")[0])] = _parse_port(bound[0]["HostPort"])
    return ports


def _parse_port(number: str) -> int:
    """Converts a port number. Raises ValueError for a number out of range, which would make the router
    fail."""
    if not 0 < int(number) <= _LAST_PORT:
        raise ValueError("not a port")
    return int(number)
