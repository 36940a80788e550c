"""A gateway in a process of its own, as a server starts it, with applications and clients around it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tests.gateway.routers.town import Town, calling, request
from windlass.gateway.files import CONTROL, socket_of
from windlass.gateway.link import GatewayLink
from windlass.gateway.messages import Ask
from windlass.gateway.router import GatewayRouter
from windlass.gateway.starting import start_gateway


class GatewayTown(Town):
    """Applications and clients around a gateway, and the server that tells it routes."""

    def __init__(
        self,
        folder: Path,
        stack: contextlib.AsyncExitStack,
        https_port: int = 0,
        proxies: Sequence[str] = (),
    ) -> None:
        """`proxies`: the addresses that send headers of the PROXY protocol."""
        self.folder = folder
        self.https_port = https_port
        self._proxies = proxies
        self.link = GatewayLink(folder)
        super().__init__(self._new_router(), stack)  # type: ignore[arg-type]

    def _new_router(self) -> GatewayRouter:
        return GatewayRouter(
            self.link,
            "local",
            "127.0.0.1",
            0,
            https_port=self.https_port,
            proxy_protocol_from=self._proxies,
            offers_http2=True,
        )

    def start_gateway(self) -> None:
        start_gateway(self.folder)

    async def process(self) -> int:
        return (await self.link.call(Ask())).process

    async def new_server(self) -> None:
        """A server that has started again, and knows nothing."""
        await self.router.stop()
        self.link = GatewayLink(self.folder)
        self.router = self._new_router()  # type: ignore[assignment]
        await self.router.start()

    @contextlib.asynccontextmanager
    async def second_server(self, host: str, port: int) -> AsyncIterator[GatewayRouter]:
        """Starts another server, with other settings."""
        router = GatewayRouter(GatewayLink(self.folder), "local", host, port)
        await router.start()
        yield router
        await router.stop()

    async def kill(self) -> None:
        process = await self.process()
        os.kill(process, signal.SIGKILL)

    async def replace(self) -> None:
        """The gateway is upgraded: a new one relieves it."""
        before = await self.process()
        start_gateway(self.folder)
        async with asyncio.timeout(20):
            while await self.process() == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def processes_of(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"windlass.gateway" in words and str(folder).encode() in words:
                    found.append(int(entry.name))
    return found


@contextlib.asynccontextmanager
async def make_gateway_town(
    within: Path, https_port: int = 0, proxies: Sequence[str] = ()
) -> AsyncIterator[GatewayTown]:
    folder = within / ("long" * 30) / "gateway"
    async with contextlib.AsyncExitStack() as stack:
        made = GatewayTown(folder, stack, https_port, proxies)
        await made.router.start()
        try:
            yield made
        finally:
            await made.router.stop()
            socket_of(folder, CONTROL).unlink(missing_ok=True)
            for process in processes_of(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


async def body(port: int) -> bytes:
    async with calling(port) as caller:
        return (await caller.ask(request())).body
