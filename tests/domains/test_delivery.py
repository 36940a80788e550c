"""One certificate that cannot be served does not keep the gateway from the others."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from tests.domains.scene import scene
from windlass.base.certificates import challenge_certificate
from windlass.base.encryption import CannotDecrypt
from windlass.routers.builtin.certificates import CertificateTable, MemoryStore
from windlass.routers.router import Certificate, Challenge, RouteError

NAMES = ("a.example.com", "b.example.com", "c.example.com")


@pytest.fixture
async def there(database_url):
    async with scene(database_url) as there:
        yield there


async def ordered(there):
    """The ids of three domains, in the order in which their certificates are handed over."""
    for name in NAMES:
        await there.proved(name=name)
    await there.pass_time(20)
    assert len(await there.held()) == 3
    return [*await there.world.installation.ctx.store.reads.certificates.fingerprints()]


async def test_a_certificate_that_the_gateway_refuses_does_not_stop_the_next_ones(there, monkeypatch):
    first, *others = await ordered(there)
    router = there.world.router
    old = dict(router.held_certificates)
    for id in others:
        del router.held_certificates[id]
    router.held_certificates[first] = old[others[0]]  # a former certificate of the same domain
    put, refused = router.put_certificate, []

    async def refuse(id, certificate):
        if id == first:
            refused.append(id)
            raise RouteError("TLS does not take it")
        await put(id, certificate)

    monkeypatch.setattr(router, "put_certificate", refuse)
    held = await there.held()
    assert {id: held[id] for id in others} == {id: old[id] for id in others}
    await there.held()
    assert refused == [first]


async def test_a_key_that_cannot_be_decrypted_does_not_stop_the_next_certificates(there, monkeypatch):
    first, *others = await ordered(there)
    there.world.router.held_certificates.clear()
    encryption = there.world.installation.ctx.encryption
    plain = type(encryption).decrypt

    def decrypt(self, sealed, *owner):
        if first in owner:
            raise CannotDecrypt("another key")
        return plain(self, sealed, *owner)

    monkeypatch.setattr(type(encryption), "decrypt", decrypt)
    assert set(await there.held()) == set(others)


async def test_a_gateway_that_does_not_answer_is_asked_again(there, monkeypatch):
    """The control: nothing is taken for refused then."""
    await ordered(there)
    router = there.world.router
    router.held_certificates.clear()

    async def fail(*_):
        raise RouteError("the gateway does not answer")

    async def nothing():
        monkeypatch.setattr(router, "certificates", fail)
        return {}

    with monkeypatch.context() as broken:
        broken.setattr(router, "put_certificate", fail)
        broken.setattr(router, "certificates", nothing)
        with pytest.raises(RouteError):
            await there.world.installation.certificates.deliver_changes()
    monkeypatch.undo()
    assert len(await there.held()) == 3


async def test_a_challenge_is_handed_over_once(there, monkeypatch):
    there.authority.slow = 10**6
    await there.proved()
    await there.pass_time(10)
    router, put, told = there.world.router, there.world.router.put_challenge, []

    async def count(id, challenge):
        told.append(challenge)
        await put(id, challenge)

    monkeypatch.setattr(router, "put_challenge", count)
    delivery = there.world.installation.certificates
    for _ in range(3):
        await delivery.deliver_changes()
    assert len(told) <= 1
    store = there.world.installation.ctx.store
    (order,) = await store.reads.certificates.challenges()
    await store.write(lambda tx: tx.certificates.set_order(replace(order, answer="another")))
    told.clear()
    for _ in range(3):
        await delivery.deliver_changes()
    assert [challenge.answer for challenge in told] == [b"another"]


async def test_challenges_of_an_earlier_server_are_withdrawn(there):
    router = there.world.router
    left = Challenge("old.example.com", "/.well-known/acme-challenge/x", b"x")
    await router.put_challenge("acme of an earlier server", left)
    there.authority.slow = 10**6
    await there.proved()
    await there.pass_time(4)
    await there.world.installation.certificates.deliver_changes()
    assert {challenge.host for challenge in router.held_challenges.values()} == {"shop.example.com"}


def test_a_challenge_that_is_answered_already_is_not_written_again():
    table = CertificateTable(store := CountingStore())
    for answer in (b"one", b"one", b"two", b"two"):
        table.put_challenge("acme", Challenge("shop.example.com", "/path", answer))
    assert store.writes == 2
    assert table.http_answers == {(b"shop.example.com", b"/path"): b"two"}
    assert table.answers() == {"acme": 0}
    assert [table.answer_http(b"shop.example.com", path) for path in (b"/path", b"/other")] == [b"two", None]
    assert table.answers() == {"acme": 1}


def test_a_check_never_takes_the_place_of_a_challenge_of_an_authority():
    table, certificates = CertificateTable(MemoryStore()), {}
    for id in ("check 1", "acme", "check 2"):
        chain, key = challenge_certificate("shop.example.com", id.encode(), round(time.time() * 1000))
        certificates[id] = Certificate(("shop.example.com",), chain.encode(), key)
        table.put_challenge(id, Challenge("shop.example.com", certificate=certificates[id]))
    assert table.challenge_certificate("shop.example.com") == certificates["acme"]
    table.drop_challenge("acme")
    assert table.challenge_certificate("shop.example.com") == certificates["check 2"]


class CountingStore(MemoryStore):
    writes = 0

    def write(self, name: str, content: bytes) -> None:
        self.writes += 1
        super().write(name, content)
