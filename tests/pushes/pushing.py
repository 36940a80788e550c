"""A whole Windlass with the process engine, an application that is pushed to, and `git` itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from tests.free_ports import free_port
from tests.whole import Place, Windlass, place, until
from tests.world import ADMIN

SERVER = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(open("text").read().encode())

    def log_message(self, *args):
        pass

http.server.HTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
"""
GIT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "LC_ALL": "C",
}


class Ended(Struct):
    code: int
    text: str


class Folder:
    """A repository of a user."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        return run(self.path, *words).stdout.strip()

    def write(self, **files: str) -> Folder:
        for name, text in files.items():
            (self.path / name.replace("__", ".")).write_text(text)
        return self

    def commit(self, message: str = "a change") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self.git("rev-parse", "HEAD")

    async def push(self, url: str, *words: str) -> Ended:
        return await asyncio.to_thread(self._push, url, *(words or ("main",)))

    def _push(self, url: str, *words: str) -> Ended:
        ended = run(self.path, "push", url, *words, check=False)
        return Ended(ended.returncode, ended.stderr + ended.stdout)

    def begin_push(self, url: str, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", "push", url, *(words or ("main",))],
            cwd=self.path,
            env=GIT | {"HOME": str(self.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


def run(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = GIT | {"HOME": str(folder)}
    return subprocess.run(
        ["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=check, timeout=60
    )


async def ask(folder: Path, *words: str) -> str:
    """Runs git in a thread: the server is in this process, and has to answer meanwhile."""
    return (await asyncio.to_thread(run, folder, *words)).stdout


def with_token(url: str, token: str = ADMIN, user: str = "anyone") -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{user}:{token}@{parts.netloc}{parts.path}"


@contextlib.asynccontextmanager
async def pushed_place(**given: Any) -> AsyncIterator[Place]:
    async with place("process", port=free_port(), **given) as there:
        yield there


async def make_environment(windlass: Windlass, name: str = "shop") -> str:
    org = (await windlass.call("GET", "/organization"))["id"]
    project = (await windlass.call("POST", f"/organization/{org}/project", {"name": name}))["id"]
    made = await windlass.call("POST", f"/project/{project}/environment", {"name": "production"})
    return str(made["id"])


async def make_application(windlass: Windlass, environment: str, name: str = "web", **fields: Any) -> Any:
    repository = {"url": "windlass://push", "branch": "main"}
    body = {"name": name, "git_repository": repository, **fields}
    return await windlass.call("POST", f"/environment/{environment}/application", body)


def web_folder(path: Path, text: str = "one") -> Folder:
    folder = Folder(path).write(Procfile="web: python3 server.py\n", requirements__txt="", text=text)
    folder.write(server__py=SERVER)
    folder.commit("first")
    return folder


async def deployments(windlass: Windlass, app: str) -> list[Any]:
    found = await windlass.call("GET", f"/application/{app}/deployment")
    return list(found["results"])


async def ended_deployment(windlass: Windlass, app: str) -> Any:
    """Returns the newest deployment, once it has ended."""

    async def is_over() -> bool:
        return (await deployments(windlass, app))[0]["status"] in ENDED

    await until(is_over)
    return (await deployments(windlass, app))[0]


ENDED = {"SUCCEEDED", "FAILED", "CANCELED", "SUPERSEDED"}
