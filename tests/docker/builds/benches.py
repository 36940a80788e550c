"""A builder of images with a place for its files, as tests of Docker builds need it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from windlass.builders.builder import Order
from windlass.docker.builds import engine_turn
from windlass.docker.builds.builder import DockerBuilder
from windlass.docker.client import Docker
from windlass.docker.client.raw_connection import Frames
from windlass.engines.workload import Artifact

# Tests that run at once on one engine do not wait for each other.
engine_turn.LABEL = f"windlass.test-turn-{uuid.uuid4()}"


class Bench:
    """A builder, the files that it builds from, and its log."""

    def __init__(self, host: str, folder: Path, *, of_engine: Path | None = None, **given: Any) -> None:
        """`of_engine` is the folder of an engine that runs what is built."""
        self.host = host
        self.source = folder / "source"
        self.source.mkdir(parents=True, exist_ok=True)
        self.installation = f"test-{uuid.uuid4()}"
        self.folder = of_engine or folder / "engine"
        self.builder: Any = DockerBuilder(
            host=host, installation=self.installation, folder=self.folder, **given
        )
        self.service = str(uuid.uuid4())
        self.log: list[str] = []

    def another_service(self, **given: Any) -> Bench:
        """Returns a bench for another service of the same installation."""
        made = Bench(self.host, self.source.parent, **given)
        made.folder = self.folder
        made.builder = DockerBuilder(
            host=self.host, installation=self.installation, folder=self.folder, **given
        )
        made.installation = self.installation
        return made

    def neighbour(self, folder: Path) -> Bench:
        """Returns a bench for another service that is built by the same builder, with files of its own."""
        made = Bench(self.host, folder)
        made.installation, made.builder = self.installation, self.builder
        return made

    def file(self, name: str, text: str) -> None:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    async def build(self, text: str = "", **given: Any) -> Artifact:
        if text:
            self.file("Dockerfile", text)
        order: dict[str, Any] = {
            "service": self.service,
            "org": "acme",
            "name": "shop",
            "deployment": "d1",
            "key": "k1",
        }
        artifact: Artifact = await self.builder.build(
            Order(**{**order, "commit": "c" * 40, "source": self.source, **given}), self.log.append
        )
        return artifact

    async def images(self) -> list[str]:
        return sorted(tag for each in await self._all() for tag in each["RepoTags"] or ())

    async def runs(self, ref: str, *command: str) -> str:
        """Returns the output of a command in the image."""
        docker = Docker(self.host)
        try:
            body = {"Image": ref, "Cmd": list(command) or None, "HostConfig": {"NetworkMode": "none"}}
            made = (await docker.json("POST", "/containers/create", body=body))["Id"]
            await docker.raw("POST", f"/containers/{made}/start")
            await docker.raw("POST", f"/containers/{made}/wait")
            written = await docker.raw("GET", f"/containers/{made}/logs", params={"stdout": True})
            await docker.raw("DELETE", f"/containers/{made}")
            return b"".join(Frames().feed(written)).decode()
        finally:
            await docker.close()

    async def close(self) -> None:
        await self.builder.sweep(await self.builder.services())
        assert await self._all() == []
        await self.builder.stop()

    async def _all(self) -> list[dict[str, Any]]:
        docker = Docker(self.host)
        filters = {"label": [f"windlass.installation={self.installation}"]}
        try:
            return list(await docker.json("GET", "/images/json", params={"filters": filters}))
        finally:
            await docker.close()
