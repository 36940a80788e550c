"""Asks one name server over UDP, and over TCP if the answer does not fit, with limits on time and size.

Each question has a random id and a random port. An answer counts only if it comes from the server that was
asked, and repeats id and question.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from windlass.base.addresses import Address
from windlass.base.dns.messages import (
    BadMessage,
    DnsAnswer,
    RecordType,
    ResponseCode,
    read_answer,
    write_question,
)

ATTEMPT_TIMEOUT: Final = 3.0
"""Time limit for one attempt."""
MAX_ATTEMPTS: Final = 2
MAX_CONCURRENT_QUESTIONS: Final = 256
"""Further questions wait, because each has a socket of its own."""
MAX_ANSWER_BYTES: Final = 16 * 1024
"""Longer answers over TCP are refused."""
MAX_ALIASES: Final = 10
"""The longest chain of aliases that is followed."""
_RESOLVERS: Final = Path("/etc/resolv.conf")
_PORT: Final = 53


class NameServer(Struct, frozen=True, order=True):
    address: str
    port: int = _PORT

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return host if self.port == _PORT else f"{host}:{self.port}"


class DnsFailure(OSError):
    """The server gave no usable answer. The message says why."""

    def __init__(self, message: str, *, is_dnssec: bool = False, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal
        """Whether the server answers, but not about this name."""
        self.is_dnssec = is_dnssec
        """Whether the server answers once it does not validate signatures."""


class Records(Struct, frozen=True):
    """The records of a name at one server."""

    exists: bool
    """Whether the server knows the name, with records of any type."""
    values: tuple[str, ...]
    aliases: tuple[str, ...]
    """The names that the name stands for, from the first alias (CNAME) to the last."""


class DnsClient:
    """Asks name servers. Keeps nothing between two questions."""

    def __init__(self, servers: Sequence[NameServer] = (), *, seconds: float = ATTEMPT_TIMEOUT) -> None:
        """Without `servers`, asks those of the machine, as they are configured at that time."""
        self._servers = tuple(servers)
        self.zone_port = _PORT
        """The port of the name servers that zones name."""
        self._seconds = seconds
        self._room = asyncio.Semaphore(MAX_CONCURRENT_QUESTIONS)

    @property
    def servers(self) -> Sequence[NameServer]:
        return self._servers or machine_servers()

    async def ask(self, server: NameServer, name: str, type: RecordType) -> Records:
        """Returns the records of a name. Raises DnsFailure if the server gives no usable answer."""
        answer = await self._ask(server, name, type)
        if answer.code == ResponseCode.SERVER_FAILURE:
            raise await self._explain_failure(server, name, type)
        if answer.code not in {ResponseCode.OK, ResponseCode.NO_SUCH_NAME}:
            raise DnsFailure(f"{server} refuses to answer for {name} (code {answer.code})", is_refusal=True)
        aliases = _aliases(answer, name)
        last = aliases[-1] if aliases else name.lower()
        values = tuple(
            record.value for record in answer.records if record.type == type and record.name == last
        )
        exists = answer.code == ResponseCode.OK or bool(aliases)
        return Records(exists, tuple(dict.fromkeys(values)), tuple(aliases))

    async def has_zone(self, server: NameServer, name: str) -> bool:
        """Returns whether a zone of this name is one of the server's own: it may know others as it also
        answers for them. Raises DnsFailure if the server gives no usable answer."""
        answer = await self._ask(server, name, RecordType.SOA, recursive=False)
        if answer.code not in {ResponseCode.OK, ResponseCode.NO_SUCH_NAME}:
            is_refusal = answer.code != ResponseCode.SERVER_FAILURE
            raise DnsFailure(
                f"{server} does not answer for {name} (code {answer.code})", is_refusal=is_refusal
            )
        return answer.is_authoritative and any(
            (record.type, record.name) == (RecordType.SOA, name.lower()) for record in answer.records
        )

    async def addresses(self, name: str, port: int) -> Sequence[Address]:
        """Returns the addresses of a name at the first server that answers. Raises DnsFailure."""
        failure = DnsFailure(f"no name server knows {name}")
        for server in self.servers:
            try:
                answers = [await self.ask(server, name, type) for type in (RecordType.A, RecordType.AAAA)]
            except DnsFailure as error:
                failure = error
                continue
            if values := [ip_address(value) for answer in answers for value in answer.values]:
                return values
        raise failure

    async def _explain_failure(self, server: NameServer, name: str, type: RecordType) -> DnsFailure:
        with contextlib.suppress(DnsFailure):
            answer = await self._ask(server, name, type, unchecked=True)
            if answer.code in {ResponseCode.OK, ResponseCode.NO_SUCH_NAME}:
                return DnsFailure(
                    f"{server} refuses {name}: its signatures (DNSSEC) are not valid", is_dnssec=True
                )
        return DnsFailure(f"{server} cannot find out about {name}: its name servers do not answer (SERVFAIL)")

    async def _ask(
        self,
        server: NameServer,
        name: str,
        type: RecordType,
        *,
        unchecked: bool = False,
        recursive: bool = True,
    ) -> DnsAnswer:
        write = partial(write_question, name=name, type=type, unchecked=unchecked, recursive=recursive)
        try:
            for _ in range(MAX_ATTEMPTS):
                async with self._room:
                    with contextlib.suppress(TimeoutError):
                        answer = await self._ask_udp(server, name, type, write)
                        return await self._ask_tcp(server, name, type, write) if answer.is_cut else answer
        except BadMessage as error:
            raise DnsFailure(f"{server} sends no readable answer for {name}: {error}") from error
        except ValueError as error:
            raise DnsFailure(str(error)) from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise DnsFailure(f"{server} cannot be asked for {name}") from error
        raise DnsFailure(f"{server} does not answer")

    async def _ask_udp(
        self, server: NameServer, name: str, type: RecordType, write: Callable[[int], bytes]
    ) -> DnsAnswer:
        id = secrets.randbits(16)
        answer: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
        question = write(id)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Question(question, id, name, type, answer), remote_addr=(server.address, server.port)
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        finally:
            transport.close()

    async def _ask_tcp(
        self, server: NameServer, name: str, type: RecordType, write: Callable[[int], bytes]
    ) -> DnsAnswer:
        id = secrets.randbits(16)
        question = write(id)
        async with asyncio.timeout(self._seconds):
            reader, writer = await asyncio.open_connection(server.address, server.port)
            try:
                writer.write(len(question).to_bytes(2, "big") + question)
                length = int.from_bytes(await reader.readexactly(2), "big")
                if length > MAX_ANSWER_BYTES:
                    raise BadMessage(f"it has {length} bytes")
                return read_answer(await reader.readexactly(length), id, name, type)
            finally:
                writer.close()


class _Question(asyncio.DatagramProtocol):
    """Sends one question. Messages that are no answer to it are ignored, because anyone may send them."""

    def __init__(
        self, question: bytes, id: int, name: str, type: RecordType, answer: asyncio.Future[DnsAnswer]
    ) -> None:
        self._question, self._id, self._name, self._type = question, id, name, type
        self._answer = answer

    def connection_made(self, transport: Any) -> None:
        transport.sendto(self._question)

    def datagram_received(self, data: bytes, addr: object) -> None:
        with contextlib.suppress(BadMessage):
            answer = read_answer(data, self._id, self._name, self._type)
            if not self._answer.done():
                self._answer.set_result(answer)

    def error_received(self, exc: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc)


def _aliases(answer: DnsAnswer, name: str) -> list[str]:
    """Returns the names that a name stands for. A circle of aliases ends where it begins again."""
    targets = {record.name: record.value for record in answer.records if record.type == RecordType.CNAME}
    aliases: list[str] = []
    current = name.lower()
    while (target := targets.get(current)) and target not in aliases and len(aliases) < MAX_ALIASES:
        aliases.append(target)
        current = target
    return aliases


def parse_server(text: str) -> NameServer:
    """Reads `address`, `address:port`, or `[address]:port`. Raises ValueError."""
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    number = int(port or _PORT)
    if not 0 < number < 65_536:
        raise ValueError(f"{text} names a port that does not exist")
    return NameServer(str(ip_address(host)), number)


def machine_servers(file: Path = _RESOLVERS) -> tuple[NameServer, ...]:
    """Returns the name servers of the machine; the machine itself if none is configured."""
    servers: list[NameServer] = []
    with contextlib.suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            word, _, address = line.strip().partition(" ")
            with contextlib.suppress(ValueError):
                if word == "nameserver":
                    servers.append(NameServer(str(ip_address(address.strip().partition("%")[0]))))
    return tuple(dict.fromkeys(servers)) or (NameServer("127.0.0.1"),)
