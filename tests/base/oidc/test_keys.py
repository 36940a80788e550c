"""A key must be fit to verify the token, and trust must be declared sensibly."""

from __future__ import annotations

from typing import Any

from tests.base.oidc.provider import HOUR, accepted, knowing, never, refused, trusted
from tests.mint import ABSENT, jwk, private_jwk
from windlass.base.oidc import Verifier


async def test_keys_that_are_not_for_verifying_are_skipped(mint, clock):
    good = {**jwk(mint.rsa), "kid": "rsa"}
    await accepted(knowing(clock, {**good, "use": "sig", "key_ops": ["verify", "sign"]}), mint.token())
    changes: list[dict[str, Any]] = [
        {"use": "enc"},
        {"use": "tls"},
        *({"key_ops": ops} for ops in (["sign"], [], "verify")),
    ]
    for change in changes:
        await refused(knowing(clock, {**good, **change}), "no key", mint.token())


async def test_an_rsa_key_needs_2048_bits(mint, clock):
    await refused(knowing(clock, {**jwk(mint.small), "kid": "small"}), "no key", mint.token("small"))


async def test_a_published_private_key_is_skipped(mint, clock):
    for private in (private_jwk(mint.ec), {**jwk(mint.ec), "d": "AAAA"}):
        await refused(knowing(clock, {**private, "kid": "ec"}), "no key", mint.token("ec"))


async def test_malformed_keys_in_a_key_set_do_not_affect_valid_keys(mint, clock):
    good = {**jwk(mint.rsa), "kid": "rsa"}
    bad: list[Any] = [None, 1, [], {}, {"kty": []}, {**good, "n": 1}, {**good, "kid": 7}, {**good, "e": "!"}]
    await accepted(knowing(clock, *bad, good), mint.token())


async def test_a_token_without_kid_needs_exactly_one_key_that_fits(mint, clock):
    rsa_key, ec_key = jwk(mint.rsa), jwk(mint.ec)
    token = mint.token("ec", header={"kid": ABSENT})
    await accepted(knowing(clock, rsa_key, ec_key), token)
    await refused(knowing(clock, rsa_key, ec_key, jwk(mint.twin)), "several keys", token)
    await refused(knowing(clock, rsa_key), "no key", token)


async def test_the_kid_of_a_token_must_match_the_key(mint, clock):
    await refused(knowing(clock, jwk(mint.rsa)), "no key", mint.token(header={"kid": "rsa"}))
    await refused(knowing(clock, jwk(mint.rsa)), "kid is not a string", mint.token(header={"kid": None}))


async def test_configured_keys_are_never_fetched_or_refreshed(mint, clock):
    verifier = Verifier([trusted(keys=mint.jwks())], never, clock)
    clock.time += 48 * HOUR
    await accepted(verifier, mint.token(exp=clock.time + 1))
    await refused(verifier, "no key", mint.token(header={"kid": "unheard of"}))
