"""The bare cost of a deployment: the same effects in a program. A command a line, seconds as the answer.

one process|docker|run      the effects of one deployment, or of a run to its end
many process|docker N P     of N, P at a time
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SOCKET = "/var/run/docker.sock"
NETWORK = f"bare-deploy-{os.getpid()}"


def main() -> None:
    repository, commit, image, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    effects: dict[str, Callable[[], Callable[[], None]]] = {
        "process": lambda: process(repository, commit, command),
        "docker": lambda: container(image),
        "run": lambda: container_run(image),
    }
    if image != "-":
        _docker("POST", "/networks/create", {"Name": NETWORK})
    for line in sys.stdin:
        what, engine, *numbers = line.split()
        count, at_once = map(int, numbers) if what == "many" else (1, 1)
        began = time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            endings = list(pool.map(lambda _: effects[engine](), range(count)))  # noqa: B023
        took = time.perf_counter() - began
        for end in endings:
            end()
        print(took, flush=True)
    if image != "-":
        _docker("DELETE", f"/networks/{NETWORK}")


def process(repository: str, commit: str, command: list[str]) -> Callable[[], None]:
    """Fetches the commit, starts the program in it, and waits until it listens."""
    folder = Path(tempfile.mkdtemp(prefix="bare-deploy-"))
    _git(folder, "init", "--quiet")
    _git(folder, "fetch", "--quiet", "--depth=1", repository, commit)
    _git(folder, "checkout", "--quiet", "FETCH_HEAD")
    port = _free_port()
    started = subprocess.Popen(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _listens(port)

    def end() -> None:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        shutil.rmtree(folder)

    return end


def container(image: str) -> Callable[[], None]:
    """Looks the image up, makes a container of it, starts it, and waits until it listens."""
    _look_up(image)
    more = {"PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}}
    body = {"Image": image, "ExposedPorts": {"8080/tcp": {}}, "HostConfig": _held(**more)}
    id = _docker("POST", "/containers/create", body)["Id"]
    _docker("POST", f"/containers/{id}/start")
    ports = _docker("GET", f"/containers/{id}/json")["NetworkSettings"]["Ports"]
    _listens(int(ports["8080/tcp"][0]["HostPort"]))
    return lambda: _docker("DELETE", f"/containers/{id}?force=true")


def container_run(image: str) -> Callable[[], None]:
    """Looks the image up here, makes a container that ends at once, starts it, and waits for its end."""
    _docker("GET", f"/images/{image}/json")
    body = {"Image": image, "Cmd": ["/busybox", "true"], "HostConfig": _held(RestartPolicy={"Name": "no"})}
    id = _docker("POST", "/containers/create", body)["Id"]
    _docker("POST", f"/containers/{id}/start")
    _docker("POST", f"/containers/{id}/wait")
    return lambda: _docker("DELETE", f"/containers/{id}?force=true")


def _look_up(image: str) -> None:
    """An image of a registry is asked for there, as each deployment does, and then on this machine."""
    if image.startswith("localhost:"):
        _docker("GET", f"/distribution/{image}/json")
    _docker("GET", f"/images/{image}/json")


def _held(**more: Any) -> dict[str, Any]:
    """Held in as tightly, and in a network as much its own, as Windlass makes them."""
    return {
        "NetworkMode": NETWORK,
        "Memory": 64 << 20,
        "MemorySwap": 64 << 20,
        "NanoCpus": 500_000_000,
        "PidsLimit": 2048,
        "Init": True,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "16m", "max-file": "3"}},
        "CapDrop": ["ALL"],
        "CapAdd": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"],
        "SecurityOpt": ["no-new-privileges"],
        "RestartPolicy": {"Name": "unless-stopped"},
        **more,
    }


class _Unix(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def _docker(method: str, path: str, body: Any = None) -> Any:
    connection = _Unix("docker")
    sent = json.dumps(body) if body is not None else None
    connection.request(method, path, sent, {"Content-Type": "application/json"} if sent else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
    return json.loads(text) if text else None


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> None:
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.001)


if __name__ == "__main__":
    main()
