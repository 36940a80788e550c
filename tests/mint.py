"""Keys of an honest issuer and of a forger, and a press that stamps anything into a token."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://id.example.com/realm"
AUDIENCE = "windlass"
ALGORITHMS = ("RS256", "ES256", "EdDSA", "Ed25519")
NOW = 1_800_000_000
LEEWAY = 30
ABSENT = object()

Sign = Callable[[bytes], bytes]


class Mint:
    """An honest issuer's keys, a forger's key, and a press that stamps anything into a token."""

    def __init__(self) -> None:
        self.rsa, self.forger = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        self.small = rsa.generate_private_key(65537, 1024)
        self.ec, self.twin = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self.p384 = ec.generate_private_key(ec.SECP384R1())
        self.ed = ed25519.Ed25519PrivateKey.generate()
        self.secret = b"a shared secret has no place in a public key set"
        self.keys: dict[str, tuple[str, Sign]] = {
            "rsa": ("RS256", rsa_sign(self.rsa)),
            "ec": ("ES256", ec_sign(self.ec)),
            "ed": ("EdDSA", self.ed.sign),
            "p384": ("ES384", ec_sign(self.p384, SHA384())),
            "small": ("RS256", rsa_sign(self.small)),
        }

    def jwks(self) -> dict[str, Any]:
        """Returns the keys of the honest issuer: some good ones, and a collection of faulty ones."""
        rsa_jwk, ec_jwk = jwk(self.rsa), jwk(self.ec)
        keys = {
            "rsa": {**rsa_jwk, "use": "sig", "alg": "RS256"},
            "ec": {**ec_jwk, "use": "sig", "alg": "ES256", "key_ops": ["verify"]},
            "ed": jwk(self.ed),
            "p384": jwk(self.p384),
            "any RSA": rsa_jwk,
            "for RS512": {**rsa_jwk, "alg": "RS512"},
            "for encryption": {**rsa_jwk, "use": "enc"},
            "for wrapping": {**ec_jwk, "key_ops": ["wrapKey"]},
            "small": jwk(self.small),
            "published private key": private_jwk(self.ec),
            "shared": {"kty": "oct", "k": b64(self.secret)},
            "of tomorrow": {"kty": "LMS", "pub": "AAAA"},
        }
        twins = [{**ec_jwk, "kid": "twins"}, {**jwk(self.twin), "kid": "twins"}]
        return {"keys": [{**key, "kid": kid} for kid, key in keys.items()] + twins}

    def token(self, by: str = "rsa", /, *, header: Any = (), sign: Sign | None = None, **changes: Any) -> str:
        """A good token but for the changes in header and claims; `ABSENT` takes one away."""
        return stamp(self.header(by, **dict(header)), claims(**changes), sign or self.keys[by][1])

    def header(self, by: str = "rsa", /, **changes: Any) -> dict[str, Any]:
        return present({"alg": self.keys[by][0], "kid": by, "typ": "JWT", **changes})

    def raw(self, payload: Any = None, header: Any = None) -> str:
        """Genuinely signed, whatever header and payload are."""
        return stamp(header or self.header(), claims() if payload is None else payload, self.keys["rsa"][1])

    def signed_over(self, by: str, change: Callable[[bytes], bytes]) -> str:
        """A good token, but its signature changed."""
        return self.token(by, sign=lambda message: change(self.keys[by][1](message)))

    def shared(self, secret: bytes, alg: str = "HS256", kid: str = "rsa") -> str:
        digest = alg.replace("HS", "sha")
        return self.token(
            header={"alg": alg, "kid": kid}, sign=lambda said: hmac.digest(secret, said, digest)
        )

    def forged(self, **header: Any) -> str:
        return self.token(header=header, sign=rsa_sign(self.forger))

    def certificate(self) -> str:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "id.example.com")])
        start, end = datetime(2000, 1, 1, tzinfo=UTC), datetime(2049, 1, 1, tzinfo=UTC)
        made = x509.CertificateBuilder(name, name, self.forger.public_key(), 1, start, end)
        return base64.b64encode(made.sign(self.forger, SHA256()).public_bytes(Encoding.DER)).decode()


def claims(**changes: Any) -> dict[str, Any]:
    good = {"iss": ISSUER, "sub": "ada", "aud": AUDIENCE, "iat": NOW, "nbf": NOW, "exp": NOW + 300}
    return present({**good, **changes})


def present(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not ABSENT}


def stamp(header: Any, payload: Any, sign: Sign) -> str:
    message = f"{b64(header)}.{b64(payload)}"
    return f"{message}.{b64(sign(message.encode()))}"


def b64(content: Any) -> str:
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    raw = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def jwk(key: Any) -> dict[str, Any]:
    """The public half, with nothing said about its use."""
    reader: Any = {"RSA": RSAAlgorithm, "ECP": ECAlgorithm}.get(type(key).__name__[:3], OKPAlgorithm)
    found: dict[str, Any] = reader.to_jwk(key.public_key(), as_dict=True)
    found.pop("key_ops", None)
    return found


def private_jwk(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    return ECAlgorithm.to_jwk(key, as_dict=True)


def rsa_sign(key: rsa.RSAPrivateKey, digest: HashAlgorithm | None = None) -> Sign:
    return lambda message: key.sign(message, padding.PKCS1v15(), digest or SHA256())


def pss_sign(key: rsa.RSAPrivateKey) -> Sign:
    return lambda message: key.sign(message, padding.PSS(padding.MGF1(SHA256()), 32), SHA256())


def ec_sign(key: ec.EllipticCurvePrivateKey, digest: HashAlgorithm | None = None) -> Sign:
    def sign(message: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(message, ec.ECDSA(digest or SHA256())))
        return pair(r, s, (key.key_size + 7) // 8)

    return sign


def pair(r: int, s: int, size: int = 32) -> bytes:
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def unpaired(signature: bytes) -> tuple[int, int]:
    half = len(signature) // 2
    return int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")


ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # a key of the curve P-256


def mirrored(signature: bytes) -> bytes:
    """The other solution of ECDSA, which anybody can compute; JOSE does not forbid it."""
    r, s = unpaired(signature)
    return pair(r, ORDER - s)


def as_der(signature: bytes) -> bytes:
    return encode_dss_signature(*unpaired(signature))


def flipped(signature: bytes) -> bytes:
    return bytes([signature[0] ^ 1]) + signature[1:]


def pem(key: Any, encoding: Encoding = Encoding.PEM, form: Any = PublicFormat.SubjectPublicKeyInfo) -> bytes:
    found: bytes = key.public_key().public_bytes(encoding, form)
    return found


def mixed(one: str, other: str, part: int) -> str:
    """One token with a part of another."""
    parts = one.split(".")
    parts[part] = other.split(".")[part]
    return ".".join(parts)


def stray_bits(token: str) -> str:
    """Returns the same bytes in another spelling: the last character carries four bits that decoders
    ignore."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) + 1]


def padded(token: str) -> str:
    return ".".join(part + "=" * (-len(part) % 4) for part in token.split("."))


def doubled(found: dict[str, Any], name: str, value: Any) -> str:
    """JSON in which a name stands twice, written differently or not."""
    return f'{json.dumps(found)[:-1]}, "{name}": {json.dumps(value)}}}'


def nested(depth: int) -> str:
    return f'{json.dumps(claims())[:-1]}, "deep": {"[" * depth}{"]" * depth}}}'


def flattened(token: str) -> str:
    return json.dumps(dict(zip(("protected", "payload", "signature"), token.split("."), strict=True)))


def detached(m: Mint) -> str:
    """RFC 7797: the payload is signed as it is and travels elsewhere."""
    head = b64(m.header(b64=False, crit=["b64"]))
    return f"{head}..{b64(m.keys['rsa'][1](f'{head}.{json.dumps(claims())}'.encode()))}"
