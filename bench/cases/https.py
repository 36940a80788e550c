"""HTTPS through the built-in router and through nginx, with the same key and ciphers: a kept-alive request, a
handshake, and an idle connection."""

from __future__ import annotations

import contextlib
import datetime
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench.cases.router import nginx_command
from bench.handshakes import NAME, Handshakes, client_context, connect
from bench.load import CONNECTIONS, Load, Loaded, Loading
from bench.machine import LOAD_CORE, Asked, Failed, resident
from bench.measure import Bench, Line, Target
from bench.servers import ANY_REQUEST, Server, free_port
from windlass.gateway.starting import GATEWAY_ENVIRONMENT

_REQUEST = f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"
_IDLE = 800
_HANDSHAKE_CLIENTS = 4
_PATIENCE = 30.0
_CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
)


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "https"
    folder.mkdir()
    pair = _pair(folder)
    with _started(folder, pair) as servers:
        if "nginx" not in servers:
            print("nginx is not installed (apt-get install nginx-light): the comparison with it is left out")
        idle = {name: [_idle(server)] for name, server in servers.items()}
        kept = _turns(bench, servers, lambda server: _loading(server))
        shaken = _turns(bench, servers, lambda server: _Shaking(server))
        crowded = _turns(bench, servers, lambda server: _Shaking(server, _HANDSHAKE_CLIENTS))
    return [
        _line("what a kept-alive HTTPS request costs", "µs", _costs(kept), Target(1.0, "≤")),
        _line("what a handshake costs", "µs", _costs(shaken), Target(1.1, "≤")),
        _line(f"{CONNECTIONS} clients, requests by HTTPS", "/s", _rates(kept)),
        _line(f"{_HANDSHAKE_CLIENTS} clients, new handshakes", "/s", _rates(crowded)),
        _line(f"memory of an idle connection, of {_IDLE}", "KiB", idle, Target(25, "≤", "KiB")),
    ]


class _Shaking:
    def __init__(self, server: Server, clients: int = 1) -> None:
        given = Handshakes(server.port, server.pid, clients)
        self._process = Asked("bench.handshakes", given, LOAD_CORE)
        self.close = self._process.close

    def turn(self, seconds: float) -> Loaded:
        return self._process.ask(seconds, Loaded)


def _loading(server: Server) -> Loading:
    return Loading(
        Load(port=server.port, pid=server.pid, requests=[_REQUEST], connections=CONNECTIONS, tls=NAME)
    )


def _turns(
    bench: Bench, servers: Mapping[str, Server], begin: Callable[[Server], Loading | _Shaking]
) -> dict[str, list[Loaded]]:
    with contextlib.ExitStack() as stack:
        loads = {name: stack.enter_context(contextlib.closing(begin(one))) for name, one in servers.items()}
        return bench.turns({name: load.turn for name, load in loads.items()})


def _costs(found: Mapping[str, list[Loaded]]) -> dict[str, list[float]]:
    return {name: [each.cost for each in rounds] for name, rounds in found.items()}


def _rates(found: Mapping[str, list[Loaded]]) -> dict[str, list[float]]:
    return {name: [each.rate for each in rounds] for name, rounds in found.items()}


def _line(what: str, unit: str, found: Mapping[str, list[float]], target: Target | None = None) -> Line:
    if "nginx" not in found:
        return Line(what=what, unit=unit, ours=found["router"])
    ours, limit = found["router"], found["nginx"]
    return Line(
        what=f"{what}, through the router against through nginx",
        unit=unit,
        ours=ours,
        limit=limit,
        target=target,
    )


def _idle(server: Server) -> float:
    """Memory of an idle connection in KiB: what a server has after the first request on each."""
    context = client_context()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(connect(server.port, context)))
        before = resident(server.pid)
        for _ in range(_IDLE):
            client = stack.enter_context(contextlib.closing(connect(server.port, context)))
            client.sendall(_REQUEST.encode())
            client.recv(65_536)
        return (resident(server.pid) - before) * 1024 / _IDLE


def _pair(folder: Path) -> Path:
    """Writes a certificate and its key into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "pair.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(
        made.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@contextlib.contextmanager
def _started(folder: Path, pair: Path) -> Iterator[Mapping[str, Server]]:
    """All on one core, as for requests without TLS; see `router`."""
    with contextlib.ExitStack() as stack:

        def start(name: str, command: Callable[[int], list[str]]) -> Server:
            port = free_port()
            logs = folder / name
            logs.mkdir()
            server = Server(command(port), port, logs, GATEWAY_ENVIRONMENT if name == "router" else None)
            stack.callback(server.stop)
            return server

        direct = start("direct", lambda port: _ours("application", port))
        direct.answers(ANY_REQUEST)
        servers = {
            "router": start(
                "router", lambda port: _ours("https_router", free_port(), direct.port, port, str(pair))
            )
        }
        if nginx := shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"):
            tls = (
                f"ssl_certificate {pair}; ssl_certificate_key {pair}; ssl_protocols TLSv1.2 TLSv1.3; "
                f"ssl_ciphers {_CIPHERS}; ssl_prefer_server_ciphers off;"
            )
            servers["nginx"] = start(
                "nginx", lambda port: nginx_command(nginx, folder, port, direct.port, tls)
            )
        for server in servers.values():
            _wait_for(server)
        yield servers


def _ours(what: str, *given: int | str) -> list[str]:
    return [sys.executable, "-m", "bench.routed", what, json.dumps(given)]


def _wait_for(server: Server) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connect(server.port, client_context()).close()
        except OSError as error:
            if time.monotonic() > until:
                raise Failed(str(error)) from error
            time.sleep(0.01)
        else:
            return
