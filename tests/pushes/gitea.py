"""Gitea as a program of a test, with one private repository. It is built by `.ci/gitea`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.certificates import authority, write_pair
from tests.free_ports import free_port
from tests.needs import program
from tests.pushes.pushing import GIT, Folder, web_folder
from tests.whole import PATIENCE, Windlass, until
from windlass.base.http_out import HttpSender, NoAnswer

_USER: Final = "acme"
_CONFIG: Final = """
RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = https
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = https://127.0.0.1:{port}/
CERT_FILE = {certificate}
KEY_FILE = {key}
STATIC_ROOT_PATH = {program_folder}
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
[webhook]
ALLOWED_HOST_LIST = loopback
[indexer]
ISSUE_INDEXER_TYPE = db
[actions]
ENABLED = false
[log]
LEVEL = Warn
"""
_TOKEN_PATTERN: Final = re.compile(r"^[0-9a-f]{40}$", re.MULTILINE)


class Gitea:
    def __init__(self, folder: Path) -> None:
        self._home, self._port = folder / "gitea", free_port()
        self._home.mkdir()
        own = authority(folder / "gitea-authority")
        certificate, key = write_pair(own, "gitea", "127.0.0.1")
        self._program = Path(program("gitea")).resolve()
        self._config = self._home / "app.ini"
        self._config.write_text(
            _CONFIG.format(
                port=self._port, certificate=certificate, key=key, program_folder=self._program.parent
            )
        )
        self.host = f"127.0.0.1:{self._port}"
        self.api, self.url = f"https://{self.host}/api/v1", f"https://{self.host}/{_USER}/shop.git"
        self.token = ""
        self.settings: Mapping[str, Any] = {
            "outbound_allow": ("127.0.0.0/8",),
            "outbound_ca_file": str(own.file),
        }
        self._authority = str(own.file)
        self._sender = HttpSender(("127.0.0.0/8",), trust=ssl.create_default_context(cafile=self._authority))
        self._folder = web_folder(folder / "shop", "main")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Gitea]:
        await self._command("migrate")
        await self._command(
            *("admin", "user", "create", "--admin", "--must-change-password=false"),
            *("--username", _USER, "--password", "no-secret-at-all", "--email", "acme@example.com"),
        )
        words = ("admin", "user", "generate-access-token", "--raw", "--token-name", "t", "--scopes", "all")
        said = await self._command(*words, "--username", _USER)
        (self.token,) = _TOKEN_PATTERN.findall(
            said
        )  # its log is in the output, too, at times after the token
        log = (self._home / "output").open("wb")
        process = await asyncio.create_subprocess_exec(
            *self._words("web"), env=self._environment, stdout=log, stderr=log
        )
        try:
            await self._begin()
            yield self
        finally:
            process.terminate()
            await process.wait()
            log.close()
            await self._sender.close()
            shutil.rmtree(self._home)

    def _words(self, *words: str) -> list[str]:
        return [str(self._program), "--config", str(self._config), *words]

    @property
    def _environment(self) -> dict[str, str]:
        home = str(self._home)
        return {"PATH": os.environ["PATH"], "HOME": home, "USER": "root", "GITEA_WORK_DIR": home}

    async def _command(self, *words: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run,
            self._words(*words),
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    async def _begin(self) -> None:
        """Makes the repository, once the server answers."""
        await until(self._answers)
        await self.call("POST", "/user/repos", {"name": "shop", "private": True, "default_branch": "main"})
        self._folder.git("remote", "add", "origin", self.url)
        await self._send("main")

    async def _answers(self) -> bool:
        with contextlib.suppress(NoAnswer):
            return (await self._sender.send("GET", f"{self.api}/version")).status == 200
        return False

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        sent = json.dumps(body).encode() if body is not None else b""
        answer = await self._sender.send(method, f"{self.api}{path}", sent, headers, seconds=PATIENCE)
        assert answer.status < 300, (method, path, answer, self._log())
        return json.loads(answer.body) if answer.body else None

    def _log(self) -> str:
        return (self._home / "output").read_text()[-2000:]

    async def _send(self, branch: str) -> None:
        """Pushes a branch, and waits until the API knows it: its table of branches is written afterwards."""
        await asyncio.to_thread(self._push, branch)
        newest = self._folder.git("rev-parse", branch)

        async def is_known() -> bool:
            # It answers null for a repository without commits.
            found = await self.call("GET", "/repos/acme/shop/branches") or ()
            return (branch, newest) in {(one["name"], one["commit"]["id"]) for one in found}

        await until(is_known)

    def _push(self, branch: str) -> None:
        environment = GIT | {"HOME": str(self._folder.path), "GIT_SSL_CAINFO": self._authority}
        url = self.url.replace("https://", f"https://{_USER}:{self.token}@")
        done = subprocess.run(
            ["git", "push", "--quiet", url, branch],
            cwd=self._folder.path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done

    # A server of `served_git`

    def join(self, windlass: Windlass) -> None:
        """Windlass reaches it as each git server."""

    async def push(self, branch: str, text: str) -> str:
        folder: Folder = self._folder
        folder.git("checkout", "--quiet", "-B", branch)
        newest = folder.write(text=text).commit(text)
        await self._send(branch)
        return newest

    async def open(self, branch: str, commit: str) -> str:
        body = {"head": branch, "base": "main", "title": branch}
        return str((await self.call("POST", "/repos/acme/shop/pulls", body))["number"])

    async def close(self, number: str) -> None:
        await self.call("PATCH", f"/repos/acme/shop/pulls/{number}", {"state": "closed"})

    async def comments(self, number: str) -> list[str]:
        found = await self.call("GET", f"/repos/acme/shop/issues/{number}/comments")
        return [str(one["body"]) for one in found]

    async def statuses(self, commit: str) -> list[str]:
        found = await self.call("GET", f"/repos/acme/shop/commits/{commit}/statuses")
        return [str(one["status"]) for one in found]
