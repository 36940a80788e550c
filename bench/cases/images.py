"""A container and a run of a job, of an image that was pulled before, against their bare effects."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.deployments import REST, BareEffects, Ears, docker_answers
from bench.machine import Failed
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, free_port, windlass
from bench.services import make_environment

_OPEN: Final = frozenset({"QUEUED", "RUNNING"})
_LOOK: Final = 0.005
_MOST: Final = Target(1.15, "≤")
_PROGRAMS: Final = ("docker", "docker-registry", "busybox")


def run(bench: Bench) -> list[Line]:
    missing = [name for name in _PROGRAMS if not shutil.which(name)]
    if missing or not docker_answers():
        print(f"containers of a registry are left out: {', '.join(missing) or 'Docker'} is not there")
        return []
    folder = bench.folder / "images"
    folder.mkdir()
    with _registry(folder) as host, _image(folder, host) as image, _server(folder) as server:
        path = f"/organization/{server.org}/containerRegistry"
        known = {"name": "bench", "kind": "GENERIC_CR", "url": f"http://{host}", "config": {}}
        source = {"registry_id": server.ask("POST", path, known)["id"], "image_name": "bench", "tag": "1"}
        environment, bare = make_environment(server), BareEffects(image)
        container = _container(server, environment, source)
        job = _job(server, environment, source)
        sides = {"container": (container, "docker"), "run": (job, "run")}
        try:
            found = {
                name: bench.timed({"ours": ours, "limit": lambda: bare.one(effects)})  # noqa: B023
                for name, (ours, effects) in sides.items()
            }
        finally:
            bare.stop()
    return [
        Line(
            what="docker: POST to RUNNING of a container, its image pulled before, against its bare effects",
            unit="s",
            target=_MOST,
            **found["container"],
        ),
        Line(
            what="docker: POST to the end of a run of a job, against its bare effects",
            unit="s",
            target=_MOST,
            **found["run"],
        ),
    ]


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[Windlass]:
    settings = {
        "WINDLASS_ENGINE": "docker",
        "WINDLASS_STOP_SECONDS": "1",
        "WINDLASS_OUTBOUND_ALLOW": "127.0.0.0/8,::1/128",
    }
    with windlass(folder / "data", settings=settings) as server:
        yield server


@contextlib.contextmanager
def _registry(folder: Path) -> Iterator[str]:
    port = free_port()
    settings = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "bench"},
    }
    file = folder / "registry.json"
    file.write_text(json.dumps(settings))
    serving = subprocess.Popen(
        ["docker-registry", "serve", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"localhost:{port}"
    finally:
        serving.kill()
        serving.wait()


@contextlib.contextmanager
def _image(folder: Path, host: str) -> Iterator[str]:
    """An image that serves, on this machine and in the registry."""
    source, image = folder / "image", f"{host}/bench:1"
    source.mkdir()
    busybox = shutil.which("busybox")
    assert busybox
    shutil.copy(busybox, source / "busybox")
    serve = '["/busybox", "httpd", "-f", "-p", "8080"]'
    (source / "Dockerfile").write_text(f"FROM scratch\nCOPY busybox /busybox\nCMD {serve}\n")
    _docker("build", "--quiet", "--tag", image, str(source))
    _docker("push", "--quiet", image)
    try:
        yield image
    finally:
        _docker("image", "rm", "--force", image)


def _docker(*words: str) -> None:
    done = subprocess.run(["docker", *words], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"docker {words[0]}: {done.stderr}")


def _container(server: Windlass, environment: str, source: dict[str, Any]) -> Callable[[], float]:
    """Returns what deploys a container that stands still, and stops it afterwards; its result is seconds."""
    body = {
        "name": "page",
        "ports": [{"internal_port": 8080, "external_port": 443, "protocol": "HTTP", "name": "web"}],
        "memory": 64,
        "cpu": 500,
        "healthchecks": {},
        **source,
    }
    container, ears = server.ask("POST", f"/environment/{environment}/container", body)["id"], Ears(server)

    def deploy() -> float:
        began = time.perf_counter()
        server.ask("POST", f"/container/{container}/deploy", {"image_tag": "1"})
        ears.hear("DEPLOYED", [container])
        took = time.perf_counter() - began
        server.ask("POST", f"/container/{container}/stop")
        ears.hear("STOPPED", [container])
        time.sleep(REST)
        return took

    deploy()
    return deploy


def _job(server: Windlass, environment: str, source: dict[str, Any]) -> Callable[[], float]:
    """Returns what runs a job that is deployed; its result is seconds."""
    body = {
        "name": "report",
        "source": {"image": source},
        "schedule": {
            "cronjob": {"scheduled_at": "0 0 1 1 *", "entrypoint": "/busybox", "arguments": ["true"]}
        },
        "memory": 64,
        "cpu": 500,
    }
    job, ears = server.ask("POST", f"/environment/{environment}/job", body)["id"], Ears(server)
    server.ask("POST", f"/job/{job}/deploy")
    ears.hear("DEPLOYED", [job])

    def execute() -> float:
        began = time.perf_counter()
        started = server.ask("POST", f"/job/{job}/run", {})
        while started["status"] in _OPEN:
            time.sleep(_LOOK)
            started = server.ask("GET", f"/job/{job}/run/{started['id']}")
        took = time.perf_counter() - began
        if started["status"] != "SUCCEEDED":
            raise Failed(f"{started}")
        time.sleep(REST)
        return took

    execute()
    return execute
