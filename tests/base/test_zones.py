"""TXT records are written at each provider of zones, beside those of others, and removed alone."""

from __future__ import annotations

import contextlib
import stat
import time
from collections.abc import Awaitable
from types import SimpleNamespace

import pytest

from tests.fakes.name_server import name_server
from tests.fakes.zones import FakeCloudflare, FakeRoute53
from windlass.base.aws_signing import AccessKeys, sign
from windlass.base.dns import DnsClient
from windlass.base.dns.messages import BadMessage
from windlass.base.dns.updates import check_answer, parse_key, sign_message, write_update
from windlass.base.zones import hook
from windlass.base.zones.names import ZONE_PROVIDERS
from windlass.base.zones.provider import BadZoneSetting, ZoneAccess, ZoneFailure, open_provider

NAME, VALUE = "_acme-challenge.apps.example.com", "9LY4r0R4wYzk"
SECRET = "c2VjcmV0LW9mLXRoZS1rZXktMTIzNDU2Nzg5MA=="
KEY = f"acme.example.com:{SECRET}"
AWS = AccessKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1")


class Nowhere:
    async def send(self, *_, **__):
        raise AssertionError("nothing is sent")


def access(**given):
    empty = {"credentials": "", "server": "", "command": "", "domain": "apps.example.com"}
    return ZoneAccess(**{**empty, "out": Nowhere(), "dns": DnsClient(), **given})


@contextlib.asynccontextmanager
async def opened(provider: str, tmp_path):
    """A provider with the zone example.com, a function that tells its texts, and one that breaks its
    credentials."""
    match provider:
        case "cloudflare":
            fake = FakeCloudflare("token of the zone", "example.com", "other.example")
            given = access(credentials="token of the zone", out=fake)
            yield given, fake.texts, access(credentials="another token", out=fake)
        case "route53":
            aws = FakeRoute53(AWS, "private.example.com", "example.com")
            wrong = access(credentials=f"{AWS.id}:another", out=aws)
            yield access(credentials=f"{AWS.id}:{AWS.secret}", out=aws), aws.texts, wrong
        case "rfc2136":
            async with name_server() as server:
                server.key = parse_key(KEY).name, parse_key(KEY).secret
                server.serve_zone("example.com")
                given = access(credentials=KEY, server=server.address)
                yield given, server.texts, access(credentials="acme.example.com:AAAA", server=server.address)
        case "hook":
            file, records = tmp_path / "set-record", tmp_path / "records"
            file.write_text(
                "#!/bin/sh\n"
                '[ "$DNS_CREDENTIALS" = right ] || { echo "wrong credentials" >&2; exit 3; }\n'
                f'touch {records}; grep -vxF "$2 $3" {records} > {records}.new\n'
                f'[ "$1" = remove ] || echo "$2 $3" >> {records}.new; mv {records}.new {records}\n'
            )
            file.chmod(file.stat().st_mode | stat.S_IXUSR)

            def texts(name):
                lines = records.read_text().splitlines() if records.exists() else []
                return [line.split()[1] for line in lines if line.split()[0] == name]

            yield access(credentials="right", command=str(file)), texts, access(command=str(file))


@pytest.mark.parametrize("provider", ZONE_PROVIDERS)
async def test_a_record_is_added_beside_others_and_removed_alone(provider, tmp_path):
    async with opened(provider, tmp_path) as (given, texts, wrong):
        zones = open_provider(provider, given)
        assert await zones.zone_of(NAME) in {"example.com", "apps.example.com"}
        assert await zones.zone_of("_acme-challenge.example.org") == ""
        assert await zones.check(NAME) in {"example.com", "apps.example.com"}
        with pytest.raises(ZoneFailure):
            await zones.check("_acme-challenge.example.org")
        assert texts(NAME) == [], "a check changes nothing"
        await zones.add(NAME, "of-another")
        for _ in range(2):
            await zones.add(NAME, VALUE)
        assert sorted(texts(NAME)) == sorted(["of-another", VALUE])
        for _ in range(2):
            await zones.remove(NAME, VALUE)
        assert texts(NAME) == ["of-another"]
        await zones.remove(NAME, "of-another")
        assert texts(NAME) == []
        refusing = open_provider(provider, wrong)
        tries: list[Awaitable[object]] = [refusing.add(NAME, VALUE)]
        tries += [refusing.check(NAME)] if provider != "hook" else []
        for attempt in tries:
            with pytest.raises(ZoneFailure) as failure:
                await attempt
            assert texts(NAME) == []
            credentials = (given.credentials, wrong.credentials, SECRET, AWS.secret)
            assert not any(secret in str(failure.value) for secret in credentials if secret)


async def test_names_outside_of_all_zones_cost_the_provider_one_list_a_minute():
    """Users add domains as they like, and the provider limits the requests of the operator."""
    fake = FakeCloudflare("token", *(f"zone{number}.example" for number in range(120)))
    zones = open_provider("cloudflare", access(credentials="token", out=fake))
    for number in range(50):
        assert await zones.zone_of(f"_acme-challenge.shop{number}.example.org") == ""
    assert await zones.zone_of("www.zone119.example") == "zone119.example"
    assert fake.listed == 3


async def test_a_provider_that_fails_is_asked_once_a_minute_and_has_not_no_zone(monkeypatch):
    now = 10_000.0
    monkeypatch.setattr("windlass.base.zones.provider.time", SimpleNamespace(monotonic=lambda: now))
    fake, requests = FakeCloudflare("token", "example.com"), 0

    class Counted:
        async def send(self, *given, **options):
            nonlocal requests
            requests += 1
            return await fake.send(*given, **options)

    zones = open_provider("cloudflare", access(credentials="token", out=Counted()))
    fake.problem = 10000, "Please wait"
    for _ in range(5):
        with pytest.raises(ZoneFailure, match="Please wait"):
            await zones.zone_of(NAME)
    assert requests == 1
    fake.problem = None
    now += 60
    assert await zones.zone_of(NAME) == "example.com"
    fake.problem = 10000, "Please wait"
    now += 600
    assert await zones.zone_of(NAME) == "example.com"
    with pytest.raises(ZoneFailure, match="Please wait"):
        await zones.zone_of("_acme-challenge.example.org")


async def test_a_name_server_that_also_answers_for_others_has_only_its_own_zones():
    async with name_server() as server:
        server.key = parse_key(KEY).name, parse_key(KEY).secret
        for zone in ("example.com", "apps.example.com", "example.org"):
            server.serve_zone(zone)
        server.foreign = {"apps.example.com", "example.org"}
        server.set("www.example.com", ("CNAME", "example.com"))
        zones = open_provider("rfc2136", access(credentials=KEY, server=server.address))
        assert await zones.zone_of("_acme-challenge.example.org") == ""
        assert await zones.zone_of(NAME) == "example.com"
        assert await zones.zone_of("www.example.com") == "example.com", "an alias of a zone is none"


async def test_two_servers_that_change_one_name_at_route_53_lose_no_record():
    aws = FakeRoute53(AWS, "example.com")
    zones = open_provider("route53", access(credentials=f"{AWS.id}:{AWS.secret}", out=aws))
    aws.races = 2
    await zones.add(NAME, VALUE)
    assert sorted(aws.texts(NAME)) == ["9LY4r0R4wYzk", "other 0", "other 1"]


@pytest.mark.parametrize("provider", ["cloudflare", "route53"])
async def test_an_answer_that_is_no_answer_of_a_provider_is_a_failure(provider):
    class Strange:
        async def send(self, *_, **__):
            from windlass.base.http_out import HttpResult

            return HttpResult(502, {}, b"<html>bad gateway", cut=False, milliseconds=1)

    zones = open_provider(provider, access(credentials="id:secret", out=Strange()))
    with pytest.raises(ZoneFailure, match="502"):
        await zones.add(NAME, VALUE)


async def test_a_hook_that_does_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(hook, "CALL_TIMEOUT", 0.3)
    zones = open_provider("hook", access(command="/bin/sh -c 'sleep 60 & sleep 60'"))
    with pytest.raises(ZoneFailure, match="does not end"):
        await zones.add(NAME, VALUE)


@pytest.mark.parametrize(
    ("provider", "given", "setting"),
    [
        ("cloudflare", {}, "dns_credentials"),
        ("route53", {"credentials": "only-an-id"}, "dns_credentials"),
        ("rfc2136", {"server": "ns1.example.com", "credentials": KEY}, "dns_update_server"),
        ("rfc2136", {"server": "192.0.2.53", "credentials": "acme:not Base64!"}, "dns_credentials"),
        ("hook", {"command": "set-record"}, "dns_hook"),
    ],
)
def test_a_setting_that_a_provider_cannot_use_is_named(provider, given, setting):
    with pytest.raises(BadZoneSetting, match=f"^{setting}: "):
        open_provider(provider, access(**given))


UNSIGNED = (
    "123428000001000000010000076578616d706c6503636f6d00000600010f5f61636d652d6368616c6c656e67650461707073c00c001"
    "000010000003c000d0c394c59347230523477597a6b"
)
MAC = "2c61ac83f8ac7fccce7594b4b51563612511a6612fbe87745cf3896fa24b58b3"
ANSWER = (
    "1234a8000001000000000001076578616d706c6503636f6d00000600010461636d65c00c00fa00ff00000000003d0b686d61632d7368"
    "613235360000006ab13b80012c0020216eae4470917f193aeb72cafcffb981df2e9cdd8665d2bcb5a0d48ea5df769a123400000000"
)


def test_signatures_of_updates_are_those_of_another_implementation():
    """An update and its answer as dnspython 2.8 writes them at the same second."""
    key = parse_key(KEY)
    assert sign_message(bytes.fromhex(UNSIGNED), key, 1_790_000_000)[1].hex() == MAC
    assert check_answer(bytes.fromhex(ANSWER), 0x1234, key, bytes.fromhex(MAC)) == ""


def test_an_answer_to_an_update_counts_only_with_the_signature_of_the_key():
    key, mac, answer = parse_key(KEY), bytes.fromhex(MAC), bytes.fromhex(ANSWER)
    unsigned = answer[:10] + b"\0\0" + answer[12:29]
    for changed, id, request in (
        (answer[:-17] + b"\xff" + answer[-16:], 0x1234, mac),
        (answer, 0x1235, mac),
        (answer, 0x1234, mac[:-1] + b"\0"),
        (unsigned, 0x1234, mac),
    ):
        with pytest.raises(BadMessage):
            check_answer(changed, id, key, request)
    refused = unsigned[:3] + b"\x05" + unsigned[4:]
    assert "policy" in check_answer(refused, 0x1234, key, mac)
    for length in range(len(answer)):
        with contextlib.suppress(BadMessage):
            check_answer(answer[:length], 0x1234, key, mac)


def test_an_update_that_removes_names_one_record_and_not_all():
    added, removed = (write_update(1, "example.com", NAME, VALUE, ttl) for ttl in (60, None))
    assert added.endswith(b"\0\x10\0\1\0\0\0\x3c\0\x0d\x0c9LY4r0R4wYzk")
    assert removed.endswith(b"\0\x10\0\xfe\0\0\0\0\0\x0d\x0c9LY4r0R4wYzk")


def test_a_request_with_a_query_is_signed_as_in_the_example_of_aws():
    """The case get-vanilla-query-order-key-case of its published test suite."""
    now = time.strptime("20150830T123600Z", "%Y%m%dT%H%M%SZ")
    query = {"Param2": "value2", "Param1": "value1"}
    headers = sign(AWS, "service", "GET", "example.amazonaws.com", b"", {}, now, query=query)
    signature = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
    assert headers["Authorization"].endswith(f"Signature={signature}")
