"""Runs pasta, a program that connects the trunk of an ordinary user to the machine's network.

Uses the standard library only, because the launcher imports it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Final

from windlass.base.isolation.network import UPLINK

TUN_DEVICE: Final = "/dev/net/tun"
"""The device that pasta needs."""
_PASTA_PATHS: Final = ("/usr/bin/pasta", "/usr/local/bin/pasta", "/bin/pasta")
_TRIED_WITHIN: Final = 10.0
_OPTIONS: Final = (
    "--quiet", "--foreground", "--ipv4-only", "--config-net", "--ns-ifname", UPLINK,
    "--no-dhcp", "--no-map-gw", "--address", "198.19.0.1", "--netmask", "31", "--gateway", "198.19.0.0",
    "--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none",
)  # fmt: skip
"""The options of pasta. They forward no ports, and map no address to the machine's loopback interface."""


def find_pasta() -> str | None:
    """Returns the path of pasta; None if it is not installed."""
    return next((path for path in _PASTA_PATHS if os.access(path, os.X_OK)), None)


def try_pasta() -> str:
    """Tries to run pasta. Returns why it fails; empty if it works."""
    program = find_pasta()
    if program is None:
        return "pasta is not installed"
    if not os.access(TUN_DEVICE, os.R_OK | os.W_OK):
        return f"pasta needs {TUN_DEVICE}, which this user may not write"
    try:
        tried = subprocess.Popen(
            [program, *_OPTIONS, "--", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin"}, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"pasta cannot be run: {error}"
    with tried:
        try:
            _, errors = tried.communicate(timeout=_TRIED_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(tried.pid, signal.SIGKILL)  # including the processes that pasta has forked
            _, errors = tried.communicate()
    said = [line for line in errors.splitlines() if "syslog" not in line]
    # A machine without a route is accepted, because it may get a route later.
    if not tried.returncode or any("routable interface" in line for line in said):
        return ""
    return f"pasta fails: {' '.join(said[-1:]) or 'it printed no reason'}"


def pasta_command(program: str, trunk: int) -> list[str]:
    """Returns the command that connects a trunk to the machine. `trunk`: a process in the trunk's network."""
    return [program, *_OPTIONS, str(trunk)]


def has_pasta_interface(trunk: int) -> bool:
    """Returns whether pasta has created its interface in a process's network."""
    with suppress(OSError), open(f"/proc/{trunk}/net/route") as file:  # noqa: PTH123
        return any(line.startswith(f"{UPLINK}\t00000000\t") for line in file)
    return False
