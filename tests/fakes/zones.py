"""The APIs of providers of DNS zones, as their documentation describes them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree

from windlass.base.aws_signing import AccessKeys, sign
from windlass.base.http_out import HttpResult

NAMESPACE = "https://route53.amazonaws.com/doc/2013-04-01/"


def result(status: int, body: bytes) -> HttpResult:
    return HttpResult(status, {}, body, cut=False, milliseconds=1)


class FakeCloudflare:
    """https://developers.cloudflare.com/api/resources/dns"""

    def __init__(self, token: str, *zones: str) -> None:
        self.token = token
        self.zones = {f"id-of-{zone}": zone for zone in zones}
        self.records: dict[str, dict[str, Any]] = {}
        self.problem: tuple[int, str] | None = None
        self.listed = 0
        """How many pages of zones were asked for."""

    def texts(self, name: str) -> list[str]:
        return [each["content"].strip('"') for each in self.records.values() if each["name"] == name]

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = {}, **options: Any
    ) -> HttpResult:
        parts = urlsplit(url)
        assert (parts.scheme, parts.netloc) == ("https", "api.cloudflare.com")
        if self.problem:
            return self._refuse(400, *self.problem)
        if headers["Authorization"] != f"Bearer {self.token}":
            return self._refuse(403, 9109, "Invalid access token")
        query = dict(parse_qsl(parts.query))
        path = parts.path.removeprefix("/client/v4")
        if path == "/zones":
            self.listed += 1
            size, page = int(query["per_page"]), int(query["page"])
            found = [{"id": id, "name": zone} for id, zone in self.zones.items()]
            return self._answer(found[(page - 1) * size : page * size])
        _, _, zone, _, *rest = path.split("/")
        assert zone in self.zones
        match method, rest:
            case "GET", []:
                assert query["type"] == "TXT"
                return self._answer([each for each in self.records.values() if each["name"] == query["name"]])
            case "POST", []:
                record = json.loads(body)
                assert record["type"] == "TXT"
                assert record["name"].endswith(self.zones[zone])
                if any(all(each[key] == record[key] for key in record) for each in self.records.values()):
                    return self._refuse(400, 81058, "An identical record already exists.")
                id = f"record{len(self.records)}"
                self.records[id] = record | {"id": id}
                return self._answer(self.records[id])
            case "DELETE", [id]:
                del self.records[id]
                return self._answer({"id": id})
        raise AssertionError((method, path))

    def _answer(self, found: object) -> HttpResult:
        return result(200, json.dumps({"success": True, "errors": [], "result": found}).encode())

    def _refuse(self, status: int, code: int, message: str) -> HttpResult:
        answer = {"success": False, "errors": [{"code": code, "message": message}], "result": None}
        return result(status, json.dumps(answer).encode())


class FakeRoute53:
    """https://docs.aws.amazon.com/Route53/latest/APIReference"""

    def __init__(self, keys: AccessKeys, *zones: str) -> None:
        self.keys = keys
        self.zones = {f"Z{number}": zone for number, zone in enumerate(zones)}
        self.sets: dict[str, tuple[str, list[str]]] = {}
        self.races = 0
        """How many changes find that another one was faster."""

    def texts(self, name: str) -> list[str]:
        return [value.strip('"') for value in self.sets.get(f"{name}.", ("", []))[1]]

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = {}, **options: Any
    ) -> HttpResult:
        parts = urlsplit(url)
        assert (parts.scheme, parts.netloc) == ("https", "route53.amazonaws.com")
        query = dict(parse_qsl(parts.query))
        if not self._is_signed(method, parts.path, query, body, headers):
            return self._refuse("SignatureDoesNotMatch", "The signature does not match.")
        if parts.path == "/2013-04-01/hostedzone":
            return self._answer("ListHostedZonesResponse", self._page(int(query.get("marker", "0"))))
        found = re.fullmatch(r"/2013-04-01/hostedzone/(Z\d+)/rrset/?", parts.path)
        assert found
        if method == "GET":
            return self._answer("ListResourceRecordSetsResponse", self._set(query["name"]))
        return self._change(body)

    def _is_signed(
        self, method: str, path: str, query: dict[str, str], body: bytes, headers: Mapping[str, str]
    ) -> bool:
        now = time.strptime(headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
        own = {name: value for name, value in headers.items() if name == "Content-Type"}
        wanted = sign(
            self.keys, "route53", method, "route53.amazonaws.com", body, own, now, path=path, query=query
        )
        return headers["Authorization"] == wanted["Authorization"]

    def _page(self, start: int) -> str:
        """One zone, and where the next ones begin."""
        rest = f"<NextMarker>{start + 1}</NextMarker>" if start + 1 < len(self.zones) else ""
        return rest + "".join(
            f"<HostedZone><Id>/hostedzone/{id}</Id><Name>{zone}.</Name>"
            f"<Config><PrivateZone>{'true' if zone.startswith('private') else 'false'}</PrivateZone></Config>"
            "</HostedZone>"
            for id, zone in [*self.zones.items()][start : start + 1]
        )

    def _set(self, name: str) -> str:
        ttl, values = self.sets.get(name, ("60", []))
        other = "<ResourceRecordSet><Name>z.</Name><Type>A</Type><TTL>5</TTL></ResourceRecordSet>"
        return _set_xml(name, ttl, values) if values else other

    def _change(self, body: bytes) -> HttpResult:
        changes = [
            (
                each.findtext("{*}Action"),
                each.findtext(".//{*}Name") or "",
                each.findtext(".//{*}TTL") or "",
                [value.text or "" for value in each.iter(f"{{{NAMESPACE}}}Value")],
            )
            for each in ElementTree.fromstring(body).iter(f"{{{NAMESPACE}}}Change")
        ]
        if self.races:
            self.races -= 1
            name = changes[0][1]
            self.sets[name] = ("60", [*self.sets.get(name, ("", []))[1], f'"other {self.races}"'])
        sets = dict(self.sets)
        for action, name, ttl, values in changes:
            if (action == "DELETE" and sets.get(name) != (ttl, values)) or (
                action == "CREATE" and name in sets
            ):
                return self._refuse("InvalidChangeBatch", "but the values provided do not match")
            if action == "DELETE":
                del sets[name]
            else:
                sets[name] = (ttl, values)
        self.sets = sets
        return self._answer(
            "ChangeResourceRecordSetsResponse", "<ChangeInfo><Status>PENDING</Status></ChangeInfo>"
        )

    def _answer(self, tag: str, content: str) -> HttpResult:
        return result(200, f'<?xml version="1.0"?><{tag} xmlns="{NAMESPACE}">{content}</{tag}>'.encode())

    def _refuse(self, code: str, message: str) -> HttpResult:
        error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
        answer = f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}">{error}</ErrorResponse>'
        return result(400 if code.startswith("Invalid") else 403, answer.encode())


def _set_xml(name: str, ttl: str, values: list[str]) -> str:
    records = "".join(f"<ResourceRecord><Value>{value}</Value></ResourceRecord>" for value in values)
    return (
        f"<ResourceRecordSets><ResourceRecordSet><Name>{name}</Name><Type>TXT</Type><TTL>{ttl}</TTL>"
        f"<ResourceRecords>{records}</ResourceRecords></ResourceRecordSet></ResourceRecordSets>"
    )
