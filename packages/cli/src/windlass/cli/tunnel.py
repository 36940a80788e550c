"""A port of this machine that leads to a port of a service, through the API."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import closing, suppress
from typing import Final

from windlass.cli.client import Api
from windlass.cli.deployments import say
from windlass.cli.websocket import CloseFrame, CommandSocket
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.tables import plain

_CHUNK_BYTES: Final = 32_768
_MAX_WAITING_BYTES: Final = 262_144
"""Maximum bytes waiting to be sent to the server. Above this limit, the client is not read."""


class Tunnel:
    """A listening port of this machine. Each connection to it is forwarded to the service."""

    def __init__(self, api: Api, path: str, *, local_port: int = 0, remote_port: int = 0) -> None:
        """`path`: the API path of the service. `local_port`: the port of this machine; 0 is a free one.
        `remote_port`: the port on which the program listens; 0 is its lowest."""
        self._api, self._path = api, f"{path}/connect"
        self._query = {"port": remote_port} if remote_port else {}
        # A test connection reports early whether the service is reachable.
        CommandSocket(api, self._path, self._query).close()
        try:
            self._listening = socket.create_server(("127.0.0.1", local_port))
        except OSError as error:
            raise CommandFailed(
                f"choose another port for this machine: {local_port} cannot be opened ({error})"
            ) from error

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listening.getsockname()
        return host, port

    def serve(self) -> None:
        """Forwards connections until the tunnel is closed, or the command is interrupted."""
        with suppress(OSError):  # the tunnel was closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def serve_in_background(self) -> None:
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _forward(self, client: socket.socket) -> None:
        try:
            with closing(client), closing(CommandSocket(self._api, self._path, self._query)) as server:
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
            if data := client.recv(_CHUNK_BYTES):
                server.send_bytes(data)
            else:
                reads_client = False
                server.send_json({"end_of_input": True})
        server.flush()
        with selectors.DefaultSelector() as selector:
            waits = selectors.EVENT_WRITE if server.waiting else 0
            selector.register(server, selectors.EVENT_READ | waits)
            if reads_client and server.waiting < _MAX_WAITING_BYTES:
                selector.register(client, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select()}
