"""A mail server on this machine that keeps what it is sent."""

from __future__ import annotations

import asyncio
import email
import email.policy
from email.message import EmailMessage


class MailServer:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self._came = asyncio.Event()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> MailServer:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *reason: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail\r\n")
        try:
            while line := await reader.readline():
                word = line[:4].upper().strip()
                if word == b"DATA":
                    writer.write(b"354 go on\r\n")
                    text = await reader.readuntil(b"\r\n.\r\n")
                    message = email.message_from_bytes(text[:-3], policy=email.policy.default)
                    assert isinstance(message, EmailMessage)
                    self.mails.append(message)
                    self._came.set()
                writer.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
                if word == b"QUIT":
                    return
        finally:
            writer.close()

    async def next(self) -> EmailMessage:
        async with asyncio.timeout(30):
            await self._came.wait()
        return self.mails.pop(0)
