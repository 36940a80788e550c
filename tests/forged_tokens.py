"""Tokens that must be refused, and odd ones that must not be, all made from fresh keys.

A case is a name and a recipe: given a `Mint` it makes one token. The honest issuer publishes `Mint.jwks()`.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.mint import (
    ABSENT,
    AUDIENCE,
    ISSUER,
    LEEWAY,
    NOW,
    ORDER,
    Mint,
    as_der,
    b64,
    claims,
    detached,
    doubled,
    ec_sign,
    flattened,
    flipped,
    jwk,
    mirrored,
    mixed,
    nested,
    padded,
    pair,
    pem,
    pss_sign,
    rsa_sign,
    stamp,
    stray_bits,
    unpaired,
)

Recipe = Callable[[Mint], str]


def unsigned(alg: str, signature: bytes) -> Recipe:
    return lambda m: m.token(header={"alg": alg}, sign=lambda _: signature)


UNSIGNED: dict[str, Recipe] = {
    f"alg {alg!r} with {what}": unsigned(alg, signature)
    for alg in ("none", "None", "NONE", "nOnE", "", " none", "none\0")
    for what, signature in (("no signature", b""), ("a signature of junk", b"junk"))
}

CONFUSED: dict[str, Recipe] = {
    "HS256 with the PEM of the RSA key": lambda m: m.shared(pem(m.rsa)),
    "HS256 with that PEM without its last newline": lambda m: m.shared(pem(m.rsa).strip()),
    "HS256 with the PKCS1 PEM of the RSA key": lambda m: m.shared(pem(m.rsa, form=PublicFormat.PKCS1)),
    "HS256 with the DER of the RSA key": lambda m: m.shared(pem(m.rsa, Encoding.DER)),
    "HS384 with the PEM of the RSA key": lambda m: m.shared(pem(m.rsa), "HS384"),
    "HS512 with the PEM of the RSA key": lambda m: m.shared(pem(m.rsa), "HS512"),
    "HS256 with the PEM of the EC key": lambda m: m.shared(pem(m.ec), kid="ec"),
    "HS256 with the JWK as it is published": lambda m: m.shared(json.dumps(m.jwks()["keys"][0]).encode()),
    "HS256 with a secret from the key set": lambda m: m.shared(m.secret, kid="shared"),
    "HS256 with an empty secret": lambda m: m.shared(b""),
    "RS256 with an EC key": lambda m: m.token("rsa", header={"kid": "ec"}),
    "RS256 said of an EC signature": lambda m: m.token("ec", header={"alg": "RS256"}),
    "ES256 with an RSA key": lambda m: m.token("rsa", header={"alg": "ES256"}),
    "ES256 with a P-384 key": lambda m: m.token("p384", header={"alg": "ES256"}, sign=ec_sign(m.p384)),
    "ES384, which is not accepted": lambda m: m.token("p384"),
    "ES256K with a P-256 key": lambda m: m.token("ec", header={"alg": "ES256K"}),
    "PS256, which is not accepted": lambda m: m.token(
        header={"alg": "PS256", "kid": "any RSA"}, sign=pss_sign(m.rsa)
    ),
    "RS256 said of a PS256 signature": lambda m: m.token(header={"kid": "any RSA"}, sign=pss_sign(m.rsa)),
    "RS512, which is not accepted": lambda m: m.token(
        header={"alg": "RS512", "kid": "for RS512"}, sign=rsa_sign(m.rsa, SHA512())
    ),
    "RS256 said of a SHA-512 signature": lambda m: m.token(sign=rsa_sign(m.rsa, SHA512())),
    "RS256 with a key for RS512": lambda m: m.token(header={"kid": "for RS512"}),
    "EdDSA with an EC key": lambda m: m.token("ed", header={"kid": "ec"}),
    "alg in lower case": lambda m: m.token(header={"alg": "rs256"}),
    "alg with a space": lambda m: m.token(header={"alg": "RS256 "}),
    "alg with a zero byte": lambda m: m.token(header={"alg": "RS256\0"}),
    "alg with a full-width digit": lambda m: m.token(header={"alg": "RS25６"}),
    "alg is a list": lambda m: m.token(header={"alg": ["RS256"]}),
    "alg is null": lambda m: m.token(header={"alg": None}),
    "alg is missing": lambda m: m.token(header={"alg": ABSENT}),
}

KEYS: dict[str, Recipe] = {
    "signed by a stranger": lambda m: m.forged(),
    "kid is unknown": lambda m: m.token(header={"kid": "unheard of"}),
    "kid in upper case": lambda m: m.token(header={"kid": "RSA"}),
    "kid of another key": lambda m: m.token("ec", header={"kid": "ed"}),
    "kid is a path": lambda m: m.token(header={"kid": "../../../dev/null"}, sign=lambda _: b"\0"),
    "kid is a number": lambda m: m.token(header={"kid": 0}),
    "kid is null": lambda m: m.token(header={"kid": None}),
    "kid is a list": lambda m: m.token(header={"kid": ["rsa"]}),
    "kid is empty": lambda m: m.token(header={"kid": ""}),
    "no kid, and several keys fit": lambda m: m.token(header={"kid": ABSENT}),
    "a kid that two keys have": lambda m: m.token("ec", header={"kid": "twins"}),
    "the key in the header, kid of the issuer": lambda m: m.forged(jwk=jwk(m.forger)),
    "the key in the header, kid of its own": lambda m: m.forged(
        kid="own", jwk={**jwk(m.forger), "kid": "own"}
    ),
    "the key in the header, no kid": lambda m: m.forged(kid=ABSENT, jwk=jwk(m.forger)),
    "the address of the key in the header": lambda m: m.forged(kid="own", jku="https://evil.example/jwks"),
    "the address of a certificate in the header": lambda m: m.forged(x5u="https://evil.example/cert"),
    "a certificate in the header": lambda m: m.forged(x5c=[m.certificate()]),
    "an RSA key of 1024 bits": lambda m: m.token("small"),
    "a key for encryption": lambda m: m.token(header={"kid": "for encryption"}),
    "a key for wrapping": lambda m: m.token("ec", header={"kid": "for wrapping"}),
    "a private key that was published": lambda m: m.token("ec", header={"kid": "published private key"}),
    "a key of a kind yet to be invented": lambda m: m.token(header={"kid": "of tomorrow"}),
}

SIGNATURES: dict[str, Recipe] = {
    "no signature": lambda m: m.signed_over("rsa", lambda _: b""),
    "a truncated signature": lambda m: m.signed_over("rsa", lambda s: s[:-1]),
    "a signature with one byte more": lambda m: m.signed_over("rsa", lambda s: s + b"\0"),
    "a signature with a zero byte before": lambda m: m.signed_over("rsa", lambda s: b"\0" + s),
    "a signature with one bit flipped": lambda m: m.signed_over("rsa", flipped),
    "an RSA signature of zeros": lambda m: m.signed_over("rsa", lambda s: bytes(len(s))),
    "an RSA signature of one": lambda m: m.signed_over("rsa", lambda s: pair(0, 1, len(s) // 2)),
    "an EC signature with one bit flipped": lambda m: m.signed_over("ec", flipped),
    "an EC signature in DER": lambda m: m.signed_over("ec", as_der),
    "an EC signature of r = s = 0": lambda m: m.signed_over("ec", lambda _: pair(0, 0)),
    "an EC signature of r = s = 0 in DER": lambda m: m.signed_over("ec", lambda _: as_der(pair(0, 0))),
    "an EC signature of r = 0": lambda m: m.signed_over("ec", lambda s: pair(0, unpaired(s)[1])),
    "an EC signature of s = 0": lambda m: m.signed_over("ec", lambda s: pair(unpaired(s)[0], 0)),
    "an EC signature of r = s = the order": lambda m: m.signed_over("ec", lambda _: pair(ORDER, ORDER)),
    "an EC signature of r = s = 1": lambda m: m.signed_over("ec", lambda _: pair(1, 1)),
    "an EC signature of other length": lambda m: m.signed_over("ec", lambda s: pair(*unpaired(s), size=48)),
    "an EC signature with halves swapped": lambda m: m.signed_over("ec", lambda s: s[32:] + s[:32]),
    "an Ed25519 signature of zeros": lambda m: m.signed_over("ed", lambda _: bytes(64)),
    "an Ed25519 signature cut short": lambda m: m.signed_over("ed", lambda s: s[:32]),
    "the signature of another token": lambda m: mixed(m.token(), m.token(sub="eve"), 2),
    "the payload of another token": lambda m: mixed(m.token(), m.token(sub="eve"), 1),
    "the header of another token": lambda m: mixed(m.token(), m.token(header={"typ": "at+jwt"}), 0),
}

HEADERS: dict[str, Recipe] = {
    "crit names an unknown extension": lambda m: m.token(header={"crit": ["exp-1"], "exp-1": True}),
    "crit names what is missing": lambda m: m.token(header={"crit": ["missing"]}),
    "crit names what every token has": lambda m: m.token(header={"crit": ["alg"]}),
    "crit is empty": lambda m: m.token(header={"crit": []}),
    "crit is a string": lambda m: m.token(header={"crit": "alg"}),
    "crit is null": lambda m: m.token(header={"crit": None}),
    "crit is a number": lambda m: m.token(header={"crit": 1}),
    "crit holds a number": lambda m: m.token(header={"crit": [1]}),
    "b64 is false and critical": lambda m: m.token(header={"b64": False, "crit": ["b64"]}),
    "b64 is false": lambda m: m.token(header={"b64": False}),
    "b64 is true": lambda m: m.token(header={"b64": True}),
    "b64 is false and the payload is elsewhere": detached,
    "zip says that the payload is deflated": lambda m: m.token(header={"zip": "DEF"}),
    "a deflated payload": lambda m: m.raw(zlib.compress(json.dumps(claims()).encode()), m.header(zip="DEF")),
    "enc in a signed token": lambda m: m.token(header={"enc": "A256GCM"}),
    "cty says that a token is inside": lambda m: m.token(header={"cty": "JWT"}),
    "a token in a token": lambda m: m.raw(m.token(), m.header(cty="JWT")),
    "typ JOSE": lambda m: m.token(header={"typ": "JOSE"}),
    "typ of a logout token": lambda m: m.token(header={"typ": "logout+jwt"}),
    "typ of a proof of possession": lambda m: m.token(header={"typ": "dpop+jwt"}),
    "typ is empty": lambda m: m.token(header={"typ": ""}),
    "typ is null": lambda m: m.token(header={"typ": None}),
    "typ is a list": lambda m: m.token(header={"typ": ["JWT"]}),
    "alg twice in the header": lambda m: m.raw(header=doubled(m.header(), "alg", "RS256")),
    "alg none before the true alg": lambda m: m.raw(
        header=doubled({"alg": "none", "kid": "rsa"}, "alg", "RS256")
    ),
    "kid twice in the header": lambda m: m.raw(header=doubled(m.header(), "k\\u0069d", "rsa")),
    "the header is a list": lambda m: m.raw(header=[m.header()]),
    "the header is a string": lambda m: m.raw(header='"RS256"'),
    "the header is not JSON": lambda m: m.raw(header="{alg: RS256}"),
    "the header is not UTF-8": lambda m: m.raw(header=b'{"alg": "RS256", "kid": "rsa", "x": "\xff"}'),
    "the header is UTF-16": lambda m: m.raw(header=json.dumps(m.header()).encode("utf-16-le")),
    "the header begins with a byte order mark": lambda m: m.raw(header="\ufeff" + json.dumps(m.header())),
    "the header is followed by more": lambda m: m.raw(header=json.dumps(m.header()) + "{}"),
    "the header holds NaN": lambda m: m.token(header={"x": math.nan}),
}

SHAPES: dict[str, Recipe] = {
    "nothing": lambda m: "",
    "only dots": lambda m: "..",
    "one part": lambda m: m.token().replace(".", ""),
    "two parts": lambda m: m.token().rpartition(".")[0],
    "an empty header": lambda m: "." + m.token().partition(".")[2],
    "an empty payload": lambda m: stamp(m.header(), "", m.keys["rsa"][1]),
    "an empty part at the end": lambda m: m.token() + ".",
    "an empty part at the start": lambda m: "." + m.token(),
    "four parts": lambda m: m.token() + ".AAAA",
    "five parts, as an encrypted token has": lambda m: (
        f"{b64({'alg': 'RSA-OAEP', 'enc': 'A256GCM'})}.AA.AA.AA.AA"
    ),
    "a good token and two parts more": lambda m: m.token() + ".AA.AA",
    "padded base64": lambda m: padded(m.token()),
    "a padded signature": lambda m: m.token() + "==",
    "the alphabet of ordinary base64": lambda m: (
        m.raw(json.dumps(claims(x="???>>>"))).replace("-", "+").replace("_", "/")
    ),
    "stray bits at the end": lambda m: stray_bits(m.token()),
    "a space before": lambda m: " " + m.token(),
    "a space after": lambda m: m.token() + " ",
    "a newline after": lambda m: m.token() + "\n",
    "a tab after": lambda m: m.token() + "\t",
    "a newline in the middle": lambda m: m.token().replace(".", "\r\n.", 1),
    "a space in the payload": lambda m: m.token().replace(".", ". ", 1),
    "a zero byte after": lambda m: m.token() + "\0",
    "a byte order mark before": lambda m: "\ufeff" + m.token(),
    "a zero-width space inside": lambda m: m.token().replace(".", "\u200b.", 1),
    "full-width letters": lambda m: m.token().replace("e", "ｅ", 1),
    "a full-width stop": lambda m: m.token().replace(".", "．", 1),
    "half a surrogate pair": lambda m: m.token() + "\ud800",
    "with the word Bearer": lambda m: "Bearer " + m.token(),
    "two tokens": lambda m: f"{m.token()},{m.token()}",
    "as JSON": lambda m: flattened(m.token()),
    "in quotes": lambda m: f'"{m.token()}"',
    "longer than any token may be": lambda m: m.token(x="x" * 16 * 1024),
    "a million dots": lambda m: "." * 1_000_000,
    "a million letters": lambda m: m.token() + "A" * 1_000_000,
}

PAYLOADS: dict[str, Recipe] = {
    "the payload is a list": lambda m: m.raw([claims()]),
    "the payload is a string": lambda m: m.raw('"ada"'),
    "the payload is a number": lambda m: m.raw("1"),
    "the payload is null": lambda m: m.raw("null"),
    "the payload is not JSON": lambda m: m.raw("sub=ada"),
    "the payload is not UTF-8": lambda m: m.raw(
        json.dumps(claims(sub="a")).encode().replace(b'"a"', b'"\xff"')
    ),
    "the payload is UTF-16": lambda m: m.raw(json.dumps(claims()).encode("utf-16")),
    "the payload is UTF-32": lambda m: m.raw(json.dumps(claims()).encode("utf-32-be")),
    "the payload begins with a byte order mark": lambda m: m.raw("\ufeff" + json.dumps(claims())),
    "the payload is followed by more": lambda m: m.raw(json.dumps(claims()) + " null"),
    "the payload has a comma too many": lambda m: m.raw(json.dumps(claims()).replace("}", ",}")),
    "the payload has a raw newline in a string": lambda m: m.raw(
        json.dumps(claims()).replace("ada", "a\nda")
    ),
    "sub twice": lambda m: m.raw(doubled(claims(sub="eve"), "sub", "ada")),
    "sub twice, once escaped": lambda m: m.raw(doubled(claims(), "s\\u0075b", "eve")),
    "exp twice": lambda m: m.raw(doubled(claims(exp=1), "exp", NOW + 300)),
    "a name twice deep inside": lambda m: m.raw(doubled(claims(), "x", {})[:-3] + '[{"a": 1, "a": 2}]}'),
    "nested too deep": lambda m: m.raw(nested(5_000)),
    "a number of five thousand digits": lambda m: m.raw(doubled(claims(), "x", 0)[:-2] + "9" * 5_000 + "}"),
    "a claim that is NaN": lambda m: m.token(x=math.nan),
    "a claim that is 1e999": lambda m: m.raw(doubled(claims(), "x", 0)[:-2] + "1e999}"),
    "a sub that is half a surrogate pair": lambda m: m.token(sub="\ud800"),
}


def about(name: str, values: dict[str, Any]) -> dict[str, Recipe]:
    return {f"{name} {what}": claiming(name, value) for what, value in values.items()}


def claiming(name: str, value: Any) -> Recipe:
    return lambda m: m.token(**{name: value})


NO_TIME = {
    "is a string": str(NOW),
    "is true": True,
    "is false": False,
    "is null": None,
    "is NaN": math.nan,
    "is infinite": math.inf,
    "is infinitely small": -math.inf,
    "is negative": -1,
    "is a list": [NOW],
    "is an object": {"at": NOW},
    "is after the year 9999": 253_402_300_800,
    "has a hundred digits": 10**100,
}

CLAIMS: dict[str, Recipe] = {
    **about("exp", {"is missing": ABSENT, "has passed": NOW - LEEWAY, "is zero": 0, **NO_TIME}),
    **about("nbf", {"lies ahead": NOW + LEEWAY + 1, **NO_TIME}),
    **about("iat", {"lies ahead": NOW + LEEWAY + 1, **NO_TIME}),
    **about(
        "aud",
        {
            "is missing": ABSENT,
            "is another": "elsewhere",
            "is empty": "",
            "is null": None,
            "is a number": 1,
            "is true": True,
            "is an object": {AUDIENCE: True},
            "is an empty list": [],
            "lists others": ["elsewhere", "nowhere"],
            "is a nested list": [[AUDIENCE]],
            "lists a number as well": [AUDIENCE, 1],
            "lists null as well": [AUDIENCE, None],
            "in upper case": AUDIENCE.upper(),
            "with a slash": AUDIENCE + "/",
            "cut short": AUDIENCE[:-1],
            "with a space": AUDIENCE + " ",
            "lists in one string": f"{AUDIENCE} elsewhere",
            "with a Cyrillic letter": AUDIENCE.replace("a", "а"),
        },
    ),
    **about(
        "iss",
        {
            "is missing": ABSENT,
            "is another": "https://evil.example",
            "is empty": "",
            "is null": None,
            "is a number": 1,
            "is a list": [ISSUER],
            "is an object": {"iss": ISSUER},
            "with a slash": ISSUER + "/",
            "cut short": ISSUER[:-1],
            "with more behind": ISSUER + "2",
            "with another host behind": "https://id.example.com.evil.example/realm",
            "as a part of another": f"https://evil.example/?{ISSUER}",
            "with a user": ISSUER.replace("//", "//evil@"),
            "in upper case": ISSUER.upper(),
            "over http": ISSUER.replace("https", "http"),
            "with the port": ISSUER.replace(".com", ".com:443"),
            "with a space": ISSUER + " ",
            "with a Cyrillic letter": ISSUER.replace("a", "а"),
            "percent-encoded": ISSUER.replace("r", "%72"),
        },
    ),
    **about(
        "sub",
        {
            "is missing": ABSENT,
            "is empty": "",
            "is null": None,
            "is a number": 1,
            "is true": True,
            "is a list": ["ada"],
            "is an object": {"sub": "ada"},
        },
    ),
}

FORGED: dict[str, Recipe] = {
    **UNSIGNED,
    **CONFUSED,
    **KEYS,
    **SIGNATURES,
    **HEADERS,
    **SHAPES,
    **PAYLOADS,
    **CLAIMS,
}

VALID: dict[str, Recipe] = {
    "RS256": lambda m: m.token("rsa"),
    "ES256": lambda m: m.token("ec"),
    "EdDSA": lambda m: m.token("ed"),
    "EdDSA by its newer name": lambda m: m.token("ed", header={"alg": "Ed25519"}),
    "a key that does not name its algorithm": lambda m: m.token(header={"kid": "any RSA"}),
    "without typ": lambda m: m.token(header={"typ": ABSENT}),
    "typ jwt": lambda m: m.token(header={"typ": "jwt"}),
    "typ at+jwt": lambda m: m.token(header={"typ": "at+jwt"}),
    "typ AT+JWT": lambda m: m.token(header={"typ": "AT+JWT"}),
    "typ application/at+jwt": lambda m: m.token(header={"typ": "application/at+jwt"}),
    "more in the header than is known": lambda m: m.token(header={"nonce": "x", "x5t": "y"}),
    "the forger's key in an honest header": lambda m: m.token(header={"jwk": jwk(m.forger)}),
    "the forger's address in an honest header": lambda m: m.token(
        header={"jku": "https://evil.example/jwks"}
    ),
    "the forger's certificate in an honest header": lambda m: m.token(header={"x5c": [m.certificate()]}),
    "the other solution of ECDSA": lambda m: m.signed_over("ec", mirrored),
    "several audiences": lambda m: m.token(aud=["elsewhere", AUDIENCE]),
    "one audience in a list": lambda m: m.token(aud=[AUDIENCE]),
    "times with fractions": lambda m: m.token(exp=NOW + 0.5, nbf=NOW - 0.5, iat=NOW - 0.5),
    "exp within the leeway": lambda m: m.token(exp=NOW - LEEWAY + 1),
    "nbf within the leeway": lambda m: m.token(nbf=NOW + LEEWAY),
    "iat within the leeway": lambda m: m.token(iat=NOW + LEEWAY),
    "neither nbf nor iat": lambda m: m.token(nbf=ABSENT, iat=ABSENT),
    "exp in the year 9999": lambda m: m.token(exp=253_402_300_799),
    "claims of every kind": lambda m: m.token(x=[{"y": None}, True, 1.5, -3, "z"], scope="read write"),
    "a sub in other letters": lambda m: m.token(sub="Адa 🜁 \u0000"),
    "JSON with spaces and escapes": lambda m: m.raw(json.dumps(claims(), indent=4).replace("/", "\\/")),
    "UTF-8 that is not escaped": lambda m: m.raw(json.dumps(claims(sub="Ада"), ensure_ascii=False)),
    "almost too long": lambda m: m.token(x="x" * 11_000),
}
