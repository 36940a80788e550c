"""Applications of newcomers on a whole Windlass: made from a repository, deployed, and their status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.repositories import Repository
from tests.whole import Place, Windlass, until


class Newcomer:
    """An application named shop, and the person who deploys it and reads its status."""

    def __init__(self, there: Place, windlass: Windlass, files: Mapping[str, str]) -> None:
        self._windlass = windlass
        self._repository = Repository(there.beside / "shop").put(dict(files))
        self._repository.commit()
        self._path = ""

    async def deploy(self, **fields: Any) -> Any:
        """Makes the application and deploys it. Returns the status when the deployment has ended."""
        org = (await self._windlass.call("GET", "/organization"))["id"]
        project = await self._made(f"/organization/{org}/project", name="acme")
        environment = await self._made(f"/project/{project}/environment", name="production")
        source = {"git_repository": {"url": self._repository.url, "branch": "main"}}
        made = await self._made(f"/environment/{environment}/application", name="shop", **source, **fields)
        self._path = f"/application/{made}"
        await self._windlass.call("POST", f"{self._path}/deploy")
        await until(self._has_ended)
        return await self._status()

    async def advice(self) -> str:
        """Returns the first sentence of the status, when it has a message."""
        await until(self._has_message)
        return str((await self._status())["message"]).partition(". ")[0]

    async def url(self) -> str:
        (link,) = (await self._windlass.call("GET", f"{self._path}/link"))["results"]
        return str(link["url"])

    async def _has_ended(self) -> bool:
        return (await self._status())["state"] in {"RUNNING", "ERROR"}

    async def _has_message(self) -> bool:
        return bool((await self._status())["message"])

    async def _status(self) -> Any:
        return await self._windlass.call("GET", f"{self._path}/status")

    async def _made(self, path: str, **body: Any) -> str:
        return str((await self._windlass.call("POST", path, body))["id"])


async def advice_for(there: Place, files: Mapping[str, str], **fields: Any) -> str:
    """Deploys an application that fails. Returns the first sentence of its status."""
    async with there.windlass() as windlass:
        newcomer = Newcomer(there, windlass, files)
        status = await newcomer.deploy(**fields)
        assert status["state"] == "ERROR", status
        return await newcomer.advice()
