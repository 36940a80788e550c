"""Starts Redis or Valkey, with the variables REDIS_PASSWORD and PORT.

The server replaces the launcher. On SIGTERM it shuts down without data loss.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from windlass.launch.instance import become, find_server, lock_data, select_passed_on, server_of
from windlass.launch.launch_variables import data_of, host_of, memory_of, password_of, port_of
from windlass.launch.launcher import Variables, launch


def start(variables: Variables) -> NoReturn:
    variables = find_server("REDIS", variables)
    server, data = server_of(variables), data_of(variables, "redis")
    config = config_text(settings_of(variables, data))
    lock_data(data)
    data.mkdir(mode=0o700, exist_ok=True)
    os.chdir(data)
    _write_to_stdin(config)
    become([server, "-"], select_passed_on(variables))


def settings_of(variables: Variables, data: Path) -> dict[str, str]:
    # The rest of the memory is for client buffers and for the forked process that rewrites the journal.
    memory = memory_of(variables, 256) * 7 // 10
    return {
        "bind": host_of(variables),
        "port": str(port_of(variables)),
        "protected-mode": "no",  # there is a password
        "requirepass": password_of(variables, "REDIS_PASSWORD"),
        "dir": str(data),
        "maxmemory": f"{max(memory, 8)}mb",
        "maxmemory-policy": "noeviction",
        # Each write reaches the journal on disk within a second, instead of a later snapshot.
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "daemonize": "no",
        "logfile": "",
    }


def config_text(settings: dict[str, str]) -> str:
    return "".join(f"{name} {_quote(value)}\n" for name, value in settings.items())


def _quote(value: str) -> str:
    return '"' + "".join(_escape(byte) for byte in value.encode()) + '"'


def _escape(byte: int) -> str:
    sign = chr(byte)
    return sign if byte < 128 and sign.isprintable() and sign not in '"\\' else f"\\x{byte:02x}"


def _write_to_stdin(config: str) -> None:
    """Puts the settings into standard input, so that the password is neither in a file nor in an argument."""
    reading = os.memfd_create("redis-settings")
    os.write(reading, config.encode())
    os.lseek(reading, 0, os.SEEK_SET)
    os.dup2(reading, 0)


if __name__ == "__main__":
    launch(start)
