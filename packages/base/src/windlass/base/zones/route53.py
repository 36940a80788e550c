"""Route 53 of AWS, with an access key that may list zones and records, and change records.

All TXT records of a name are one set. A change names the former set and the new one; AWS refuses it if the
set has changed meanwhile, and it is then read again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from msgspec import Struct

from windlass.base.aws_signing import AccessKeys, encode_query, sign
from windlass.base.http_out import AddressRefused, HttpResult, HttpTransport, NoAnswer
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

_HOST: Final = "route53.amazonaws.com"
_VERSION: Final = "2013-04-01"
_NAMESPACE: Final = f"https://{_HOST}/doc/{_VERSION}/"
_REGION: Final = "us-east-1"
_MAX_ATTEMPTS: Final = 5
_CHANGED_ERROR: Final = "InvalidChangeBatch"


class _RecordSet(Struct, frozen=True):
    ttl: int
    values: tuple[str, ...]
    """Texts in quotes, as AWS wants them."""


class Route53:
    title: Final = "Route 53"

    def __init__(self, transport: HttpTransport, keys: AccessKeys) -> None:
        self._out, self._keys = transport, keys
        self._zones = ZoneList(self._read_zones)

    async def zone_of(self, name: str) -> str:
        zone = await self._zones.find(name)
        return zone.name if zone else ""

    async def check(self, name: str) -> str:
        zone = await self._needed_zone(name)
        await self._records(zone, name)
        return zone.name

    async def add(self, name: str, value: str) -> None:
        await self._change(name, f'"{value}"', is_there=True)

    async def remove(self, name: str, value: str) -> None:
        await self._change(name, f'"{value}"', is_there=False)

    async def _change(self, name: str, text: str, *, is_there: bool) -> None:
        zone = await self._needed_zone(name)
        for _ in range(_MAX_ATTEMPTS):
            present = await self._records(zone, name)
            if (text in present.values) is is_there:
                return
            wanted = tuple(value for value in present.values if value != text) + ((text,) if is_there else ())
            answer = await self._send(
                "POST", f"/{_VERSION}/hostedzone/{zone.id}/rrset/", _change_request(name, present, wanted)
            )
            if answer.status == 200:
                return
            if _CHANGED_ERROR not in _tag_texts(answer, "Code"):
                raise _refusal(answer)
        raise ZoneFailure(f"Route 53 does not change {name}: others change it all the time")

    async def _needed_zone(self, name: str) -> KnownZone:
        if zone := await self._zones.find(name):
            return zone
        raise ZoneFailure(f"The access key of AWS (dns_credentials) has no public zone of {name}")

    async def _read_zones(self) -> Sequence[KnownZone]:
        zones: list[KnownZone] = []
        query = {"maxitems": "100"}
        for _ in range(MAX_PAGES):
            answer = await self._send("GET", f"/{_VERSION}/hostedzone", query=query)
            if answer.status != 200:
                raise _refusal(answer)
            root = _read(answer)
            for zone in root.iter(f"{{{_NAMESPACE}}}HostedZone"):
                id, name = zone.findtext("{*}Id") or "", zone.findtext("{*}Name") or ""
                if zone.findtext(".//{*}PrivateZone") != "true":
                    zones.append(KnownZone(id.rpartition("/")[2], name.rstrip(".").lower()))
            query = {"maxitems": "100", "marker": root.findtext("{*}NextMarker") or ""}
            if not query["marker"]:
                break
        return zones

    async def _records(self, zone: KnownZone, name: str) -> _RecordSet:
        """Returns the TXT records of a name."""
        query = {"name": f"{name}.", "type": "TXT", "maxitems": "1"}
        answer = await self._send("GET", f"/{_VERSION}/hostedzone/{zone.id}/rrset", query=query)
        if answer.status != 200:
            raise _refusal(answer)
        for each in _read(answer).iter(f"{{{_NAMESPACE}}}ResourceRecordSet"):
            if each.findtext("{*}Name") == f"{name}." and each.findtext("{*}Type") == "TXT":
                values = [value.text or "" for value in each.iter(f"{{{_NAMESPACE}}}Value")]
                return _RecordSet(int(each.findtext("{*}TTL") or TTL_SECONDS), tuple(values))
        return _RecordSet(TTL_SECONDS, ())

    async def _send(
        self, method: str, path: str, body: bytes = b"", query: Mapping[str, str] = {}
    ) -> HttpResult:
        headers = {"Content-Type": "text/xml"} if body else {}
        signed = sign(
            self._keys, "route53", method, _HOST, body, headers, time.gmtime(), path=path, query=query
        )
        tail = f"?{encode_query(query)}" if query else ""
        try:
            return await self._out.send(method, f"https://{_HOST}{path}{tail}", body, signed)
        except (NoAnswer, AddressRefused) as error:
            raise ZoneFailure(f"Route 53 cannot be asked: {error}") from error


def _change_request(name: str, present: _RecordSet, wanted: Sequence[str]) -> bytes:
    """Returns a request that replaces the records of a name, unless they have changed."""
    changes = [("DELETE", present.ttl, present.values)] if present.values else []
    changes += [("CREATE", present.ttl, tuple(wanted))] if wanted else []
    parts = [
        f"<Change><Action>{action}</Action><ResourceRecordSet><Name>{escape(name)}.</Name><Type>TXT</Type>"
        f"<TTL>{ttl}</TTL><ResourceRecords>"
        + "".join(f"<ResourceRecord><Value>{escape(value)}</Value></ResourceRecord>" for value in values)
        + "</ResourceRecords></ResourceRecordSet></Change>"
        for action, ttl, values in changes
    ]
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ChangeResourceRecordSetsRequest xmlns="{_NAMESPACE}">'
        f"<ChangeBatch><Changes>{''.join(parts)}</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
    ).encode()


def _read(answer: HttpResult) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(answer.body)  # noqa: S314 (of AWS, and at most 64 KiB)
    except ElementTree.ParseError as error:
        raise ZoneFailure(f"Route 53 answers {answer.status}, and nothing that can be read") from error


def _tag_texts(answer: HttpResult, tag: str) -> list[str]:
    root = _read(answer)
    found = [each.text or "" for each in root.iter() if each.tag.rpartition("}")[2] == tag]
    return [_CHANGED_ERROR] if root.tag.endswith(_CHANGED_ERROR) and tag == "Code" else found


def _refusal(answer: HttpResult) -> ZoneFailure:
    words = words_of(_tag_texts(answer, "Message"), answer.status)
    return ZoneFailure(f"Route 53 refuses the access key of dns_credentials, or the request: {words}")


def open_zones(access: ZoneAccess) -> ZoneProvider:
    id, _, secret = access.credentials.partition(":")
    if not id or not secret:
        raise BadZoneSetting("dns_credentials: set it to ACCESS_KEY_ID:SECRET_ACCESS_KEY of AWS")
    return Route53(access.out, AccessKeys(id, secret, _REGION))
