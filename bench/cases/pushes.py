"""Pushes: how many webhooks are taken, how soon a push runs, and how soon a changed route is live."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.cases.wakes import SELF_TIMED_FLASK
from bench.load import Load, Loading
from bench.machine import Failed
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, windlass
from bench.services import Deployed, commit_all, make_environment
from windlass.gateway.link import GatewayLink
from windlass.gateway.messages import Ask
from windlass.gateway.router import GatewayRouter
from windlass.routers.router import Endpoint, Route

_MANY, _FEW = 20_000, 200
"""Names of a gateway."""
_CHANGES = 300
_PORT = 8080
_NAMES = (b"one", b"two")
"""What the applications answer."""


def run(bench: Bench) -> list[Line]:
    lines = []
    with _server(bench) as server:
        environment = make_environment(server)
        lines += [_taken(bench, server, environment), *_pushed(bench, server, environment)]
    return [*lines, *asyncio.run(_changed_routes(bench))]


@contextlib.contextmanager
def _server(bench: Bench) -> Iterator[Windlass]:
    settings = {"WINDLASS_GIT_ALLOW_LOCAL": "1", "WINDLASS_STOP_SECONDS": "1"}
    with windlass(bench.folder / "pushes", settings=settings) as server:
        yield server


# Webhooks


def _taken(bench: Bench, server: Windlass, environment: str) -> Line:
    """Signed deliveries, each of another push, of a repository whose service is deployed and looked at."""
    folder = bench.folder / "pushes-web"
    folder.mkdir()
    (folder / "index.html").write_text("<p>hello</p>")
    commit = commit_all(folder)
    service = Deployed(server, environment, "taken", folder, _PORT)
    service.deploy(commit)
    repository = {"url": folder.as_uri(), "branch": "main"}
    body = {"name": "taken", "git_repository": repository, "auto_deploy": True}
    server.ask("PUT", f"/application/{service.id}", body)
    found = server.ask("POST", f"/service/{service.id}/gitWebhook")
    path = f"/git-webhook/{str(found['url']).rpartition('/')[2]}"
    seconds = bench.effort.seconds * bench.effort.turns * bench.effort.rounds
    count = round(4000 * seconds)
    load = Load(
        port=server.port,
        pid=server.pid,
        requests=[_delivery(path, str(found["secret"]), number) for number in range(count)],
    )
    with contextlib.closing(Loading(load)) as loading:
        rounds = bench.turns({"ours": loading.turn})["ours"]
    bench.busy += [one.busy for one in rounds]
    service.delete()
    return Line(
        what="signed webhooks of pushes, taken",
        unit="/s",
        ours=[one.rate for one in rounds],
        target=Target(1000, "≥", "/s"),
    )


def _delivery(path: str, secret: str, number: int) -> str:
    commit = hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()
    push = {"ref": "refs/heads/main", "after": commit, "commits": [{"id": commit, "message": "x" * 500}]}
    body = json.dumps(push)
    signed = hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"X-GitHub-Event: push\r\nX-GitHub-Delivery: {number:032x}\r\n"
        f"X-Hub-Signature-256: sha256={signed}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )


# Pushes


def _pushed(bench: Bench, server: Windlass, environment: str) -> list[Line]:
    folder = bench.folder / "pushes-repository"
    folder.mkdir()
    (folder / "app.py").write_text(SELF_TIMED_FLASK)
    (folder / "requirements.txt").write_text("flask==3.1.2\n")
    (folder / "Procfile").write_text("web: python app.py\n")
    body = {
        "name": "pushed",
        "git_repository": {"url": "windlass://push", "branch": "main"},
        "ports": [{"internal_port": _PORT, "protocol": "HTTP", "publicly_accessible": True}],
    }
    made = server.ask("POST", f"/environment/{environment}/application", body)
    to = f"http://bench:{server.token}@127.0.0.1:{server.port}/git/{made['id']}.git"
    found = []
    for number in range(bench.effort.starts + 1):
        (folder / "text").write_text(str(number))
        commit_all(folder)
        whole = _push(folder, to)
        found.append((whole, _own_start(server, str(made["id"]))))
    server.raw("DELETE", f"/application/{made['id']}")
    again = found[1:]  # the first one installs its packages
    return [
        Line(what="git push of a Flask application until it runs", unit="s", ours=[one for one, _ in again]),
        Line(
            what="the same beyond the application's own start",
            unit="s",
            ours=[whole - own for whole, own in again],
            target=Target(1.5, "≤", "s"),
        ),
    ]


def _push(folder: Path, to: str) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        ["git", "push", "--quiet", to, "main"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(done.stderr[-1000:])
    return time.perf_counter() - began


def _own_start(server: Windlass, application: str) -> float:
    url = urlsplit(str(server.ask("GET", f"/application/{application}/link")["results"][0]["url"]))
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/", headers={"Host": url.netloc})
        return float(json.loads(connection.getresponse().read()))


# Routes


async def _changed_routes(bench: Bench) -> list[Line]:
    """A gateway of its own with many names, of which one after the other gets another instance."""
    folder = bench.folder / "pushes-gateway"
    applications = [await asyncio.start_server(_answering(name), "127.0.0.1", 0) for name in _NAMES]
    ends = [Endpoint("127.0.0.1", one.sockets[0].getsockname()[1]) for one in applications]
    link = GatewayLink(folder)
    router = GatewayRouter(link, "local", "127.0.0.1", 0)
    await router.start()
    process = (await link.call(Ask())).process
    try:
        found = [await _changes(router, number, ends) for number in (_FEW, _MANY)]
    finally:
        await router.stop()
        os.kill(process, signal.SIGTERM)
        for one in applications:
            one.close()
    few, many = found
    return [
        Line(
            what=f"from a changed route to its first request, {_MANY:,} names against {_FEW}, median",
            unit="ms",
            ours=[statistics.median(many)],
            limit=[statistics.median(few)],
        ),
        Line(
            what="the same, 99 of 100",
            unit="ms",
            ours=[statistics.quantiles(many, n=100)[98]],
            limit=[statistics.quantiles(few, n=100)[98]],
            target=Target(50, "≤", "ms"),
        ),
    ]


def _answering(name: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(name), name))
        writer.close()

    return serve


async def _changes(router: GatewayRouter, names: int, ends: Sequence[Endpoint]) -> list[float]:
    """Makes so many names, and returns the milliseconds of each change of one of them."""
    for number in range(names):
        await router.set(f"service-{number}", [_route(number, ends[0])])
    reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
    found = []
    for number in range(0, names, max(1, names // _CHANGES)):
        began = time.perf_counter()
        await router.set(f"service-{number}", [_route(number, ends[1])])
        while await _ask(reader, writer, number) != _NAMES[1]:
            pass
        found.append((time.perf_counter() - began) * 1000)
    writer.close()
    return found


def _route(number: int, end: Endpoint) -> Route:
    hosts = (f"service-{number}.apps.example.com",)
    service = f"service-{number}"
    return Route(service=service, port="p1", title=service, kind="http", hosts=hosts, endpoints=(end,))


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bytes:
    writer.write(f"GET / HTTP/1.1\r\nHost: service-{number}.apps.example.com\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))
