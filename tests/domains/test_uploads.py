"""A user uploads a certificate for a domain, in place of one of an authority."""

from __future__ import annotations

import datetime
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.domains.scene import scene
from tests.domains.served import SHOP, add, hosts, published, read
from windlass.base.certificates import read_certificate
from windlass.base.uploaded_certificates import check_upload
from windlass.control.services import domain_certificates

DAY = 86_400


@pytest.fixture
async def there(database_url):
    async with scene(database_url) as there:
        yield there


class Uploads:
    """A domain, and the certificates that a user makes for it."""

    def __init__(self, there, app, id):
        self.there, self.world, self.app, self.id = there, there.world, app, id
        self.path = f"/application/{app}/customDomain/{id}"
        self.pem = new_key()

    def chain(self, name=SHOP, key=None):
        return self.there.authority.issue(name, (key or self.pem)[0].public_key())

    async def upload(self, chain=None, key=None, **options):
        body = {"chain": chain or self.chain(), "key": (key or self.pem)[1]}
        return await self.world.post(f"{self.path}/uploadCertificate", body, **options)

    async def remove(self):
        return await self.world.post(f"{self.path}/removeCertificate")

    async def read(self):
        return await read(self.world, self.app, self.id)


def new_key():
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key, pem.decode()


@pytest.fixture
async def proved(there):
    app, id = await there.proved(generate_certificate=False)
    await there.pass_time(10)
    return Uploads(there, app, id)


async def test_an_uploaded_certificate_is_served_and_no_other_is_ordered(there):
    there.authority.is_away = True
    proved = Uploads(there, *await there.proved())
    await there.pass_time(10)
    there.authority.is_away = False
    answer = await proved.upload()
    assert (answer.status, answer["certificate_origin"], answer["certificate_state"]) == (
        200,
        "UPLOADED",
        "LIVE",
    )
    await there.pass_time(2 * DAY, 3600)
    assert not there.authority.orders
    held = (await there.held())[proved.id]
    assert (held.names, read_certificate(held.chain.decode(), held.key).names) == ((SHOP,), (SHOP,))


async def test_the_key_is_sealed_and_in_no_answer_and_no_event(proved):
    await proved.upload()
    world, reads = proved.world, proved.world.installation.ctx.store.reads
    row = await reads.certificates.get(proved.id)
    events = await world.events()
    shown = (await world.get(f"{proved.path}/certificate")).body
    for text in (row.sealed, shown, (await world.get(proved.path)).body, *(event.body for event in events)):
        assert b"PRIVATE KEY" not in bytes(text)
        assert proved.pem[1].splitlines()[1].encode() not in bytes(text)
    assert b'"origin":"UPLOADED"' in shown.replace(b" ", b"")
    assert events[-1].kind == "UPDATE"


async def test_only_a_proved_domain_takes_a_certificate(there):
    app = await published(there.world)
    claim = Uploads(there, app, (await add(there.world, app))["id"])
    assert (await claim.upload()).status == 409
    assert not await there.held()


async def test_what_browsers_would_refuse_is_refused_with_the_reason(proved):
    other, authority = new_key(), proved.there.authority
    leaf, root = proved.chain().split("-----END CERTIFICATE-----\n")[:2]
    end = "-----END CERTIFICATE-----\n"
    authority.days = 0.02
    expired = proved.chain()
    authority.days = 90
    for chain, key, words in (
        (proved.chain("other.example.com"), None, "other.example.com"),
        (proved.chain(), other, "is of another"),
        (f"{root}{end}{leaf}{end}", None, "is of another"),
        (f"{leaf}{end}{leaf}{end}", None, "in order"),
        (expired, None, "has ended"),
        ("no certificate", None, "in PEM"),
        ("x" * 70_000, None, ""),
    ):
        answer = await proved.upload(chain, key)
        assert answer.status == 400
        assert words in answer.message
    assert not await proved.there.held()


async def test_a_key_that_takes_long_to_check_is_refused_before(proved):
    assert (await proved.upload(key=(None, "x" * 5000))).status == 400


async def test_an_upload_is_checked_beside_the_event_loop(proved, monkeypatch):
    threads = []

    def check(*words):
        threads.append(threading.current_thread())
        return check_upload(*words)

    monkeypatch.setattr(domain_certificates, "check_upload", check)
    assert (await proved.upload()).status == 200
    assert threads
    assert threading.main_thread() not in threads


async def test_what_the_gateway_would_refuse_is_refused_with_the_reason_of_openssl(proved):
    weak = rsa.generate_private_key(65537, 1024)  # OpenSSL wants 2048 bits of each key of a chain
    answer = await proved.upload(chain_of(weak, proved.pem[0].public_key()))
    assert answer.status == 400
    assert "CA_KEY_TOO_SMALL" in answer.message
    assert not await proved.there.held()


async def test_a_certificate_with_an_unreadable_extension_is_refused(proved):
    broken = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, b"no DER")
    answer = await proved.upload(chain_of(new_key()[0], proved.pem[0].public_key(), broken))
    assert answer.status == 400
    assert "cannot be read" in answer.message


def chain_of(authority, public, names=None):
    """The chain of a certificate for the shop, signed by this key."""
    above = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority")])
    now = datetime.datetime.now(datetime.UTC)

    def signed(key, subject, what):
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(above)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=900))
            .not_valid_after(now + datetime.timedelta(days=900))
            .add_extension(what, critical=False)
            .sign(authority, hashes.SHA256())
        )
        return made.public_bytes(Encoding.PEM).decode()

    names = names or x509.SubjectAlternativeName([x509.DNSName(SHOP)])
    root = signed(authority.public_key(), above, x509.BasicConstraints(ca=True, path_length=0))
    return signed(public, x509.Name([]), names) + root


async def test_whoever_may_only_read_uploads_nothing(proved):
    token = await proved.world.new_token("Read")
    assert (await proved.upload(token=token)).status == 403


async def test_its_end_is_warned_of_21_and_7_days_before(proved):
    proved.there.authority.days = 30
    await proved.upload()
    problems = []
    for days in (5, 5, 14, 7):
        await proved.there.pass_time(days * DAY, 6 * 3600)
        document = await proved.read()
        problems.append(document["problem"])
    assert problems[0] == ""
    assert "within 21 days" in problems[1]
    assert "within 7 days" in problems[2]
    assert "has ended" in problems[3]
    assert document["certificate_state"] == "FAILED"


async def test_a_removed_one_is_served_until_that_of_the_authority_is_there(there):
    proved = Uploads(there, *await there.proved())
    await there.pass_time(10)
    await proved.upload()
    first = (await there.held())[proved.id]
    there.authority.is_away = True
    assert (await proved.remove()).status == 200
    await there.pass_time(10)
    assert (await there.held())[proved.id] == first
    there.authority.is_away = False
    await there.pass_time(300, 20)
    assert (await there.held())[proved.id].chain != first.chain
    document = await proved.read()
    assert (document["certificate_origin"], document["certificate_state"]) == ("ACME", "LIVE")
    assert (await proved.remove()).status == 409


async def test_without_an_authority_a_removed_one_is_gone_at_once(proved):
    await proved.upload()
    await proved.remove()
    assert not await proved.there.held()
    document = await proved.read()
    assert (document["certificate_state"], document["certificate_origin"]) == ("NONE", "")


async def test_an_order_under_way_does_not_replace_an_uploaded_one(there):
    there.authority.slow = 3
    proved = Uploads(there, *await there.proved())
    await there.pass_time(4)
    await proved.upload()
    first = (await there.held())[proved.id]
    await there.pass_time(60)
    assert (await there.held())[proved.id] == first


async def test_it_outlives_the_switch_and_not_another_name(proved):
    await proved.upload()
    for wanted in (True, False):
        await proved.world.patch(proved.path, {"generate_certificate": wanted})
        await proved.there.pass_time(10)
        assert (await proved.read())["certificate_origin"] == "UPLOADED"
    await proved.world.patch(proved.path, {"domain": "new.example.com"})
    assert not await proved.there.held()


async def test_visitors_are_told_the_address_with_https(proved):
    assert SHOP in await hosts(proved.world, proved.app)
    await proved.upload()
    await proved.world.settle()
    links = await proved.world.get(f"/application/{proved.app}/link")
    assert any(f"https://{SHOP}" in link["url"] for link in links["results"])
