"""Git servers with one repository and its pull requests, whose API and whose git a whole Windlass uses."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec.structs import force_setattr

from tests.marks import nightly
from tests.needs import needs
from tests.pushes.git_servers import TOKEN
from tests.pushes.gitea import Gitea
from tests.pushes.pull_requests import GiteaWithPulls
from tests.pushes.pushing import Folder, web_folder
from tests.repositories import serving
from tests.whole import Windlass


class PullServer(Protocol):
    """The repository acme/shop, whose branch main has a web application."""

    url: str
    api: str
    token: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those with which Windlass reaches it."""

    def join(self, windlass: Windlass) -> None: ...

    async def push(self, branch: str, text: str) -> str:
        """Pushes a commit that changes the page. Returns its id."""

    async def open(self, branch: str, commit: str) -> str:
        """Opens a pull request into main. Returns its number."""

    async def close(self, number: str) -> None: ...

    async def comments(self, number: str) -> list[str]: ...

    async def statuses(self, commit: str) -> list[str]: ...


class StandIn:
    """Git itself, with a stand-in of the API of Gitea."""

    def __init__(self, folder: Folder, port: int) -> None:
        self._folder, self._server, self._number = folder, GiteaWithPulls(), 0
        self._server.host = f"127.0.0.1:{port}"
        self.api = self._server.api = f"http://{self._server.host}/api/v1"
        self.url, self.token = f"http://{self._server.host}/acme/shop", TOKEN
        self.settings: Mapping[str, Any] = {"outbound_allow": ("127.0.0.0/8",)}

    def join(self, windlass: Windlass) -> None:
        force_setattr(windlass.installation.ctx, "out", self._server)

    async def push(self, branch: str, text: str) -> str:
        self._folder.git("checkout", "--quiet", "-B", branch)
        newest = self._folder.write(text=text).commit(text)
        if self._number:
            self._server.open(self._number, text, commit=newest)
        return newest

    async def open(self, branch: str, commit: str) -> str:
        self._number = 12
        self._server.open(self._number, branch, commit=commit)
        return str(self._number)

    async def close(self, number: str) -> None:
        self._server.close_pull(int(number))

    async def comments(self, number: str) -> list[str]:
        return [self._server.text_of(one) for one in self._server.comments.get(int(number), [])]

    async def statuses(self, commit: str) -> list[str]:
        return self._server.statuses.get(commit, [])


@contextlib.asynccontextmanager
async def stand_in(folder: Path) -> AsyncIterator[PullServer]:
    (folder / "acme").mkdir()
    shop = web_folder(folder / "acme" / "shop", "main")
    with serving(folder) as git:
        yield StandIn(shop, git.port)


@contextlib.asynccontextmanager
async def real_gitea(folder: Path) -> AsyncIterator[PullServer]:
    async with Gitea(folder).running() as server:
        yield server


SERVERS = [pytest.param(real_gitea, marks=needs("gitea")), *nightly(stand_in)]
