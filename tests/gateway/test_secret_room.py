"""Who connects to a gateway has read its folder: the names of its sockets are secrets.

On a kernel without namespaces, services are of the user of Windlass, and Landlock lets them connect to any
path. A service that got the sockets of the gateway would get the requests, and the tokens, of everybody."""

from __future__ import annotations

import os
import resource
import shlex
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.gateway_town import GatewayTown
from tests.needs import needs_root, ordinary_user
from windlass.base.marks import mark_of
from windlass.gateway.files import (
    CONTROL,
    HANDOVER,
    SOCKETS,
    connect_to,
    is_of_windlass,
    listen_at,
    socket_of,
)

NAMES = (CONTROL, HANDOVER, SOCKETS)


@pytest.mark.parametrize("name", NAMES)
async def test_gateway_sockets_are_in_a_folder_with_a_secret_name(town: GatewayTown, name: str) -> None:
    assert not (town.folder / name).exists()
    path = socket_of(town.folder, name)
    assert path.is_socket()
    assert len(path.parent.name) > 32


async def test_the_secret_folder_name_is_stored_only_in_a_private_file(town: GatewayTown) -> None:
    room = socket_of(town.folder, CONTROL).parent
    assert stat.S_IMODE((town.folder / "room").stat().st_mode) == 0o600
    assert stat.S_IMODE(room.stat().st_mode) == 0o700
    assert room.name not in Path("/proc/net/unix").read_text()


def test_a_gateway_of_an_older_version_is_still_found(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as older:
        older.bind(str(tmp_path / HANDOVER))
        older.listen()
        found = connect_to(tmp_path, HANDOVER, socket.SOCK_SEQPACKET)
        assert found
        found.close()
        # Its successor listens in the room, and is found there from then on.
        with listen_at(tmp_path, HANDOVER, socket.SOCK_SEQPACKET) as newer:
            found = connect_to(tmp_path, HANDOVER, socket.SOCK_SEQPACKET)
            assert found
            found.close()
            newer.accept()[0].close()


@pytest.mark.parametrize("has_mark", [True, False])
@pytest.mark.parametrize("has_ended", [True, False])
def test_a_service_program_that_connects_to_the_gateways_control_socket_is_refused(
    tmp_path: Path, has_mark: bool, has_ended: bool
) -> None:
    """Also if a process without a mark that has ended has left it the connection."""
    with listen_at(tmp_path, CONTROL, socket.SOCK_SEQPACKET) as listening:
        hear, tell = os.pipe()
        program = os.fork()
        if not program:
            os.close(tell)
            if has_mark:
                resource.setrlimit(resource.RLIMIT_RTTIME, (mark_of(tmp_path / "service/1-0"),) * 2)
            connected = connect_to(tmp_path, CONTROL, socket.SOCK_SEQPACKET)
            if not (has_ended and os.fork()):
                os.read(hear, 1)
            os._exit(0 if connected else 1)
        os.close(hear)
        listening.setblocking(True)
        connection, _ = listening.accept()
        if has_ended:
            os.waitpid(program, 0)
        with connection:
            assert is_of_windlass(connection) is not (has_mark or has_ended)
        os.close(tell)


SERVER_CONNECTS = """
import os, socket, struct, tempfile
from pathlib import Path
from windlass.base.hardening import refuse_dumps
from windlass.gateway.files import CONTROL, connect_to, is_of_windlass, listen_at, process_of
folder = Path(tempfile.mkdtemp())
with listen_at(folder, CONTROL, socket.SOCK_SEQPACKET) as listening:
    server = os.fork()
    if not server:
        refuse_dumps()
        connected = connect_to(folder, CONTROL, socket.SOCK_SEQPACKET)
        connected.setblocking(True)
        connected.recv(1)
        os._exit(0)
    listening.setblocking(True)
    connection, _ = listening.accept()
    print(is_of_windlass(connection), Path(f"/proc/{process_of(connection)}").exists())
    connection.close()
"""


@needs_root
@pytest.mark.parametrize("hides", [True, False])
def test_a_server_is_recognized_where_the_machine_hides_its_process(hides: bool) -> None:
    """As with ProtectProc=invisible in the unit for Docker: a process without dumps belongs to root."""
    mount = f"mount -t proc -o hidepid={'invisible' if hides else 'off'} proc /proc"
    program = shlex.join([*ordinary_user(), sys.executable, "-c", SERVER_CONNECTS])
    apart = ("unshare", "--mount", "--propagation", "private", "sh", "-c", f"{mount} && exec {program}")
    done = subprocess.run(apart, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"True {not hides}\n", done.stderr
