"""Any name server that takes dynamic updates (RFC 2136) with a key (TSIG), such as BIND, Knot or PowerDNS."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from windlass.base.dns import DnsClient, DnsFailure, NameServer, parse_server
from windlass.base.dns.messages import BadMessage
from windlass.base.dns.updates import (
    TsigKey,
    check_answer,
    parse_key,
    sign_message,
    write_empty_update,
    write_update,
)
from windlass.base.zones.provider import (
    TTL_SECONDS,
    BadZoneSetting,
    ZoneAccess,
    ZoneFailure,
    ZoneProvider,
    domains_of,
)

_TIMEOUT: Final = 10.0
_MAX_ANSWER_BYTES: Final = 16 * 1024


class UpdatedServer:
    def __init__(self, dns: DnsClient, server: NameServer, key: TsigKey) -> None:
        self._dns, self._server, self._key = dns, server, key

    @property
    def title(self) -> str:
        return f"The name server {self._server}"

    async def zone_of(self, name: str) -> str:
        for domain in domains_of(name):
            try:
                if await self._dns.has_zone(self._server, domain):
                    return domain
            except DnsFailure as error:
                if not error.is_refusal:  # it refuses to answer for what is not its own
                    raise ZoneFailure(f"{error}") from error
        return ""

    async def check(self, name: str) -> str:
        zone = await self._needed_zone(name)
        id = secrets.randbits(16)
        await self._send(id, zone, write_empty_update(id, zone))
        return zone

    async def add(self, name: str, value: str) -> None:
        await self._update(name, value, ttl=TTL_SECONDS)

    async def remove(self, name: str, value: str) -> None:
        await self._update(name, value, ttl=None)

    async def _update(self, name: str, value: str, *, ttl: int | None) -> None:
        zone = await self._needed_zone(name)
        id = secrets.randbits(16)
        await self._send(id, zone, write_update(id, zone, name, value, ttl))

    async def _needed_zone(self, name: str) -> str:
        if zone := await self.zone_of(name):
            return zone
        raise ZoneFailure(f"The name server {self._server} has no zone of {name}")

    async def _send(self, id: int, zone: str, update: bytes) -> None:
        message, mac = sign_message(update, self._key, int(time.time()))
        try:
            refusal = check_answer(await self._exchange(message), id, self._key, mac)
        except (BadMessage, asyncio.IncompleteReadError) as error:
            raise ZoneFailure(f"The name server {self._server} sends no readable answer: {error}") from error
        except (OSError, TimeoutError) as error:
            raise ZoneFailure(f"The name server {self._server} takes no update: {error}") from error
        if refusal:
            raise ZoneFailure(f"The name server {self._server} refuses the update of {zone}: {refusal}")

    async def _exchange(self, message: bytes) -> bytes:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_connection(self._server.address, self._server.port)
            try:
                writer.write(len(message).to_bytes(2, "big") + message)
                length = int.from_bytes(await reader.readexactly(2), "big")
                if length > _MAX_ANSWER_BYTES:
                    raise BadMessage(f"it has {length} bytes")
                return await reader.readexactly(length)
            finally:
                writer.close()


def open_zones(access: ZoneAccess) -> ZoneProvider:
    try:
        server = parse_server(access.server)
    except ValueError as error:
        raise BadZoneSetting(
            f"dns_update_server: name the server that takes updates, such as 192.0.2.53:53: {error}"
        ) from error
    try:
        key = parse_key(access.credentials)
    except ValueError as error:
        raise BadZoneSetting(
            f"dns_credentials: set it to NAME:SECRET of the key, with the secret in Base64: {error}"
        ) from error
    return UpdatedServer(access.dns, server, key)
