"""Which certificate a host name gets, and challenges over HTTP."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.free_ports import free_port
from tests.gateway.routers.issuing import issue, pem_of
from tests.gateway.routers.town import SHOP, Town, request
from windlass.routers.builtin.certificates import CertificateTable, MemoryStore, covers
from windlass.routers.router import Certificate, Challenge, Listen, RouteError

PATH = "/.well-known/acme-challenge/abc"


@pytest.fixture
def table() -> CertificateTable:
    return CertificateTable(MemoryStore())


def test_exact_names_win_over_wildcards(table: CertificateTable) -> None:
    table.put("wildcard", issue("*.example.com"))
    table.put("exact", issue("shop.example.com"))
    assert table.find("shop.example.com") == "exact"
    assert table.find("other.example.com") == "wildcard"
    assert table.find("example.com") is None
    assert table.find("a.b.example.com") is None
    assert table.find("") is None


def test_the_newest_valid_certificate_of_a_name_wins(table: CertificateTable) -> None:
    table.put("old", issue("shop.example.com", begins=-5))
    table.put("new", issue("shop.example.com", begins=-1))
    table.put("expired", issue("shop.example.com", begins=-0.5, ends=-0.1))
    table.put("future", issue("shop.example.com", begins=1))
    assert table.find("shop.example.com") == "new"
    table.drop("new")
    assert table.find("shop.example.com") == "old"


def test_an_expired_exact_certificate_loses_to_a_valid_wildcard(table: CertificateTable) -> None:
    table.put("exact", issue("shop.example.com", begins=-5, ends=-1))
    assert table.find("shop.example.com") == "exact", "better than none: the client sees the reason"
    assert not table.is_live("shop.example.com")
    table.put("wildcard", issue("*.example.com"))
    assert table.find("shop.example.com") == "wildcard"
    assert table.is_live("shop.example.com")


def test_a_certificate_replaces_the_one_with_the_same_id(table: CertificateTable) -> None:
    table.put("a", issue("one.example.com", "two.example.com"))
    second = issue("two.example.com")
    table.put("a", second)
    assert table.find("one.example.com") is None
    assert table.read("a") == second
    leaf = second.chain.decode().partition("-----END CERTIFICATE-----")
    der = ssl.PEM_cert_to_DER_cert(leaf[0] + leaf[1])
    assert table.digests() == {"a": hashlib.sha256(der).hexdigest()}
    table.drop("a")
    table.drop("a")
    assert table.digests() == {}
    assert table.find("two.example.com") is None


def unusable() -> Iterator[Certificate]:
    good = issue("shop.example.com")
    other = pem_of(ec.generate_private_key(ec.SECP256R1()))
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    yield Certificate(good.names, good.chain, other)
    yield Certificate(good.names, good.chain, encrypted)
    yield Certificate(good.names, good.chain, b"")
    yield Certificate(good.names, b"", good.key)
    yield Certificate(good.names, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", good.key)


@pytest.mark.parametrize("number", range(5))
def test_an_unusable_certificate_is_refused_and_the_former_stays(
    table: CertificateTable, number: int
) -> None:
    former = issue("shop.example.com")
    table.put("a", former)
    with pytest.raises(RouteError, match=r"^replace the certificate for shop\.example\.com, or its key"):
        table.put("a", list(unusable())[number])
    assert table.read("a") == former
    assert table.find("shop.example.com") == "a"


def test_a_wildcard_covers_one_label() -> None:
    assert covers(("*.example.com",), "shop.example.com")
    assert not covers(("*.example.com",), "example.com")
    assert not covers(("*.example.com",), "a.shop.example.com")
    assert covers(("example.com",), "example.com")


def test_the_representation_of_a_certificate_has_no_key() -> None:
    assert repr(issue("shop.example.com")) == "Certificate(names=('shop.example.com',))"
    assert "PRIVATE" not in f"{Challenge('shop.example.com', certificate=issue('shop.example.com'))}"


def test_a_certificate_that_cannot_be_stored_is_served_from_memory() -> None:
    class FullStore(MemoryStore):
        def write(self, name: str, content: bytes) -> None:
            raise OSError(28, "No space left on device")

    table = CertificateTable(FullStore())
    certificate = issue("shop.example.com")
    table.put("a", certificate)
    assert table.read("a") == certificate


async def test_an_http_challenge_is_answered_before_any_route(town: Town) -> None:
    shop = await town.instance()
    await town.shop(shop)
    await town.router.put_challenge("c", Challenge(SHOP, PATH, b"abc.thumbprint"))
    said = await town.ask(request(PATH))
    assert (said.status, said.body) == (200, b"abc.thumbprint")
    assert not shop.heard
    head = await town.caller()
    said = await head.ask(request(PATH, "HEAD"), head_only=True)
    assert said.fields["content-length"] == "14"
    assert (
        await head.ask(request(f"{PATH}?a=b", "GET", SHOP, "Accept: text/html"))
    ).body == b"abc.thumbprint"
    assert (await head.ask(request())).body == b"one", "the connection goes on"


async def test_challenges_of_other_hosts_and_paths_go_to_the_service(town: Town) -> None:
    """An application may answer challenges of its own."""
    await town.shop(await town.instance())
    await town.router.put_challenge("c", Challenge("other.localhost", PATH, b"x"))
    assert (await town.ask(request(PATH))).body == b"one"
    await town.router.put_challenge("d", Challenge(SHOP, f"{PATH}-2", b"x"))
    assert (await town.ask(request(PATH))).body == b"one"
    await town.router.put_challenge("e", Challenge(SHOP, PATH, b"x"))
    assert (await town.ask(request(PATH))).body == b"x"
    await town.router.drop_challenge("e")
    assert (await town.ask(request(PATH))).body == b"one"


async def test_a_challenge_is_answered_for_a_host_without_service(town: Town) -> None:
    await town.router.put_challenge("c", Challenge("new.example.com", PATH, b"x"))
    assert (await town.ask(request(PATH, "GET", "new.example.com"))).body == b"x"
    assert (await town.ask(request("/", "GET", "new.example.com"))).status == 404


async def test_external_ports_answer_no_challenges(town: Town) -> None:
    port = free_port()
    await town.router.reserve("shop", [Listen(port)])
    await town.shop(await town.instance(), external=port)
    await town.router.put_challenge("c", Challenge(SHOP, PATH, b"x"))
    caller = await town.caller(port)
    assert (await caller.ask(request(PATH))).body == b"one"
