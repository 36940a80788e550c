"""A name server on this machine, whose records a test writes. It answers over UDP and TCP.

It takes dynamic updates (RFC 2136) of its zones, signed with the key that a test gives it (TSIG, RFC 8945).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import struct
import time
from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Any

TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 16: "TXT", 28: "AAAA", 257: "CAA"}
NUMBERS = {name: number for number, name in TYPES.items()}
OWN, CUT, DESIRED, CHECKING_DISABLED = 0x0400, 0x0200, 0x0100, 0x0010
UPDATE, ADDED, REMOVED, TSIG = 5, 1, 254, 250
NOT_PRIMARY, BAD_SIGNATURE = 9, 16


class NameServer:
    """The records by name; each is a pair of type and value."""

    def __init__(self) -> None:
        self.records: dict[str, list[tuple[str, str]]] = {}
        self.is_silent = False
        """Whether it answers nothing at all."""
        self.broken: set[str] = set()
        """Names that it cannot find out about (SERVFAIL)."""
        self.unsigned: set[str] = set()
        """Names whose signatures are wrong: it answers only if they need not be checked."""
        self.foreign: set[str] = set()
        """Names of others, of which it knows what it has been told: its answers are not its own."""
        self.asked: list[tuple[str, str]] = []
        self.is_narrow = False
        """Whether answers do not fit into a datagram."""
        self.port = 0
        self.key: tuple[str, bytes] = ("", b"")
        """The name and the secret of the key for updates."""
        self.updates: list[tuple[str, str, str]] = []
        """The updates that it has made: `add` or `remove`, the name and the text."""
        self.is_slow = False
        """Whether it does not answer with what was added yet."""
        self._late: list[tuple[str, str]] = []

    def serve_zone(self, zone: str, server: str = "ns1.example.net") -> None:
        """Has a zone, whose name server is at this address."""
        self.set(zone, ("SOA", server), ("NS", server))
        self.set(server, ("A", "127.0.0.1"))

    def texts(self, name: str) -> list[str]:
        return [value for kind, value in self.records.get(name, []) if kind == "TXT"]

    def publish(self) -> None:
        """Answers with all that was added, from now on."""
        self.is_slow = False
        for name, text in self._late:
            self.records.setdefault(name, []).append(("TXT", text))
        self._late.clear()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def set(self, name: str, *records: tuple[str, str]) -> None:
        self.records[name.lower()] = list(records)

    def answer(self, question: bytes, *, by_tcp: bool = False) -> bytes | None:
        if self.is_silent:
            return None
        id, flags = struct.unpack_from("!HH", question)
        if flags >> 11 & 0xF == UPDATE:
            return self._update(question)
        name, end = _name(question, 12)
        (kind,) = struct.unpack_from("!H", question, end)
        self.asked.append((name, TYPES.get(kind, str(kind))))
        head = question[12 : end + 4]
        checks = not flags & CHECKING_DISABLED
        if name in self.broken or (name in self.unsigned and checks):
            return struct.pack("!HHHHHH", id, 0x8182, 1, 0, 0, 0) + head
        if self.is_narrow and not by_tcp:
            return struct.pack("!HHHHHH", id, 0x8180 | CUT, 1, 0, 0, 0) + head
        found, known = self._find(name, TYPES.get(kind, ""))
        body = b"".join(_record(owner, kind_, value) for owner, kind_, value in found)
        code = (0 if known else 3) | (0 if name in self.foreign else OWN)
        return struct.pack("!HHHHHH", id, 0x8180 | code, 1, len(found), 0, 0) + head + body

    def _update(self, message: bytes) -> bytes:
        """Makes the change of an update, if its signature is right. There is one at most."""
        _, position = _name(message, 12)
        end = position = position + 4
        if not struct.unpack_from("!H", message, 8)[0]:
            mac, is_signed = self._signature(message, end, message[:10] + b"\0\0" + message[12:end])
            return self._accepted(message, end, mac) if is_signed else self._refused(message, end)
        name, position = _name(message, position)
        _, group, _, length = struct.unpack_from("!HHIH", message, position)
        text = message[position + 11 : position + 10 + length].decode()
        start = position + 10 + length
        plain = message[:10] + b"\0\0" + message[12:start]
        mac, is_signed = self._signature(message, start, plain)
        if not is_signed:
            return self._refused(message, end)
        records = self.records.setdefault(name, [])
        word = "add" if group == ADDED else "remove"
        self.updates.append((word, name, text))
        if group == REMOVED:
            self.records[name] = [each for each in records if each != ("TXT", text)]
            if not self.records[name]:
                del self.records[name]
        elif self.is_slow:
            self._late.append((name, text))
        elif ("TXT", text) not in records:
            records.append(("TXT", text))
        return self._accepted(message, end, mac)

    def _refused(self, message: bytes, end: int) -> bytes:
        return message[:2] + struct.pack("!HHHHH", 0xA800 | NOT_PRIMARY, 1, 0, 0, 0) + message[12:end]

    def _accepted(self, message: bytes, end: int, mac: bytes) -> bytes:
        answer = message[:2] + struct.pack("!HHHHH", 0xA800, 1, 0, 0, 0) + message[12:end]
        return self._signed(answer, mac)

    def _signature(self, message: bytes, start: int, plain: bytes) -> tuple[bytes, bool]:
        """Returns the signature of an update, and whether it is that of the key."""
        name, position = _name(message, start)
        algorithm, position = _name(message, position + 10)
        when, fudge, size = (
            message[position : position + 6],
            *struct.unpack_from("!HH", message, position + 6),
        )
        mac = message[position + 10 : position + 10 + size]
        signed = plain + self._variables(when, fudge)
        return mac, (name, algorithm) == (self.key[0], "hmac-sha256") and hmac.compare_digest(
            mac, hmac.digest(self.key[1], signed, "sha256")
        )

    def _signed(self, answer: bytes, request: bytes) -> bytes:
        when = round(time.time()).to_bytes(6, "big")
        signed = struct.pack("!H", len(request)) + request + answer + self._variables(when, 300)
        mac = hmac.digest(self.key[1], signed, "sha256")
        data = _wire("hmac-sha256") + when + struct.pack("!HH", 300, len(mac)) + mac + answer[:2] + bytes(4)
        record = _wire(self.key[0]) + struct.pack("!HHIH", TSIG, 255, 0, len(data)) + data
        return answer[:10] + b"\0\1" + answer[12:] + record

    def _variables(self, when: bytes, fudge: int) -> bytes:
        return (
            _wire(self.key[0]) + struct.pack("!HI", 255, 0) + _wire("hmac-sha256") + when
            + struct.pack("!HHH", fudge, 0, 0)
        )  # fmt: skip

    def _find(self, name: str, kind: str) -> tuple[list[tuple[str, str, str]], bool]:
        found: list[tuple[str, str, str]] = []
        known = False
        for _ in range(8):
            records = self.records.get(name)
            if records is None:
                records = self.records.get("*." + name.partition(".")[2])
            known = known or records is not None
            if records is None:
                return found, known
            found += [(name, kind, value) for each, value in records if each == kind]
            alias = next((value for each, value in records if each == "CNAME"), "")
            if not alias or kind == "CNAME":
                return found, known
            found.append((name, "CNAME", alias))
            name = alias
        return found, known


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if (answer := self._server.answer(data)) is not None:
            self._transport.sendto(answer, addr)


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    server = NameServer()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            length = int.from_bytes(await reader.readexactly(2), "big")
            answer = server.answer(await reader.readexactly(length), by_tcp=True) or b""
            writer.write(len(answer).to_bytes(2, "big") + answer)
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Datagrams(server), local_addr=("127.0.0.1", server.port)
    )
    try:
        yield server
    finally:
        transport.close()
        listening.close()


def _name(message: bytes, position: int) -> tuple[str, int]:
    labels: list[str] = []
    while size := message[position]:
        labels.append(message[position + 1 : position + 1 + size].decode())
        position += size + 1
    return ".".join(labels).lower(), position + 1


def _wire(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _record(owner: str, kind: str, value: str) -> bytes:
    match kind:
        case "A" | "AAAA":
            data = ip_address(value).packed
        case "CNAME" | "NS":
            data = _wire(value)
        case "SOA":
            data = _wire(value) * 2 + struct.pack("!5I", 1, 60, 60, 60, 60)
        case "TXT":
            text = value.encode()
            parts = [text[start : start + 200] for start in range(0, max(len(text), 1), 200)]
            data = b"".join(bytes([len(part)]) + part for part in parts)
        case _:
            flags, tag, rest = value.split(" ", 2)
            data = bytes([int(flags), len(tag)]) + tag.encode() + rest.encode()
    return _wire(owner) + struct.pack("!HHIH", NUMBERS[kind], 1, 60, len(data)) + data
