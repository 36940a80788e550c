"""An OpenID Connect provider that is not ours: the npm package oidc-provider, over real HTTP.

It is installed once for each state of its lock, below the system's folder for temporary files.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from tests.needs import program

HERE = Path(__file__).parent / "oidc_provider"
LOCK = HERE / "package-lock.json"
RS256, ES256 = "urn:test:rs256", "urn:test:es256"
LIFETIME = 60


@contextlib.contextmanager
def running_provider(folder: Path, come_back: str = "") -> Iterator[Provider]:
    program("node")
    shutil.copy(HERE / "server.mjs", folder)
    (folder / "node_modules").symlink_to(installed() / "node_modules")
    with subprocess.Popen(
        ["node", folder / "server.mjs", "0", *([come_back] if come_back else [])],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Provider(process)
        finally:
            process.kill()


class Provider:
    """The server while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.issuer = self.heard("listening on ")

    async def token(self, audience: str, client: str = "robot") -> str:
        form = {"grant_type": "client_credentials", "resource": audience, "scope": "deploy"}
        credentials = base64.b64encode(f"{client}:secret".encode()).decode()
        async with (
            aiohttp.ClientSession(
                headers={"Authorization": f"Basic {credentials}"}, raise_for_status=True
            ) as http,
            http.post(f"{self.issuer}/token", data=form) as reply,
        ):
            return str((await reply.json())["access_token"])

    def change_keys(self) -> None:
        self._process.send_signal(signal.SIGHUP)
        self.heard("has new keys")

    def heard(self, beginning: str) -> str:
        for line in self._process.stdout or ():
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()
        raise AssertionError("the provider has ended; see what it wrote")


def installed() -> Path:
    """Returns the folder with the packages of the lock file, which the first test process installs."""
    known = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    home = Path(tempfile.gettempdir()) / f"windlass-oidc-provider-{known}"
    if not home.exists():
        install(home)
    return home


def install(home: Path) -> None:
    made = Path(tempfile.mkdtemp(prefix=f"{home.name}-"))
    for file in (HERE / "package.json", LOCK):
        shutil.copy(file, made)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=made, check=True)
    try:
        made.rename(home)
    except OSError:  # another process was faster, and made the same
        shutil.rmtree(made)
