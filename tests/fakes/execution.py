"""A command for tests: writes what it is told to, and remembers what it was given."""

from __future__ import annotations

import asyncio

from windlass.engines.engine import ExecutionRequest, TerminalSize


class FakeExecution:
    def __init__(self, request: ExecutionRequest) -> None:
        self.request = request
        self.input = bytearray()
        self.has_input_ended = False
        self.sizes: list[TerminalSize] = []
        self.closed = asyncio.Event()
        self.exit_code = 0
        self.taken = asyncio.Event()
        """Set when it has been given anything."""
        self._output: asyncio.Queue[bytes] = asyncio.Queue()
        self.awaited = asyncio.Event()
        """Set when its end is waited for."""
        self._ended = asyncio.Event()

    def says(self, output: bytes) -> None:
        self._output.put_nowait(output)

    def ends(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self._ended.set()
        self.closes_its_output()

    def closes_its_output(self) -> None:
        self._output.put_nowait(b"")

    @property
    def is_closed(self) -> bool:
        return self.closed.is_set()

    def waiting(self) -> int:
        """Returns the number of pieces of output that were not read yet."""
        return self._output.qsize()

    async def read(self) -> bytes:
        return await self._output.get()

    async def write(self, data: bytes) -> None:
        self.input += data
        self.taken.set()

    async def end_input(self) -> None:
        self.has_input_ended = True
        self.taken.set()

    async def resize(self, size: TerminalSize) -> None:
        self.sizes.append(size)
        self.taken.set()

    async def wait(self) -> int:
        self.awaited.set()
        await self._ended.wait()
        return self.exit_code

    async def close(self) -> None:
        self.closed.set()
