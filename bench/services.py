"""Services that are deployed from a repository on this machine, and how long that took."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.machine import Failed
from bench.servers import Windlass

_PATIENCE = 300.0


class Took(Struct, frozen=True):
    """Seconds since the POST of a deployment."""

    build: float
    """Until it is built, and is being started. The end, if both were told of at once."""
    whole: float
    """Until it runs."""


class Deployed:
    """An application of a repository on this machine, and its public address."""

    def __init__(self, server: Windlass, environment: str, name: str, repository: Path, port: int) -> None:
        self._server = server
        body = {
            "name": name,
            "git_repository": {"url": repository.as_uri(), "branch": "main"},
            "memory": 512,
            "ports": [{"internal_port": port, "protocol": "HTTP", "publicly_accessible": True}],
        }
        self.id = self._create(environment, "application", body)

    def _create(self, environment: str, family: str, body: dict[str, Any]) -> str:
        id = str(self._server.ask("POST", f"/environment/{environment}/{family}", body)["id"])
        self._path = f"/{family}/{id}"
        return id

    def deploy(self, commit: str) -> Took:
        began = time.perf_counter()
        given = self._server.ask("POST", f"{self._path}/deploy", {"git_commit_id": commit})
        path = f"{self._path}/deployment/{given['id']}/stream"
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=_PATIENCE)
        connection.request("GET", path, headers={"Authorization": f"Token {self._server.token}"})
        built = 0.0
        for line in connection.getresponse():
            if not line.startswith(b"data:"):
                continue
            found = json.loads(line.removeprefix(b"data:"))
            now, status = time.perf_counter() - began, found.get("status")
            built = now if status == "DEPLOYING" and not built else built
            if status == "SUCCEEDED":
                connection.close()
                return Took(built or now, now)
            if status in ("FAILED", "CANCELED", "SUPERSEDED"):
                break
        raise Failed(f"{found}")

    def delete(self) -> None:
        self._server.raw("DELETE", self._path)


class DeployedModule(Deployed):
    """A Terraform service of a repository on this machine."""

    def __init__(self, server: Windlass, environment: str, engine: str, repository: Path) -> None:
        self._server = server
        body = {
            "name": "module",
            "engine": engine,
            "backend": {"kubernetes": {}},
            "terraform_files_source": {"git_repository": {"url": repository.as_uri(), "branch": "main"}},
            "job_resources": {"cpu_milli": 4000, "ram_mib": 1024},
        }
        self.id = self._create(environment, "terraform", body)


def make_environment(server: Windlass) -> str:
    project = server.ask("POST", f"/organization/{server.org}/project", {"name": "bench"})["id"]
    return str(server.ask("POST", f"/project/{project}/environment", {"name": "bench"})["id"])


def commit_all(folder: Path) -> str:
    """Makes the folder a repository if it is none, and returns the commit of what is in it now."""
    if not (folder / ".git").is_dir():
        _git(folder, "init", "--quiet", "-b", "main")
    _git(folder, "add", "--all")
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    _git(folder, *who, "commit", "--quiet", "-m", "x")
    return _git(folder, "rev-parse", "HEAD")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()
