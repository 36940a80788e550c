"""Machines of the story: each has an address of loopback, an installed Windlass and a data directory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from tests.faults.grounds import end_all
from tests.gateway.gateway_town import processes_of
from tests.whole import PATIENCE, until
from tests.world import ADMIN

PACKAGES = Path(__file__).parents[3] / "packages"
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
HEADERS = {"Authorization": f"Token {ADMIN}"}


def wheels(folder: Path, source: Path = PACKAGES) -> list[Path]:
    """Builds all packages of a checkout."""
    for package in sorted(source.iterdir()):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=package, check=True, capture_output=True)
    return sorted(folder.glob("*.whl"))


def next_wheels(folder: Path) -> list[Path]:
    """Builds the packages of a next version: with a migration more, and another gateway."""
    source = folder / "source"
    shutil.copytree(PACKAGES, source, ignore=shutil.ignore_patterns("__pycache__"))
    migrations = source / "windlass/src/windlass/store/migrations"
    (migrations / "9999_next.sql").write_text("CREATE TABLE next (id BIGINT PRIMARY KEY);\n")
    with (source / "gateway/src/windlass/gateway/__init__.py").open("a") as module:
        module.write("\n# The gateway of the next version.\n")
    return wheels(folder, source)


class Machine:
    def __init__(self, folder: Path, address: str, ports: tuple[int, int], **settings: str) -> None:
        """`ports` are those of its server and of its gateway."""
        self.name = folder.name
        self.address, (self.port, self.gateway_port) = address, ports
        self.url = f"http://{address}:{self.port}"
        self.data = folder / "data"
        self._folder, self._environment = folder, folder / "program"
        self._process: asyncio.subprocess.Process | None = None
        self._variables = {
            "WINDLASS_HOST": address,
            "WINDLASS_PORT": str(self.port),
            "WINDLASS_GATEWAY_HOST": address,
            "WINDLASS_GATEWAY_PORT": str(self.gateway_port),
            "WINDLASS_DATA_DIR": str(self.data),
            "WINDLASS_ADMIN_TOKEN": ADMIN,
            "WINDLASS_RATE_LIMIT": "1000000000",
            "WINDLASS_GIT_ALLOW_LOCAL": "yes",
            "WINDLASS_TRUSTED_PROXIES": "127.0.0.0/8",
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            **{f"WINDLASS_{name.upper()}": value for name, value in settings.items()},
        }

    # Its program

    def install(self, packages: Sequence[Path]) -> None:
        """Installs Windlass, also in place of an earlier version. Other packages are those of the tests."""
        python = self._environment / "bin/python"
        if not python.exists():
            command = [sys.executable, "-m", "venv", "--without-pip", str(self._environment)]
            subprocess.run(command, check=True)
            (self._environment / SITE / "others.pth").write_text(f"{Path(sys.prefix) / SITE}\n")
        uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--offline", "--no-cache"]
        command = [*uv, "--no-deps", "--reinstall", "--python", str(python), *map(str, packages)]
        subprocess.run(command, check=True, capture_output=True)

    async def run(self, *words: str) -> tuple[int, str]:
        """Runs a command of the operator; returns its exit code and its output."""
        process = await asyncio.create_subprocess_exec(
            *(str(self._environment / "bin/windlass"), *words),
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    # Its server

    async def start(self) -> None:
        assert self._process is None
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(str(self._environment / "bin/windlass"), "serve"), env=self._variables, stderr=log
            )
        await until(self.is_ready)

    async def is_ready(self) -> bool:
        assert self._process
        assert self._process.returncode is None, self.log
        return await self._readiness() == 200

    async def is_outdated(self) -> bool:
        return await self._readiness() == 503

    async def _readiness(self) -> int:
        """Returns the status of /readyz; 0 if nothing answers."""
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with aiohttp.ClientSession() as http, http.get(f"{self.url}/readyz") as answer:
                return answer.status
        return 0

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """The server alone: its gateway and its services go on."""
        if self._process is None:
            return
        self._process.send_signal(number)
        code = await self._process.wait()
        self._process = None
        assert code == (0 if number == signal.SIGTERM else -number), self.log

    async def lose_power(self) -> None:
        """All processes of the machine end at once."""
        await self.end(signal.SIGKILL)
        end_all(self.data)
        for process in self.gateways:
            os.kill(process, signal.SIGKILL)

    @property
    def gateways(self) -> list[int]:
        return processes_of(self.data / "gateway")

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Asks this server, again while it answers 503; returns the answer, which must be a success."""
        headers = HEADERS | ({"Idempotency-Key": uuid4().hex} if method == "POST" else {})
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession(self.url, headers=headers) as http:
            while True:
                async with http.request(method, path, json=body) as answer:
                    text = await answer.text()
                if answer.status != 503:
                    break
                await asyncio.sleep(0.05)
        assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
        return json.loads(text) if text else None
