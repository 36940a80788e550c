"""`windlass database connect`: forwards a local port to a database."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import closing
from typing import Any, Final

import click

from windlass.cli.client import Api
from windlass.cli.deployments import say
from windlass.cli.everyday.call import EverydayCall, everyday, service_argument
from windlass.cli.websocket import CloseFrame, CommandSocket
from windlass.terminal.command_errors import CommandFailed, ended_by_user
from windlass.terminal.sections import Option
from windlass.terminal.tables import plain, print_json

_PIECE: Final = 32_768
_MOST_WAITING: Final = 262_144
"""Maximum bytes waiting to be sent to the server. Above this limit, the client is not read."""


@everyday(
    "connect",
    service_argument(),
    Option(
        ["port", "--port"], type=click.IntRange(0, 65_535), default=0, help="The port here.  [a free one]"
    ),
)
def connect(name: str | None, port: int, **options: Any) -> None:
    """Open a port of this machine that leads to a database, until Ctrl-C.

    The database needs no public port. `windlass database master-credentials` shows login and password.
    """
    call = EverydayCall(options)
    service = call.service(name)
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise CommandFailed(f"choose another port with --port: {port} cannot be opened ({error})") from error
    with closing(listening), ended_by_user():
        host, number = listening.getsockname()
        # A test connection reports early whether the database is reachable.
        CommandSocket(call.api, f"{service.path}/connect", {}).close()
        if call.as_json:
            print_json({"host": host, "port": number})
        else:
            say(f"{plain(service.name)} is at {host}:{number} until you press Ctrl-C.")
        while True:
            client, _ = listening.accept()
            threading.Thread(
                target=_connect_client, args=(call.api, service.path, client), daemon=True
            ).start()


def _connect_client(api: Api, path: str, client: socket.socket) -> None:
    try:
        with closing(client), closing(CommandSocket(api, f"{path}/connect", {})) as server:
            client.setblocking(True)
            _relay(client, server)
    except CommandFailed as stopped:
        say(f"A connection ended: {plain(str(stopped))}")
    except OSError:
        return  # the client has disconnected


def _relay(client: socket.socket, server: CommandSocket) -> None:
    reads_client = True
    ready: set[object] = {server}
    while True:
        if server in ready:
            for message in server.receive():
                if isinstance(message, bytes):
                    client.sendall(message)
                elif isinstance(message, CloseFrame):
                    return
        if client in ready:
            if data := client.recv(_PIECE):
                server.send_bytes(data)
            else:
                reads_client = False
                server.send_json({"end_of_input": True})
        server.flush()
        with selectors.DefaultSelector() as selector:
            waits = selectors.EVENT_WRITE if server.waiting else 0
            selector.register(server, selectors.EVENT_READ | waits)
            if reads_client and server.waiting < _MOST_WAITING:
                selector.register(client, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select()}
