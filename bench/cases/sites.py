"""A file of a static site: served by the gateway, and by nginx from the same folder."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.load import Load, Loaded, Loading
from bench.measure import Bench, Line, Target
from bench.servers import ANY_REQUEST, Server, free_port

FILES: Mapping[str, int] = {"index.html": 2_000, "large.bin": 1_000_000}
"""Files by name, with their size in bytes."""
_AT_MOST = Target(1.5, "≤")
_SIZES = {"index.html": "a file of 2 kB", "large.bin": "a file of 1 MB"}


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "sites"
    (folder / "files").mkdir(parents=True)
    for name, size in FILES.items():
        (folder / "files" / name).write_bytes(os.urandom(size))
    with _started(folder) as servers:
        if "nginx" not in servers:
            print("nginx is not installed (apt-get install nginx-light): the comparison with it is left out")
        loads = {name: _turns(bench, servers, name) for name in FILES}
    return [line for name, rounds in loads.items() for line in _lines(name, rounds)]


def _turns(bench: Bench, servers: Mapping[str, Server], name: str) -> dict[str, list[Loaded]]:
    request = f"GET /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with contextlib.ExitStack() as stack:
        loads = {
            server: stack.enter_context(
                contextlib.closing(Loading(Load(port=at.port, pid=at.pid, requests=[request])))
            )
            for server, at in servers.items()
        }
        rounds = bench.turns({server: load.turn for server, load in loads.items()})
    bench.busy += [load.busy for loads in rounds.values() for load in loads]
    return rounds


def _lines(name: str, rounds: Mapping[str, list[Loaded]]) -> list[Line]:
    ours = [load.cost for load in rounds["gateway"]]
    if "nginx" not in rounds:
        return [Line(what=f"{_SIZES[name]}, what it costs the gateway", unit="µs", ours=ours)]
    theirs = [load.cost for load in rounds["nginx"]]
    target = _AT_MOST if name == "index.html" else None
    what = f"{_SIZES[name]}, what it costs the gateway against nginx"
    return [Line(what=what, unit="µs", ours=ours, limit=theirs, target=target)]


@contextlib.contextmanager
def _started(folder: Path) -> Iterator[Mapping[str, Server]]:
    with contextlib.ExitStack() as stack:
        servers: dict[str, Server] = {}

        def start(name: str, command: list[str], port: int) -> None:
            logs = folder / name
            logs.mkdir()
            servers[name] = server = Server(command, port, logs)
            stack.callback(server.stop)
            server.answers(ANY_REQUEST)

        port = free_port()
        program = [sys.executable, "-m", "bench.routed", "site", json.dumps([port, str(folder)])]
        start("gateway", program, port)
        if nginx := shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"):
            port = free_port()
            start("nginx", _nginx(nginx, folder, port), port)
        yield servers


def _nginx(program: str, folder: Path, port: int) -> list[str]:
    """In one process, with the fields that the gateway sends."""
    configuration = folder / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(folder=folder, port=port))
    return [program, "-p", str(folder), "-c", str(configuration), "-e", str(folder / "nginx.log")]


_CONFIGURATION = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000000;
    server {{
        listen 127.0.0.1:{port};
        root {folder}/files;
        add_header Cache-Control no-cache;
    }}
}}
"""
