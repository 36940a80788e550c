"""The units for systemd in the manual are ones that systemd accepts; the server does what they promise."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import free_ports
from tests.needs import needs
from tests.world import ADMIN
from windlass.base.sd_notify import SystemdNotifier, notifier_of

DOCS = Path(__file__).parents[2] / "docs"
UNITS = {name: (DOCS / name).read_text() for name in ("windlass.service", "windlass-docker.service")}
SOCKET = (DOCS / "windlass.socket").read_text()
PROGRAM = "/opt/windlass/.venv/bin/windlass"
ENVIRONMENT = {"WINDLASS_ADMIN_TOKEN": ADMIN, "PATH": os.environ["PATH"]}

needs_systemd = needs("systemd-analyze")


def analyze(folder: Path, name: str, unit: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Asks systemd about a unit, whose program is not installed on this machine."""
    for other, text in UNITS.items():
        (folder / other).write_text(text.replace(PROGRAM, str(shutil.which("true"))))
    file = folder / name
    file.write_text(unit.replace(PROGRAM, str(shutil.which("true"))))
    command = ["systemd-analyze", *words, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def complaints(folder: Path, name: str, unit: str) -> str:
    done = analyze(folder, name, unit, "verify", "--man=no")
    return done.stdout + done.stderr


@needs_systemd
@pytest.mark.parametrize(("name", "unit"), [*UNITS.items(), ("windlass.socket", SOCKET)])
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, name: str, unit: str):
    assert complaints(tmp_path, name, unit) == ""


@needs_systemd
def test_systemd_analyze_reports_an_unknown_key_in_a_unit(tmp_path: Path):
    unit = UNITS["windlass.service"].replace("KillMode", "KillMod")
    assert "Unknown key" in complaints(tmp_path, "windlass.service", unit)


@needs_systemd
@pytest.mark.parametrize(("name", "tenths"), [("windlass-docker.service", 30), ("windlass.service", 75)])
def test_the_units_stay_within_their_systemd_security_score(tmp_path: Path, name: str, tenths: int):
    words = ("security", "--offline=true", f"--threshold={tenths}", "--no-pager")
    done = analyze(tmp_path, name, UNITS[name], *words)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize("unit", UNITS.values())
@pytest.mark.parametrize(
    "line",
    [
        "KillMode=process",
        "StartLimitIntervalSec=0",
        "Type=notify",
        "WatchdogSec=60",
        "StateDirectoryMode=0700",
    ],
)
def test_the_units_restart_a_server_and_leave_services_alone(unit: str, line: str):
    assert f"\n{line}\n" in unit


def test_systemd_variables_meant_for_another_process_are_ignored():
    others = {"LISTEN_FDS": "1", "LISTEN_PID": "1", "WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "1"}
    assert notifier_of(others) == SystemdNotifier(sockets=[])
    own = notifier_of({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": str(os.getpid())})
    assert own.watchdog == 5.0
    own.tell("READY=1")  # nobody asked for it


def serve(folder: Path, *words: str) -> list[str]:
    there = ("--data-dir", str(folder), "--gateway-port", "0", "--engine", "process")
    return [sys.executable, "-m", "windlass", "serve", *there, *words]


@pytest.mark.slow
async def test_systemd_is_notified_that_the_server_is_ready_alive_and_stopping(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        server = await asyncio.create_subprocess_exec(
            *serve(tmp_path / "data", "--port", "0"),
            env=ENVIRONMENT | told,
            stderr=asyncio.subprocess.DEVNULL,
        )
        seen: list[str] = []

        async def hear(*wanted: str) -> None:
            async with asyncio.timeout(60):
                while not set(wanted) <= set(seen):
                    seen.extend(
                        (await asyncio.get_running_loop().sock_recv(manager, 4096)).decode().split("\n")
                    )

        await hear("READY=1", "WATCHDOG=1")
        seen.clear()
        await hear("WATCHDOG=1")
        server.send_signal(signal.SIGTERM)
        await hear("STOPPING=1")
        await server.wait()


@pytest.mark.slow
@needs_systemd
async def test_a_connection_waits_for_the_server_at_the_socket_of_systemd(tmp_path: Path):
    port = free_ports.free_port()
    settings = [f"--setenv={name}={value}" for name, value in ENVIRONMENT.items()]
    activate = ("systemd-socket-activate", f"--listen=127.0.0.1:{port}", "--fdname=api", *settings)
    server = await asyncio.create_subprocess_exec(
        *activate, *serve(tmp_path / "data", "--port", "1"), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()
    finally:
        server.terminate()
        await server.wait()
