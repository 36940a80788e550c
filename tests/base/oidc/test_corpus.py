"""Every case of the corpus of tokens is judged by Windlass and by a second library."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from joserfc import jwt as second
from joserfc.errors import SecurityWarning
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

from tests.base.oidc.provider import JWKS, WELL_KNOWN, Provider, trusted
from tests.forged_tokens import FORGED, VALID
from tests.mint import ALGORITHMS, AUDIENCE, ISSUER, LEEWAY, NOW, Mint
from tests.tables import rows
from windlass.base.issuer_keys import TokenRefused
from windlass.base.oidc import MAX_TOKEN, Verifier

TWICE = "RFC 7515 and 7519 let a reader refuse a repeated name, and two readers may take different ones"

ENCODED = "RFC 8259: JSON between systems is UTF-8 without a byte order mark"

NO_NUMBER = "JSON has no such number"

NO_DATE = "no date is meant, and a datetime made from it would fail"

ENCRYPTED = "it says how a JWE is to be read; in a JWS it can only be a mistake or a trick"

STRICTER = {
    "crit is empty": "RFC 7515: the list must not be empty",
    "crit names what every token has": "RFC 7515: names of the standard must not be in it",
    "b64 is true": "nothing of RFC 7797 is understood here, so nothing of it is read",
    "zip says that the payload is deflated": ENCRYPTED,
    "enc in a signed token": ENCRYPTED,
    "cty says that a token is inside": "a nested token is not judged by its wrapping",
    "a kid that two keys have": "joserfc takes the first; which is meant cannot be known",
    "an RSA key of 1024 bits": "joserfc only warns",
    "a private key that was published": "everybody can sign with it",
    "alg twice in the header": TWICE,
    "alg none before the true alg": TWICE,
    "kid twice in the header": TWICE,
    "sub twice": TWICE,
    "sub twice, once escaped": TWICE,
    "exp twice": TWICE,
    "a name twice deep inside": TWICE,
    "the header is UTF-16": ENCODED,
    "the header begins with a byte order mark": ENCODED,
    "the payload is UTF-16": ENCODED,
    "the payload is UTF-32": ENCODED,
    "the payload begins with a byte order mark": ENCODED,
    "a sub that is half a surrogate pair": "it is no text, and cannot be stored as such",
    "the header holds NaN": NO_NUMBER,
    "a claim that is NaN": NO_NUMBER,
    "a claim that is 1e999": NO_NUMBER,
    "exp is after the year 9999": NO_DATE,
    "exp has a hundred digits": NO_DATE,
    "nbf is negative": NO_DATE,
    "iat is negative": NO_DATE,
}


@rows("name", VALID)
async def test_a_good_token_is_accepted_by_us_and_by_a_second_library(mint, clock, name):
    verifier = Verifier([trusted()], Provider(mint.jwks()).fetch, clock)
    token = VALID[name](mint)
    assert await verifier.verify(token) == second_opinion(mint, token)


@rows("name", FORGED)
async def test_a_forged_token_is_refused_by_us_and_by_a_second_library(mint, clock, name):
    provider = Provider(mint.jwks())
    verifier = Verifier([trusted()], provider.fetch, clock)  # of its own: it remembers keys and refusals
    token = FORGED[name](mint)
    with pytest.raises(TokenRefused):
        await verifier.verify(token)
    assert set(provider.asked) <= {ISSUER + WELL_KNOWN, JWKS}
    assert (second_opinion(mint, token) is not None) == (name in STRICTER), STRICTER.get(name)


def test_the_token_corpus_is_large_and_lists_each_difference_from_the_second_library():
    assert len(FORGED) >= 60
    assert len(VALID) >= 8
    assert STRICTER.keys() <= FORGED.keys()


def second_opinion(mint: Mint, token: str) -> dict[str, Any] | None:
    """The claims as joserfc finds them under the same rules, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # the small key, and EdDSA by its older name
        try:
            keys = KeySet.import_key_set(mint.jwks())  # type: ignore[arg-type]
            found = second.decode(token, keys, registry=Registry()).claims
            RULES.validate(found)
        except Exception:  # noqa: BLE001 - a refusal, however it is put
            return None
    return found


class Registry(JWSRegistry):
    max_header_length = max_payload_length = max_signature_length = MAX_TOKEN

    def __init__(self) -> None:
        rule = HeaderParameter("Type", of_known_type)
        super().__init__({"typ": rule}, ALGORITHMS, strict_check_header=False)


def of_known_type(typ: Any) -> None:
    if not isinstance(typ, str) or typ.lower() not in ("jwt", "at+jwt", "application/at+jwt"):
        raise ValueError("is of another type")


RULES = second.JWTClaimsRegistry(
    now=NOW,
    leeway=LEEWAY,
    iss={"essential": True, "value": ISSUER},
    aud={"essential": True, "values": [AUDIENCE]},
    sub={"essential": True},
    exp={"essential": True},
)
