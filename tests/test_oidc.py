"""What a bearer token must be to get in: every rule, and a second library's opinion of every forged token."""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import assume, given
from hypothesis import strategies as st
from joserfc import jwt as second
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, KeySet
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

from tests.forged_tokens import (
    ABSENT,
    ALGORITHMS,
    AUDIENCE,
    FORGED,
    ISSUER,
    LEEWAY,
    NOW,
    VALID,
    Mint,
    claims,
    doubled,
    ec_sign,
    jwk,
    private_jwk,
    pss_sign,
    rsa_sign,
    stray_bits,
)
from windlass.base.issuer import Signer
from windlass.base.issuer_keys import MAX_DOCUMENT, IssuerUnreachable, TokenRefused
from windlass.base.oidc import MAX_TOKEN, Trusted, Verifier

WELL_KNOWN = "/.well-known/openid-configuration"
JWKS = "https://keys.example.com/jwks"
MINUTE, HOUR = 60, 3600


class Clock:
    """Turned by hand."""

    def __init__(self) -> None:
        self.time: float = NOW

    def __call__(self) -> float:
        return self.time


class Provider:
    """An issuer's two documents. It counts the questions, and can be down, slow or wrong."""

    def __init__(self, jwks: Any, issuer: str = ISSUER) -> None:
        self.jwks = jwks
        self.discovery: Any = {"issuer": issuer, "jwks_uri": JWKS}
        self.asked: list[str] = []
        self.down = False
        self.answering = asyncio.Event()
        self.answering.set()

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        await self.answering.wait()
        if self.down:
            raise OSError("no route to 10.0.0.1")
        found = self.discovery if url.endswith(WELL_KNOWN) else self.jwks
        return found if isinstance(found, bytes) else json.dumps(found).encode()

    @property
    def fetches(self) -> int:
        return sum(url.endswith(WELL_KNOWN) for url in self.asked)


@pytest.fixture(scope="session")
def mint() -> Mint:
    return Mint()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def provider(mint: Mint) -> Provider:
    return Provider(mint.jwks())


@pytest.fixture
def verifier(provider: Provider, clock: Clock) -> Verifier:
    return Verifier([trusted()], provider.fetch, clock)


def trusted(**changes: Any) -> Trusted:
    return Trusted(**{"issuer": ISSUER, "audiences": (AUDIENCE,), "algorithms": ALGORITHMS, **changes})


def knowing(clock: Clock, *keys: dict[str, Any], **changes: Any) -> Verifier:
    """A verifier that was given the keys."""
    return Verifier([trusted(keys={"keys": list(keys)}, **changes)], never, clock)


async def never(url: str) -> bytes:
    raise AssertionError(f"{url} was fetched")


async def accepted(verifier: Verifier, *tokens: str) -> None:
    for token in tokens:
        assert (await verifier.verify(token))["sub"]


async def refused(verifier: Verifier, words: str, *tokens: str) -> None:
    for token in tokens:
        with pytest.raises(TokenRefused, match=words) as caught:
            await verifier.verify(token)
        assert not isinstance(caught.value, IssuerUnreachable)


async def unreachable(verifier: Verifier, token: str) -> IssuerUnreachable:
    with pytest.raises(IssuerUnreachable, match="cannot be reached") as caught:
        await verifier.verify(token)
    return caught.value


# The whole corpus, judged twice

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


@pytest.mark.parametrize("name", VALID)
async def test_a_good_token_is_accepted_by_us_and_by_a_second_library(mint, verifier, name):
    token = VALID[name](mint)
    assert await verifier.verify(token) == second_opinion(mint, token)


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_token_is_refused_by_us_and_by_a_second_library(mint, verifier, provider, name):
    token = FORGED[name](mint)
    with pytest.raises(TokenRefused):
        await verifier.verify(token)
    assert set(provider.asked) <= {ISSUER + WELL_KNOWN, JWKS}
    assert (second_opinion(mint, token) is not None) == (name in STRICTER), STRICTER.get(name)


def test_the_corpus_is_large_and_every_difference_is_named_after_a_case():
    assert len(FORGED) >= 60
    assert len(VALID) >= 8
    assert STRICTER.keys() <= FORGED.keys()


def second_opinion(mint: Mint, token: str) -> dict[str, Any] | None:
    """The claims as joserfc finds them under the same rules, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # of the small key, and of EdDSA by its older name
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


# The token


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
        verifier, "not, or says a name twice", mint.raw(twice), mint.raw("{"), mint.raw(b'{"\xff":1}')
    )
    await refused(verifier, "JSON object", mint.raw([claims()]), mint.raw(header="1"))


async def test_an_algorithm_must_be_accepted_of_that_very_issuer(mint, clock):
    token = mint.token(header={"alg": "PS256"}, sign=pss_sign(mint.rsa))
    await accepted(knowing(clock, {**jwk(mint.rsa), "kid": "rsa"}, algorithms=("PS256",)), token)
    await refused(knowing(clock, {**jwk(mint.rsa), "kid": "rsa"}), "algorithm is not accepted", token)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
async def test_a_curve_serves_its_own_algorithm_only(mint, clock, curve):
    names = {256: "ES256", 384: "ES384", 521: "ES512"}
    key, own = ec.generate_private_key(curve), names.pop(curve.key_size)
    digest = {"ES256": SHA256(), "ES384": SHA384(), "ES512": SHA512()}[own]
    verifier = knowing(clock, {**jwk(key), "kid": "ec"}, algorithms=("ES256", "ES384", "ES512"))
    await accepted(verifier, mint.token("ec", header={"alg": own}, sign=ec_sign(key, digest)))
    for name in names.values():
        await refused(verifier, "no key", mint.token("ec", header={"alg": name}, sign=ec_sign(key, digest)))


async def test_a_key_that_names_its_algorithm_serves_no_other(mint, clock):
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


async def test_the_type_is_jwt_or_at_jwt_in_any_case_or_not_said(mint, verifier):
    await accepted(verifier, *(mint.token(header={"typ": typ}) for typ in ("JWT", "jwt", "at+JWT", ABSENT)))
    for typ in ("JWE", "", None, 1, ["JWT"]):
        await refused(verifier, "typ", mint.token(header={"typ": typ}))


async def test_the_issuer_is_compared_to_the_letter(mint, verifier):
    for issuer in (ISSUER + "/", ISSUER.upper(), ISSUER[:-1], [ISSUER], None):
        await refused(verifier, "issuer is not trusted", mint.token(iss=issuer))


async def test_an_issuer_cannot_speak_for_another_one(mint, clock):
    key = {**jwk(mint.forger), "kid": "rsa"}
    others = trusted(issuer="https://other.example", keys={"keys": [key]})
    verifier = Verifier([trusted(keys=mint.jwks()), others], never, clock)
    await accepted(verifier, mint.token(iss="https://other.example", sign=rsa_sign(mint.forger)))
    await refused(verifier, "signature", mint.forged())


async def test_one_of_the_audiences_must_be_named(mint, clock):
    verifier = Verifier([trusted(audiences=("a", "b"), keys=mint.jwks())], never, clock)
    await accepted(verifier, mint.token(aud="b"), mint.token(aud=["x", "a"]))
    await refused(
        verifier, "another audience", mint.token(aud="c"), mint.token(aud=[]), mint.token(aud=["x"])
    )
    await refused(
        verifier, "neither a string", *(mint.token(aud=aud) for aud in (ABSENT, None, 1, ["a", 1], [["a"]]))
    )


async def test_an_expiry_is_required_and_counts_after_the_leeway(mint, verifier, clock):
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
async def test_a_time_is_a_number(mint, verifier, name):
    for value in (True, str(NOW), None, [NOW], -1, 10**100):
        await refused(verifier, f"{name} is not a time", mint.token(**{name: value}))
    await refused(verifier, "not, or says a name twice", mint.token(**{name: float("nan")}))


async def test_a_subject_is_required(mint, verifier):
    for subject in (ABSENT, "", None, 7):
        await refused(verifier, "no sub", mint.token(sub=subject))


async def test_only_genuine_tokens_learn_which_claim_was_wrong(mint, verifier):
    await refused(verifier, "signature", mint.token(exp=1, aud="x", sub="", sign=lambda message: b"forged"))


# The keys


async def test_keys_not_meant_for_verifying_are_passed_over(mint, clock):
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


async def test_a_published_private_key_is_passed_over(mint, clock):
    for private in (private_jwk(mint.ec), {**jwk(mint.ec), "d": "AAAA"}):
        await refused(knowing(clock, {**private, "kid": "ec"}), "no key", mint.token("ec"))


async def test_malformed_keys_do_not_stand_in_the_way_of_good_ones(mint, clock):
    good = {**jwk(mint.rsa), "kid": "rsa"}
    bad: list[Any] = [None, 1, [], {}, {"kty": []}, {**good, "n": 1}, {**good, "kid": 7}, {**good, "e": "!"}]
    await accepted(knowing(clock, *bad, good), mint.token())


async def test_a_token_without_kid_needs_exactly_one_key_that_fits(mint, clock):
    rsa_key, ec_key = jwk(mint.rsa), jwk(mint.ec)
    token = mint.token("ec", header={"kid": ABSENT})
    await accepted(knowing(clock, rsa_key, ec_key), token)
    await refused(knowing(clock, rsa_key, ec_key, jwk(mint.twin)), "several keys", token)
    await refused(knowing(clock, rsa_key), "no key", token)


async def test_a_kid_must_be_that_of_the_key(mint, clock):
    await refused(knowing(clock, jwk(mint.rsa)), "no key", mint.token(header={"kid": "rsa"}))
    await refused(knowing(clock, jwk(mint.rsa)), "kid is not a string", mint.token(header={"kid": None}))


async def test_keys_that_are_given_are_never_fetched(mint, clock):
    verifier = Verifier([trusted(keys=mint.jwks())], never, clock)
    clock.time += 48 * HOUR
    await accepted(verifier, mint.token(exp=clock.time + 1))
    await refused(verifier, "no key", mint.token(header={"kid": "unheard of"}))


# Where the keys come from


@pytest.mark.parametrize("issuer", ["https://id.example.com", "https://id.example.com/", f"{ISSUER}/"])
async def test_discovery_stands_below_the_issuer_without_its_last_slash(mint, clock, issuer):
    provider = Provider(mint.jwks(), issuer)
    await accepted(Verifier([trusted(issuer=issuer)], provider.fetch, clock), mint.token(iss=issuer))
    assert provider.asked == [issuer.rstrip("/") + WELL_KNOWN, JWKS]


@pytest.mark.parametrize("named", ["https://evil.example", ISSUER + "/", ISSUER.upper(), None, [ISSUER]])
async def test_discovery_must_name_the_very_issuer(mint, verifier, provider, named):
    provider.discovery["issuer"] = named
    failure = await unreachable(verifier, mint.token())
    assert "another issuer" in str(failure.__cause__)
    assert JWKS not in provider.asked


@pytest.mark.parametrize(
    "uri", ["http://keys.example.com/jwks", "file:///etc/passwd", "//x", "", None, ["https://x"]]
)
async def test_keys_come_over_https(mint, verifier, provider, uri):
    provider.discovery["jwks_uri"] = uri
    failure = await unreachable(verifier, mint.token())
    assert "https" in str(failure.__cause__)
    assert len(provider.asked) == 1


async def test_keys_may_come_over_http_from_an_issuer_that_is_itself_on_http(mint, clock):
    issuer = "http://127.0.0.1:4000"
    provider = Provider(mint.jwks(), issuer)
    provider.discovery["jwks_uri"] = f"{issuer}/jwks"
    await accepted(Verifier([trusted(issuer=issuer)], provider.fetch, clock), mint.token(iss=issuer))


BROKEN = [b"", b"<html>", b"[]", b'{"keys": 1}', b'{"keys": [], "keys": []}', b"\xff", b"{}", b"[" * 9999]


@pytest.mark.parametrize("which", ["discovery", "jwks"])
@pytest.mark.parametrize("document", [*BROKEN, b'{"keys": []}'.ljust(MAX_DOCUMENT + 1)], ids=lambda d: d[:20])
async def test_documents_that_are_too_long_or_make_no_sense_are_refused(
    mint, verifier, provider, which, document
):
    setattr(provider, which, document)
    failure = await unreachable(verifier, mint.token())
    assert isinstance(failure.__cause__, TokenRefused)


async def test_a_failure_names_no_host_and_keeps_its_cause(mint, verifier, provider):
    provider.down = True
    failure = await unreachable(verifier, mint.token())
    assert isinstance(failure, TokenRefused)
    assert "10.0.0.1" not in str(failure)
    assert "example" not in str(failure)
    assert isinstance(failure.__cause__, OSError)


async def test_keys_are_fetched_once_an_hour(mint, verifier, provider, clock):
    token = mint.token(exp=NOW + 2 * HOUR)
    for passed, fetches in ((0, 1), (1, 1), (HOUR - 1, 1), (HOUR, 2), (HOUR + MINUTE, 2)):
        clock.time = NOW + passed
        await accepted(verifier, token)
        assert provider.fetches == fetches


async def test_a_new_key_is_found_by_its_unknown_kid(mint, verifier, provider, clock):
    provider.jwks = {"keys": [{**jwk(mint.rsa), "kid": "rsa"}]}
    await accepted(verifier, mint.token())
    clock.time += 30
    provider.jwks = {"keys": [{**jwk(mint.ec), "kid": "ec"}]}
    await accepted(verifier, mint.token("ec"))
    assert provider.fetches == 2
    await refused(verifier, "no key", mint.token())


async def test_garbage_kids_cannot_flood_the_provider(mint, verifier, provider, clock):
    for second_passed in range(120):
        clock.time = NOW + second_passed
        await refused(verifier, "no key", mint.token(header={"kid": f"garbage {second_passed}"}))
    assert provider.fetches == 4


async def test_how_often_keys_are_asked_for_again_can_be_set(mint, provider, clock):
    verifier = Verifier([trusted()], provider.fetch, clock, refetch_every=5)
    for passed in range(10):
        clock.time = NOW + passed
        await refused(verifier, "no key", mint.token(header={"kid": "garbage"}))
    assert provider.fetches == 2


async def test_a_provider_that_is_down_is_not_asked_all_the_time_either(mint, verifier, provider, clock):
    provider.down = True
    for passed in range(60):
        clock.time = NOW + passed
        await unreachable(verifier, mint.token())
    assert provider.fetches == 2
    provider.down, clock.time = False, NOW + 60
    await accepted(verifier, mint.token())


async def test_one_issuers_troubles_are_not_anothers(mint, clock):
    down, up = Provider(mint.jwks()), Provider(mint.jwks(), "https://up.example")
    down.down = True

    async def fetch(url: str) -> bytes:
        return await (up if url in ("https://up.example" + WELL_KNOWN, JWKS) else down).fetch(url)

    verifier = Verifier([trusted(), trusted(issuer="https://up.example")], fetch, clock)
    await unreachable(verifier, mint.token())
    await accepted(verifier, mint.token(iss="https://up.example"))


async def test_waiting_callers_share_one_fetch(mint, verifier, provider):
    provider.answering.clear()
    waiting = [asyncio.create_task(verifier.verify(mint.token())) for _ in range(20)]
    await asyncio.sleep(0)
    provider.answering.set()
    assert len(await asyncio.gather(*waiting)) == 20
    assert provider.asked == [ISSUER + WELL_KNOWN, JWKS]


async def test_callers_waiting_for_newer_keys_share_one_fetch(mint, verifier, provider, clock):
    await accepted(verifier, mint.token())
    clock.time += HOUR
    provider.answering.clear()
    provider.jwks = {"keys": []}
    waiting = [asyncio.create_task(verifier.verify(mint.token(exp=NOW + 2 * HOUR))) for _ in range(5)]
    await asyncio.sleep(0)
    provider.answering.set()
    judged = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, TokenRefused) for each in judged)
    assert provider.fetches == 2


async def test_a_fetch_that_takes_long_is_not_begun_again(mint, verifier, provider, clock):
    provider.answering.clear()
    early = asyncio.create_task(verifier.verify(mint.token()))
    await asyncio.sleep(0)
    clock.time += 5 * MINUTE
    late = asyncio.create_task(verifier.verify(mint.token()))
    await asyncio.sleep(0)
    provider.answering.set()
    assert await early == await late
    assert provider.fetches == 1


async def test_a_cancelled_caller_does_not_cancel_the_fetch_for_others(mint, verifier, provider):
    provider.answering.clear()
    impatient = asyncio.create_task(verifier.verify(mint.token()))
    patient = asyncio.create_task(verifier.verify(mint.token()))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    provider.answering.set()
    assert (await patient)["sub"] == "ada"
    assert impatient.cancelled()
    assert provider.fetches == 1


async def test_old_keys_serve_for_a_day_while_the_provider_is_down(mint, verifier, provider, clock):
    token = mint.token(exp=NOW + 48 * HOUR)
    await accepted(verifier, token)
    provider.down = True
    for passed in (HOUR, 5 * HOUR, 24 * HOUR - 1):
        clock.time = NOW + passed
        await accepted(verifier, token)
    await refused(verifier, "no key", mint.token(header={"kid": "unheard of"}))
    clock.time = NOW + 24 * HOUR
    await unreachable(verifier, token)
    provider.down, clock.time = False, clock.time + MINUTE
    await accepted(verifier, token)


async def test_a_key_that_the_issuer_took_back_serves_no_longer_than_an_hour(mint, verifier, provider, clock):
    token = mint.token(exp=NOW + 2 * HOUR)
    await accepted(verifier, token)
    provider.jwks = {"keys": []}
    clock.time += HOUR
    await refused(verifier, "no key", token)


async def test_a_clock_that_is_turned_back_does_not_stop_the_fetching(mint, verifier, provider, clock):
    clock.time = NOW + 48 * HOUR
    await accepted(verifier, mint.token(exp=clock.time + 1))
    clock.time = NOW
    provider.jwks = {"keys": [{**jwk(mint.ec), "kid": "new"}]}
    await accepted(verifier, mint.token("ec", header={"kid": "new"}))


# What may be trusted at all


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithms": ("none",)},
        {"algorithms": ("RS256", "HS256")},
        {"algorithms": ("rs256",)},
        {"algorithms": ()},
        {"audiences": ()},
        {"audiences": ("windlass", "")},
        {"issuer": "id.example.com"},
        {"issuer": "ftp://id.example.com"},
        {"issuer": "https://id.example.com?tenant=1"},
        {"issuer": "https://"},
    ],
)
def test_trust_that_makes_no_sense_is_refused_at_the_start(changes):
    with pytest.raises(ValueError, match=r"algorithms must be|name the audiences|an issuer is"):
        trusted(**changes)


def test_keys_that_are_given_must_be_a_key_set(clock):
    with pytest.raises(TokenRefused, match="no list of keys"):
        Verifier([trusted(keys={})], never, clock)


def test_an_issuer_is_trusted_once(clock):
    with pytest.raises(ValueError, match="twice"):
        Verifier([trusted(), trusted(audiences=("other",))], never, clock)


# Whatever comes, it is refused and nothing else happens


def refused_at_once(verifier: Verifier, token: str) -> None:
    """Without an event loop, for nothing is to be waited for."""
    with pytest.raises(TokenRefused):
        verifier.verify(token).send(None)


@given(st.text() | st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*=?"))
def test_no_text_does_more_than_be_refused(text):
    refused_at_once(Verifier([trusted()], never, Clock()), text)


@given(st.sampled_from(["rsa", "ec", "ed"]), st.integers(0, 300), st.characters())
def test_no_change_of_one_character_leaves_a_token_good(mint, key, at, other):
    token = mint.token(key)
    changed = token[:at] + other + token[at + 1 :]
    assume(changed != token)
    refused_at_once(Verifier([trusted(keys=mint.jwks())], never, Clock()), changed)


MEMBERS = ["kty", "crv", "kid", "use", "key_ops", "alg", "n", "e", "x", "y", "d", "p"]
VALUES: st.SearchStrategy[Any] = (
    st.none() | st.integers() | st.text(max_size=9) | st.lists(st.text(max_size=9)) | st.just({})
)


@given(st.sampled_from(["rsa", "ec", "ed"]), st.dictionaries(st.sampled_from(MEMBERS), VALUES))
def test_no_key_does_more_than_not_fit(mint, kind, changes):
    good = next(key for key in mint.jwks()["keys"] if key["kid"] == kind)
    refused_at_once(knowing(Clock(), changes, {**good, "kid": "rsa", **changes}), mint.forged())


# The issuer of our own


@pytest.fixture
def signer(clock: Clock) -> Signer:
    return Signer("https://windlass.example", Signer.new_key(), clock)


def trusting(signer: Signer, clock: Clock) -> Verifier:
    own = Trusted(issuer=signer.issuer, audiences=(AUDIENCE,), algorithms=("ES256",), keys=signer.jwks())
    return Verifier([own], never, clock)


async def test_a_signed_token_verifies_without_http_until_it_expires(signer, clock):
    verifier = trusting(signer, clock)
    token = signer.sign({"sub": "ada", "aud": AUDIENCE, "role": "admin"}, ttl=60)
    found = await verifier.verify(token)
    assert (found["sub"], found["role"], found["iss"]) == ("ada", "admin", signer.issuer)
    assert (found["iat"], found["nbf"], found["exp"]) == (NOW, NOW, NOW + 60)
    clock.time += 60 + LEEWAY
    await refused(verifier, "expired", token)


async def test_times_are_whole_seconds_and_never_later_than_asked(signer, clock):
    clock.time = NOW + 0.75
    found = await trusting(signer, clock).verify(signer.sign({"sub": "ada", "aud": AUDIENCE}, ttl=10.1))
    assert (found["iat"], found["nbf"], found["exp"]) == (NOW, NOW, NOW + 10)


async def test_no_two_tokens_have_the_same_id(signer):
    tokens = [second.decode(signer.sign({}, 60), published(signer)).claims["jti"] for _ in range(3)]
    assert len(set(tokens)) == 3


async def test_a_verifier_elsewhere_finds_the_keys_by_discovery(signer, clock):
    provider = Provider(signer.jwks())
    provider.discovery = signer.discovery()
    verifier = Verifier([Trusted(issuer=signer.issuer, audiences=(AUDIENCE,))], provider.fetch, clock)
    await accepted(verifier, signer.sign({"sub": "ada", "aud": [AUDIENCE]}, 60))
    assert provider.asked == [signer.issuer + WELL_KNOWN, signer.discovery()["jwks_uri"]]


async def test_a_token_of_another_key_under_the_same_name_is_refused(signer, clock):
    other = Signer(signer.issuer, Signer.new_key(), clock)
    await refused(trusting(signer, clock), "no key", other.sign({"sub": "ada", "aud": AUDIENCE}, 60))


def test_a_second_library_reads_the_token_and_names_the_key_alike(signer):
    read = second.decode(signer.sign({"sub": "ada"}, 60), published(signer))
    assert read.claims["sub"] == "ada"
    assert read.header == {"alg": "ES256", "typ": "JWT", "kid": signer.kid}
    assert ECKey.import_key(signer.jwks()["keys"][0]).thumbprint() == signer.kid


def test_the_same_key_has_the_same_name_after_a_restart(clock):
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


def test_an_issuer_with_a_slash_has_its_keys_below_it_once(clock):
    found = Signer("https://windlass.example/", Signer.new_key(), clock).discovery()
    assert found["jwks_uri"] == "https://windlass.example/.well-known/jwks.json"


@pytest.mark.parametrize("name", ["iss", "iat", "nbf", "exp", "jti"])
def test_callers_cannot_set_the_claims_that_the_issuer_sets(signer, name):
    with pytest.raises(ValueError, match=name):
        signer.sign({"sub": "ada", name: 1}, 60)


@pytest.mark.parametrize(
    "key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())]
)
def test_a_key_of_another_kind_does_not_sign(clock, key):
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="P-256"):
        Signer("https://windlass.example", pem, clock)


def published(signer: Signer) -> KeySet:
    return KeySet.import_key_set(signer.jwks())  # type: ignore[arg-type]
