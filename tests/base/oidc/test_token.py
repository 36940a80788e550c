"""A token must have the right form, signature, issuer, audience and times."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

from tests.base.oidc.provider import JWKS, WELL_KNOWN, accepted, knowing, never, refused, trusted
from tests.mint import (
    ABSENT,
    ISSUER,
    LEEWAY,
    NOW,
    claims,
    doubled,
    ec_sign,
    jwk,
    pss_sign,
    rsa_sign,
    stray_bits,
)
from windlass.base.oidc import Verifier


async def test_a_token_over_16_kib_is_refused_before_anything_is_read(mint, verifier, provider):
    token = mint.token(x="x" * 13_000)
    assert len(token) > 16 * 1024
    await refused(verifier, "longer than 16384", token)
    assert provider.asked == []


async def test_a_token_has_exactly_three_parts(mint, verifier):
    for parts in (mint.token().split(".")[:2], ["a"] * 4, ["a"] * 5):
        await refused(verifier, "three parts", ".".join(parts))


async def test_each_part_is_canonical_base64url_without_padding_or_white_space(mint, verifier):
    good = mint.token()
    odd = [good + "=", good + "\n", " " + good, "." + good.partition(".")[2], stray_bits(good)]
    await refused(verifier, "not base64url", *odd)


async def test_header_and_payload_are_json_objects_in_utf8_with_every_name_once(mint, verifier):
    twice = doubled(claims(), "sub", "eve")
    await refused(
        verifier,
        "this is not JSON, or repeats a name",
        mint.raw(twice),
        mint.raw("{"),
        mint.raw(b'{"\xff":1}'),
    )
    await refused(verifier, "JSON object", mint.raw([claims()]), mint.raw(header="1"))


async def test_an_algorithm_must_be_accepted_of_that_very_issuer(mint, clock):
    token = mint.token(header={"alg": "PS256"}, sign=pss_sign(mint.rsa))
    await accepted(knowing(clock, {**jwk(mint.rsa), "kid": "rsa"}, algorithms=("PS256",)), token)
    await refused(knowing(clock, {**jwk(mint.rsa), "kid": "rsa"}), "algorithm is not accepted", token)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
async def test_an_ec_key_is_accepted_only_for_the_algorithm_of_its_curve(mint, clock, curve):
    names = {256: "ES256", 384: "ES384", 521: "ES512"}
    key, own = ec.generate_private_key(curve), names.pop(curve.key_size)
    digest = {"ES256": SHA256(), "ES384": SHA384(), "ES512": SHA512()}[own]
    verifier = knowing(clock, {**jwk(key), "kid": "ec"}, algorithms=("ES256", "ES384", "ES512"))
    await accepted(verifier, mint.token("ec", header={"alg": own}, sign=ec_sign(key, digest)))
    for name in names.values():
        await refused(verifier, "no key", mint.token("ec", header={"alg": name}, sign=ec_sign(key, digest)))


async def test_a_key_with_an_alg_is_accepted_only_for_that_algorithm(mint, clock):
    key = {**jwk(mint.rsa), "kid": "rsa"}
    await accepted(knowing(clock, {**key, "alg": "RS256"}), mint.token())
    await refused(knowing(clock, {**key, "alg": "RS384"}), "no key", mint.token())


CRITS: list[Any] = [[], ["exp"], [7], "exp", None, {}]


async def test_extensions_are_refused_also_when_their_list_is_empty_or_malformed(mint, verifier):
    for crit in CRITS:
        await refused(verifier, "crit", mint.token(header={"crit": crit}))
    await refused(verifier, "b64", *(mint.token(header={"b64": value}) for value in (True, False)))


async def test_nested_and_encrypted_tokens_are_refused(mint, verifier):
    for name in ("cty", "enc", "zip"):
        await refused(verifier, name, mint.token(header={name: "JWT"}))


async def test_a_key_that_the_token_brings_along_is_neither_trusted_nor_fetched(mint, verifier, provider):
    key, address = {**jwk(mint.forger), "kid": "own"}, "https://evil.example/"
    brought = {"jwk": key, "jku": address, "x5u": address, "x5c": [mint.certificate()]}
    await refused(verifier, "no key", mint.forged(kid="own", **brought))
    await refused(verifier, "signature", mint.forged(**brought))
    assert set(provider.asked) == {ISSUER + WELL_KNOWN, JWKS}


async def test_a_token_whose_typ_header_is_neither_jwt_nor_at_jwt_nor_missing_is_refused(mint, verifier):
    await accepted(verifier, *(mint.token(header={"typ": typ}) for typ in ("JWT", "jwt", "at+JWT", ABSENT)))
    for typ in ("JWE", "", None, 1, ["JWT"]):
        await refused(verifier, "typ", mint.token(header={"typ": typ}))


async def test_the_issuer_is_compared_to_the_letter(mint, verifier):
    for issuer in (ISSUER + "/", ISSUER.upper(), ISSUER[:-1], [ISSUER], None):
        await refused(verifier, "issuer is not trusted", mint.token(iss=issuer))


async def test_an_issuer_cannot_sign_tokens_for_another(mint, clock):
    key = {**jwk(mint.forger), "kid": "rsa"}
    others = trusted(issuer="https://other.example", keys={"keys": [key]})
    verifier = Verifier([trusted(keys=mint.jwks()), others], never, clock)
    await accepted(verifier, mint.token(iss="https://other.example", sign=rsa_sign(mint.forger)))
    await refused(verifier, "signature", mint.forged())


async def test_a_token_must_name_at_least_one_of_the_trusted_audiences(mint, clock):
    verifier = Verifier([trusted(audiences=("a", "b"), keys=mint.jwks())], never, clock)
    await accepted(verifier, mint.token(aud="b"), mint.token(aud=["x", "a"]))
    await refused(
        verifier, "another audience", mint.token(aud="c"), mint.token(aud=[]), mint.token(aud=["x"])
    )
    await refused(
        verifier, "neither a string", *(mint.token(aud=aud) for aud in (ABSENT, None, 1, ["a", 1], [["a"]]))
    )


async def test_exp_is_required_and_expires_after_the_leeway(mint, verifier, clock):
    token = mint.token(exp=NOW + 300)
    clock.time = NOW + 300 + LEEWAY - 0.001
    await accepted(verifier, token)
    clock.time = NOW + 300 + LEEWAY
    await refused(verifier, "expired", token)
    await refused(verifier, "no exp", mint.token(exp=ABSENT))


@pytest.mark.parametrize("name", ["nbf", "iat"])
async def test_a_token_from_the_future_is_refused_beyond_the_leeway(mint, verifier, name):
    await accepted(verifier, mint.token(**{name: NOW + LEEWAY}), mint.token(**{name: ABSENT}))
    await refused(verifier, "not valid yet|in the future", mint.token(**{name: NOW + LEEWAY + 0.001}))


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
async def test_exp_nbf_and_iat_must_be_numbers(mint, verifier, name):
    for value in (True, str(NOW), None, [NOW], -1, 10**100):
        await refused(verifier, f"{name} is not a time", mint.token(**{name: value}))
    await refused(verifier, "this is not JSON, or repeats a name", mint.token(**{name: float("nan")}))


async def test_a_token_without_a_subject_is_refused(mint, verifier):
    for subject in (ABSENT, "", None, 7):
        await refused(verifier, "no sub", mint.token(sub=subject))


async def test_a_token_with_an_invalid_signature_is_refused_before_its_claims_are_checked(mint, verifier):
    await refused(verifier, "signature", mint.token(exp=1, aud="x", sub="", sign=lambda message: b"forged"))
