"""From POST to RUNNING against the bare cost of the same effects, and what services cost that rest."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.deployments import REST, BareEffects, Ears, docker_answers, python
from bench.machine import Failed, computed
from bench.measure import Bench, Effort, Line, Target
from bench.servers import Windlass, windlass
from bench.services import make_environment

AT_ONCE = 4
_RESTS = 3
_PROGRAM = """
import http.server, os
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"hi\\n")
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Hello).serve_forever()
"""


def run(bench: Bench) -> list[Line]:
    lines = _engine(bench, "process", 1.3)
    if docker_answers() and shutil.which("busybox"):
        lines += _engine(bench, "docker", 1.15)
    return lines


def _engine(bench: Bench, engine: str, most: float) -> list[Line]:
    folder = bench.folder / f"deploys-{engine}"
    folder.mkdir()
    repository, commit = _repository(folder / "repository", engine)
    settings = {"WINDLASS_ENGINE": engine, "WINDLASS_GIT_ALLOW_LOCAL": "1", "WINDLASS_STOP_SECONDS": "1"}
    settings["WINDLASS_PARALLEL_DEPLOYMENTS"] = str(AT_ONCE)
    with windlass(folder / "data", settings=settings) as server:
        environment = make_environment(server)
        apps = [
            _application(server, environment, repository, number) for number in range(bench.effort.services)
        ]
        first, ears = apps[:1], Ears(server)
        _from_rest(server, ears, apps, commit)  # Builds: from now on every commit is a prebuilt one.
        image = _image(first[0]) if engine == "docker" else "-"
        bare = BareEffects(image, repository, commit)
        try:
            one = bench.timed(
                {
                    "ours": lambda: _from_rest(server, ears, first, commit),
                    "limit": lambda: bare.one(engine),
                }
            )
            many = bench.timed(
                {
                    "ours": lambda: _from_rest(server, ears, apps, commit),
                    "limit": lambda: bare.many(engine, len(apps), AT_ONCE),
                },
                rounds=bench.effort.rounds // 2,
            )
            _all_once(server, ears, apps, commit)
            idle = _idle(server, bench.effort)
        finally:
            bare.stop()
            _delete(server, apps, bench.effort.patience / 5)
    return [
        Line(
            what=f"{engine}: POST to RUNNING of a prebuilt commit, against its bare effects",
            unit="s",
            ours=one["ours"],
            limit=one["limit"],
            target=Target(most, "≤"),
        ),
        Line(
            what=f"{engine}: {len(apps)} deployments queued at once, {AT_ONCE} at a time, likewise",
            unit="s",
            ours=many["ours"],
            limit=many["limit"],
            target=Target(1.2, "≤"),
        ),
        Line(
            what=f"{engine}: a server that looks after {len(apps)} services and has no requests",
            unit="% of a core",
            ours=[idle],
            target=Target(1.0, "≤", "% of a core"),
        ),
    ]


def _repository(folder: Path, engine: str) -> tuple[str, str]:
    folder.mkdir()
    if engine == "process":
        (folder / "main.py").write_text(_PROGRAM)
        (folder / "Procfile").write_text(f"web: {python()} main.py\n")
    else:
        busybox = shutil.which("busybox")
        assert busybox
        shutil.copy(busybox, folder / "busybox")
        (folder / "Dockerfile").write_text(
            'FROM scratch\nCOPY busybox /busybox\nCMD ["/busybox", "httpd", "-f", "-p", "8080"]\n'
        )
    _git(folder, "init", "--quiet", "-b", "main")
    _git(folder, "add", "--all")
    _git(
        folder, "-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "--quiet", "-m", "x"
    )
    commit = _git(folder, "rev-parse", "HEAD")
    return folder.as_uri(), commit


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _application(server: Windlass, environment: str, repository: str, number: int) -> str:
    body = {
        "name": f"app-{number}",
        "git_repository": {"url": repository, "branch": "main"},
        "ports": [{"internal_port": 8080, "protocol": "HTTP"}],
        "memory": 64,
    }
    return str(server.ask("POST", f"/environment/{environment}/application", body)["id"])


def _all_once(server: Windlass, ears: Ears, apps: Sequence[str], commit: str) -> float:
    began = time.perf_counter()
    for app in apps:
        server.ask("POST", f"/application/{app}/deploy", {"git_commit_id": commit})
    ears.hear("DEPLOYED", apps)
    return time.perf_counter() - began


def _from_rest(server: Windlass, ears: Ears, apps: Sequence[str], commit: str) -> float:
    """As the bare ones: before and afterwards nothing runs, and the machine has come to rest, which takes
    what containers leave behind a moment longer than the answer that they are gone."""
    took = _all_once(server, ears, apps, commit)
    for app in apps:
        server.ask("POST", f"/application/{app}/stop")
    ears.hear("STOPPED", apps)
    time.sleep(REST)
    return took


def _delete(server: Windlass, apps: Sequence[str], patience: float) -> None:
    """Comes back when nothing of them is left, which takes longer than the answer."""
    for app in apps:
        server.raw("DELETE", f"/application/{app}")
    rested, until = 0, time.monotonic() + patience
    while rested < _RESTS:
        if time.monotonic() > until:
            raise Failed(f"work is still running {patience:.0f} s after all services were deleted")
        time.sleep(1)
        rested = 0 if b"windlass_work_running 0" not in server.raw("GET", "/metrics") else rested + 1


def _image(app: str) -> str:
    found = subprocess.run(
        ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return next(line for line in found.stdout.splitlines() if app in line)


def _idle(server: Windlass, effort: Effort) -> float:
    time.sleep(effort.settling)
    before = computed(server.pid)
    time.sleep(effort.idle)
    return (computed(server.pid) - before) / effort.idle * 100
