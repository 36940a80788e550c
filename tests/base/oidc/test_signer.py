"""Windlass is an issuer itself: it signs tokens of sessions, and publishes its key."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt as second
from joserfc.jwk import ECKey

from tests.base.oidc.provider import WELL_KNOWN, Clock, Provider, accepted, never, published, refused
from tests.mint import AUDIENCE, LEEWAY, NOW
from windlass.base.issuer import Signer
from windlass.base.oidc import TokenIssuer, Verifier


def trusting(signer: Signer, clock: Clock) -> Verifier:
    own = TokenIssuer(issuer=signer.issuer, audiences=(AUDIENCE,), algorithms=("ES256",), keys=signer.jwks())
    return Verifier([own], never, clock)


async def test_a_signed_token_verifies_without_http_until_it_expires(signer, clock):
    verifier = trusting(signer, clock)
    token = signer.sign({"sub": "ada", "aud": AUDIENCE, "role": "admin"}, ttl=60)
    found = await verifier.verify(token)
    assert (found["sub"], found["role"], found["iss"]) == ("ada", "admin", signer.issuer)
    assert (found["iat"], found["nbf"], found["exp"]) == (NOW, NOW, NOW + 60)
    clock.time += 60 + LEEWAY
    await refused(verifier, "expired", token)


async def test_iat_nbf_and_exp_are_whole_seconds_rounded_down(signer, clock):
    clock.time = NOW + 0.75
    found = await trusting(signer, clock).verify(signer.sign({"sub": "ada", "aud": AUDIENCE}, ttl=10.1))
    assert (found["iat"], found["nbf"], found["exp"]) == (NOW, NOW, NOW + 10)


async def test_each_signed_token_has_a_unique_jti(signer):
    tokens = [second.decode(signer.sign({}, 60), published(signer)).claims["jti"] for _ in range(3)]
    assert len(set(tokens)) == 3


async def test_a_verifier_elsewhere_finds_the_keys_by_discovery(signer, clock):
    provider = Provider(signer.jwks())
    provider.discovery = signer.discovery()
    verifier = Verifier([TokenIssuer(issuer=signer.issuer, audiences=(AUDIENCE,))], provider.fetch, clock)
    await accepted(verifier, signer.sign({"sub": "ada", "aud": [AUDIENCE]}, 60))
    assert provider.asked == [signer.issuer + WELL_KNOWN, signer.discovery()["jwks_uri"]]


async def test_a_token_of_another_key_under_the_same_name_is_refused(signer, clock):
    other = Signer(signer.issuer, Signer.new_key(), clock)
    await refused(trusting(signer, clock), "no key", other.sign({"sub": "ada", "aud": AUDIENCE}, 60))


def test_a_second_library_verifies_a_signed_token_and_computes_the_same_kid(signer):
    read = second.decode(signer.sign({"sub": "ada"}, 60), published(signer))
    assert read.claims["sub"] == "ada"
    assert read.header == {"alg": "ES256", "typ": "JWT", "kid": signer.kid}
    assert ECKey.import_key(signer.jwks()["keys"][0]).thumbprint() == signer.kid


def test_the_kid_depends_only_on_the_key(clock):
    pem = Signer.new_key()
    assert pem.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert Signer("https://a.example", pem, clock).kid == Signer("https://b.example", pem, clock).kid
    assert pem != Signer.new_key()


def test_only_the_public_half_is_published(signer):
    (key,) = signer.jwks()["keys"]
    assert key.keys() == {"kty", "crv", "x", "y", "kid", "use", "alg"}


def test_the_discovery_document_says_what_is_required_and_true(signer):
    found = signer.discovery()
    assert found["issuer"] == signer.issuer
    assert found["jwks_uri"] == "https://windlass.example/.well-known/jwks.json"
    assert found["id_token_signing_alg_values_supported"] == ["ES256"]
    assert found["response_types_supported"]
    assert found["subject_types_supported"]
    assert not [name for name in found if name.endswith("_endpoint")]
    given = second.decode(signer.sign({"sub": "ada", "aud": AUDIENCE}, 60), published(signer)).claims
    assert set(given) == set(found["claims_supported"])


def test_the_jwks_uri_of_an_issuer_with_a_trailing_slash_has_no_double_slash(clock):
    found = Signer("https://windlass.example/", Signer.new_key(), clock).discovery()
    assert found["jwks_uri"] == "https://windlass.example/.well-known/jwks.json"


@pytest.mark.parametrize("name", ["iss", "iat", "nbf", "exp", "jti"])
def test_callers_cannot_set_the_claims_that_the_issuer_sets(signer, name):
    with pytest.raises(ValueError, match=name):
        signer.sign({"sub": "ada", name: 1}, 60)


@pytest.mark.parametrize(
    "key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())]
)
def test_a_signing_key_that_is_not_p_256_is_refused(clock, key):
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="P-256"):
        Signer("https://windlass.example", pem, clock)
