"""A keep-alive request of a trivial application: directly, through the built-in router, through nginx."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.load import CONNECTIONS, NUMBER, Load, Loaded, Loading
from bench.measure import Bench, Line, Target
from bench.servers import ANY_REQUEST, Server, free_port

_SAME = ANY_REQUEST.decode()
_OTHER = f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Number: {NUMBER}\r\n\r\n"
# The id of a request means something to the router, so that it judges all fields again.
_ANEW = f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: {NUMBER}\r\n\r\n"
_AT_MOST = Target(1.15, "≤")


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "router"
    folder.mkdir()
    with _started(folder) as servers:
        if "nginx" not in servers:
            print("nginx is not installed (apt-get install nginx-light): the comparison with it is left out")
        alone = _turns(bench, servers, 1, _SAME)
        many = _turns(bench, servers, CONNECTIONS, _SAME)
        proxies = {name: server for name, server in servers.items() if name != "direct"}
        other = _turns(bench, proxies, CONNECTIONS, _OTHER)
        anew = _turns(bench, proxies, CONNECTIONS, _ANEW)
    return [
        *_lines("1 client, a request", "µs", {name: _latencies(found) for name, found in alone.items()}),
        *_lines(
            f"{CONNECTIONS} clients, a request",
            "µs",
            {name: _latencies(found, CONNECTIONS) for name, found in many.items()},
        ),
        *_rates({name: [each.rate for each in found] for name, found in many.items()}),
        *_lines(
            "what a request costs the proxy",
            "µs",
            {name: [each.cost for each in found] for name, found in many.items() if name != "direct"},
        ),
        *_lines(
            "the same where no two heads are equal",
            "µs",
            {name: [each.cost for each in found] for name, found in other.items()},
        ),
        *_lines(
            "the same where all fields of each are judged",
            "µs",
            {name: [each.cost for each in found] for name, found in anew.items()},
            None,
        ),
    ]


def _turns(
    bench: Bench, servers: Mapping[str, Server], connections: int, request: str
) -> dict[str, list[Loaded]]:
    """A, B, C, A, B, C, …"""
    with contextlib.ExitStack() as stack:
        loads = {
            name: stack.enter_context(
                contextlib.closing(
                    Loading(
                        Load(port=server.port, pid=server.pid, requests=[request], connections=connections)
                    )
                )
            )
            for name, server in servers.items()
        }
        found = bench.turns({name: load.turn for name, load in loads.items()})
    bench.busy += [one.busy for rounds in found.values() for one in rounds]
    return found


def _latencies(found: list[Loaded], connections: int = 1) -> list[float]:
    """The mean of a round: with so many always waiting for an answer, it follows from the rate."""
    return [connections / each.rate * 1e6 for each in found]


def _lines(
    what: str, unit: str, found: Mapping[str, list[float]], target: Target | None = _AT_MOST
) -> list[Line]:
    lines = []
    if "nginx" in found:
        lines.append(
            Line(
                what=f"{what}, through the router against through nginx",
                unit=unit,
                ours=found["router"],
                limit=found["nginx"],
                target=target,
            )
        )
    if "direct" in found:
        lines += [
            Line(what=f"{what}, {said}, against directly", unit=unit, ours=found[name], limit=found["direct"])
            for name, said in (("router", "through the router"), ("nginx", "through nginx"))
            if name in found
        ]
    return lines or [Line(what=f"{what}: the router", unit=unit, ours=found["router"])]


def _rates(found: Mapping[str, list[float]]) -> list[Line]:
    return [
        Line(what=f"{CONNECTIONS} clients, {name}", unit="/s", ours=rates, limit=found["direct"])
        for name, rates in found.items()
        if name != "direct"
    ]


@contextlib.contextmanager
def _started(folder: Path) -> Iterator[Mapping[str, Server]]:
    """All on one core: a proxy and the application behind it share it, as they would on a small machine."""
    with contextlib.ExitStack() as stack:

        def start(name: str, command: Callable[[int], list[str]]) -> Server:
            port = free_port()
            logs = folder / name
            logs.mkdir()
            server = Server(command(port), port, logs)
            stack.callback(server.stop)
            server.answers(ANY_REQUEST)
            return server

        direct = start("direct", lambda port: _ours("application", port))
        servers = {"direct": direct}
        servers["router"] = start("router", lambda port: _ours("router", port, direct.port))
        if nginx := shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"):
            servers["nginx"] = start("nginx", lambda port: nginx_command(nginx, folder, port, direct.port))
        yield servers


def _ours(what: str, *ports: int) -> list[str]:
    return [sys.executable, "-m", "bench.routed", what, json.dumps(ports)]


def nginx_command(program: str, folder: Path, port: int, behind: int, tls: str = "") -> list[str]:
    """In one process, keeping connections on both sides, and saying the same fields as our router. `tls`:
    the settings of TLS, if it is spoken."""
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(folder=folder, port=f"{port} ssl" if tls else port, behind=behind, tls=tls)
    )
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
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000000;
    upstream application {{
        server 127.0.0.1:{behind};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        {tls}
        location / {{
            proxy_pass http://application;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Forwarded-Host $http_host;
            proxy_set_header Forwarded "for=$remote_addr;host=$http_host;proto=$scheme";
            proxy_set_header X-Request-Id $request_id;
        }}
    }}
}}
"""
