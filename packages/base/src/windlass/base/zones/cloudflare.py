"""Cloudflare, by its API v4 with a token that may edit the DNS of a zone and read the zone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import AddressRefused, HttpTransport, NoAnswer
from windlass.base.zones.provider import (
    MAX_PAGES,
    TTL_SECONDS,
    BadZoneSetting,
    KnownZone,
    ZoneAccess,
    ZoneFailure,
    ZoneList,
    ZoneProvider,
    words_of,
)

_API: Final = "https://api.cloudflare.com/client/v4"
_IS_THERE: Final = frozenset({81057, 81058})
"""The codes of the refusal of a record that exists already."""
_MAX_RECORDS: Final = 100
_ZONES_PER_PAGE: Final = 50
"""The zones on one page, which Cloudflare permits."""


class _CloudflareError(Struct):
    code: int = 0
    message: str = ""


class _Entry(Struct):
    id: str
    name: str = ""
    content: str = ""


class _Answer(Struct):
    success: bool = False
    errors: list[_CloudflareError] = []
    result: list[_Entry] | _Entry | None = None

    @property
    def entries(self) -> list[_Entry]:
        return self.result if isinstance(self.result, list) else []


class Cloudflare:
    title: Final = "Cloudflare"

    def __init__(self, transport: HttpTransport, token: str) -> None:
        self._out, self._token = transport, token
        self._zones = ZoneList(self._read_zones)

    async def zone_of(self, name: str) -> str:
        zone = await self._zones.find(name)
        return zone.name if zone else ""

    async def check(self, name: str) -> str:
        zone = await self._needed_zone(name)
        await self._records(zone, name, "")
        return zone.name

    async def add(self, name: str, value: str) -> None:
        zone = await self._needed_zone(name)
        if await self._records(zone, name, value):
            return
        record = {"type": "TXT", "name": name, "content": f'"{value}"', "ttl": TTL_SECONDS}
        answer = await self._send("POST", f"/zones/{zone.id}/dns_records", msgspec.json.encode(record))
        if not answer.success and not {error.code for error in answer.errors} & _IS_THERE:
            raise _refusal(answer)

    async def remove(self, name: str, value: str) -> None:
        zone = await self._needed_zone(name)
        for record in await self._records(zone, name, value):
            answer = await self._send("DELETE", f"/zones/{zone.id}/dns_records/{quote(record.id, safe='')}")
            if not answer.success:
                raise _refusal(answer)

    async def _needed_zone(self, name: str) -> KnownZone:
        if zone := await self._zones.find(name):
            return zone
        raise ZoneFailure(f"The token of Cloudflare (dns_credentials) has no zone of {name}")

    async def _read_zones(self) -> Sequence[KnownZone]:
        zones: list[KnownZone] = []
        for page in range(1, MAX_PAGES + 1):
            answer = await self._send("GET", f"/zones?per_page={_ZONES_PER_PAGE}&page={page}")
            if not answer.success:
                raise _refusal(answer)
            zones += [KnownZone(zone.id, zone.name) for zone in answer.entries]
            if len(answer.entries) < _ZONES_PER_PAGE:
                break
        return zones

    async def _records(self, zone: KnownZone, name: str, value: str) -> list[_Entry]:
        """Returns the TXT records of a name with this text."""
        query = f"type=TXT&name={quote(name, safe='')}&per_page={_MAX_RECORDS}"
        answer = await self._send("GET", f"/zones/{zone.id}/dns_records?{query}")
        if not answer.success:
            raise _refusal(answer)
        return [record for record in answer.entries if record.content.strip('"') == value]

    async def _send(self, method: str, path: str, body: bytes = b"") -> _Answer:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            answer = await self._out.send(method, f"{_API}{path}", body, headers)
            found = read_json(answer.body, _Answer)
        except (NoAnswer, AddressRefused) as error:
            raise ZoneFailure(f"Cloudflare cannot be asked: {error}") from error
        except BadJson as error:
            raise ZoneFailure(f"Cloudflare answers {answer.status}, and nothing that can be read") from error
        found.success = found.success and 200 <= answer.status < 300
        return found


def _refusal(answer: _Answer) -> ZoneFailure:
    words = words_of([error.message for error in answer.errors], 0)
    return ZoneFailure(f"Cloudflare refuses the token of dns_credentials, or the request: {words}")


def open_zones(access: ZoneAccess) -> ZoneProvider:
    if not access.credentials:
        raise BadZoneSetting("dns_credentials: set it to a token of Cloudflare with the right Zone.DNS")
    return Cloudflare(access.out, access.credentials)
