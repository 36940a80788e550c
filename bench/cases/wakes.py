"""The first request to an application that sleeps, beyond the application's own start."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from typing import Any
from urllib.parse import urlsplit

from bench.machine import Failed
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, windlass
from bench.services import commit_all, make_environment

_PATIENCE = 90.0
_PORT = 8080
SELF_TIMED_FLASK = f"""import json, os, time


def born():
    ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
    booted = time.time() - float(open("/proc/uptime").read().split()[0])
    return booted + ticks / os.sysconf("SC_CLK_TCK")


BORN = born()

from flask import Flask
from werkzeug.serving import make_server

app = Flask(__name__)


@app.get("/")
def page():
    return json.dumps(LISTENS - BORN)


server = make_server("0.0.0.0", int(os.environ.get("PORT", "{_PORT}")), app, threaded=True)
LISTENS = time.time()
server.serve_forever()
"""


def run(bench: Bench) -> list[Line]:
    settings = {"WINDLASS_GIT_ALLOW_LOCAL": "1", "WINDLASS_STOP_SECONDS": "1"}
    folder = bench.folder / "wakes-repository"
    folder.mkdir()
    (folder / "app.py").write_text(SELF_TIMED_FLASK)
    (folder / "requirements.txt").write_text("flask==3.1.2\n")
    (folder / "Procfile").write_text("web: python app.py\n")
    commit_all(folder)
    with windlass(bench.folder / "wakes", settings=settings) as server:
        path = _application(server, folder.as_uri())
        rounds = 1 if bench.effort.starts < 5 else 5  # each of them lasts more than a minute
        found = [_woken(server, path) for _ in range(rounds)]
        server.ask("POST", f"{path}/stop")
        _until(server, path, lambda status: status["state"] == "STOPPED" and not status["sleeping"])
    return [
        Line(
            what="the first request to a sleeping Flask application", unit="s", ours=[one for one, _ in found]
        ),
        Line(
            what="the same beyond the application's own start",
            unit="s",
            ours=[whole - own for whole, own in found],
            target=Target(0.3, "≤", "s"),
        ),
    ]


def _application(server: Windlass, repository: str) -> str:
    body = {
        "name": "asleep",
        "git_repository": {"url": repository, "branch": "main"},
        "ports": [{"internal_port": _PORT, "protocol": "HTTP", "publicly_accessible": True}],
    }
    environment = make_environment(server)
    path = f"/application/{server.ask('POST', f'/environment/{environment}/application', body)['id']}"
    server.ask("PUT", f"{path}/advancedSettings", {"windlass.sleep.after_minutes": 1})
    server.ask("POST", f"{path}/deploy")
    _until(server, path, lambda status: status["state"] == "RUNNING")
    return path


def _woken(server: Windlass, path: str) -> tuple[float, float]:
    """Returns the seconds of the first request, and those that the application's process needed until it
    listened."""
    _until(server, path, lambda status: bool(status["sleeping"]))
    time.sleep(2)  # until its instance has ended
    url = urlsplit(str(server.ask("GET", f"{path}/link")["results"][0]["url"]))
    began = time.perf_counter()
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", url.port, timeout=_PATIENCE)
    ) as connection:
        connection.request("GET", "/", headers={"Host": url.netloc})
        answer = connection.getresponse()
        own = answer.read()
    whole = time.perf_counter() - began
    if answer.status != 200:
        raise Failed(f"the sleeping application answered {answer.status}")
    return whole, float(json.loads(own))


def _until(server: Windlass, path: str, is_so: Any) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        status = server.ask("GET", f"{path}/status")
        if is_so(status):
            return
        if status["state"] == "ERROR":
            raise Failed(f"{status}")
        time.sleep(0.2)
    raise Failed(f"{path} does not become what the benchmark waits for")
