"""A start while the disk of the data directory is not mounted, and the gateway of an earlier server runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.free_ports import free_port
from windlass.config import Settings
from windlass.gateway.files import folder_of
from windlass.operate.serving import take_port
from windlass.terminal.command_errors import CommandRefused

LISTENS = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_ours", [True, False])
def test_only_a_running_gateway_of_the_same_data_directory_indicates_a_missing_disk(tmp_path, is_ours):
    settings = Settings(data_dir=str(tmp_path / "data"), port=free_port())
    folder = folder_of(settings.data_dir) if is_ours else tmp_path / "other"
    words = [sys.executable, "-c", LISTENS, str(settings.port), "windlass.gateway", str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout is not None
        gateway.stdout.readline()
        with pytest.raises(CommandRefused) as refused:
            take_port(settings)
        gateway.kill()
    assert str(gateway.pid) in str(refused.value)
    assert str(refused.value).startswith("mount the disk") is is_ours
