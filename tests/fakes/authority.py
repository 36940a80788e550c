"""An ACME authority on this machine that a test lets misbehave. It verifies each signature and nonce.

It looks at challenges with a function of the test, and dates certificates by the clock of the test.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509.oid import NameOID

Look = Callable[[str, str], bytes | None]


class FakeAuthority:
    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.look: Look = lambda host, path: None
        """Returns the answer of a host at a path; None if there is none."""
        self.look_at_texts: Callable[[str], Sequence[str]] = lambda name: ()
        """Returns the texts of the TXT records of a name."""
        self.look_by_tls: Callable[[str], bytes | None] = lambda host: None
        """Returns the digest in the certificate that a host shows for a proof by TLS."""
        self.url = ""
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.days = 90
        self.asked: Counter[str] = Counter()
        """The requests, by the first word of their path."""
        self.accounts: dict[str, dict[str, Any]] = {}
        self.orders: dict[str, dict[str, Any]] = {}
        self.replaced: list[str] = []
        """The ids of certificates that orders said they renew."""
        self.bad_nonces = 0
        """How many of the next requests are refused for their nonce."""
        self.slow = 0
        """How many times an order is still being processed when it is read."""
        self.retry = 3
        """The seconds after which an order may be read again."""
        self.refusal = ""
        """Why the proof of each name fails; empty if it is looked at."""
        self.limit = 0
        """The seconds after which orders are taken again; 0 if they are taken."""
        self.external = b""
        """The key (HMAC) of accounts of its website, which it wants; empty if it wants none."""
        self.is_away = False
        self.window: tuple[str, str] | None = None
        """The suggested window of renewals."""
        self._nonces: set[str] = set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        _, word, *rest = request.path.split("/")
        self.asked[word] += 1
        if self.is_away:
            return web.Response(status=503, text="maintenance")
        match word:
            case "directory":
                paths = {"newNonce": "nonce", "newAccount": "account", "newOrder": "new-order"}
                body: dict[str, Any] = {name: f"{self.url}/{path}" for name, path in paths.items()}
                body["meta"] = {"externalAccountRequired": bool(self.external)}
                if self.window:
                    body["renewalInfo"] = f"{self.url}/renewal"
                return web.json_response(body)
            case "nonce":
                return web.Response(headers=self._with_nonce())
            case "renewal":
                assert self.window
                start, end = self.window
                return web.json_response({"suggestedWindow": {"start": start, "end": end}})
        try:
            sent = self._verified(await request.json(), request.path)
            answer = getattr(self, f"_{word.replace('-', '_')}")(sent, *rest)
        except Refusal as refusal:
            headers = self._with_nonce() | ({"Retry-After": str(self.limit)} if refusal.status == 429 else {})
            return web.json_response(
                {"type": f"urn:ietf:params:acme:error:{refusal.type}", "detail": refusal.detail},
                status=refusal.status,
                headers=headers,
            )
        answer.headers.update(self._with_nonce())
        assert isinstance(answer, web.Response)
        return answer

    def _with_nonce(self) -> dict[str, str]:
        nonce = secrets.token_urlsafe(12)
        self._nonces.add(nonce)
        return {"Replay-Nonce": nonce}

    def _verified(self, body: Any, path: str) -> Sent:
        head = json.loads(_decoded(body["protected"]))
        if head["nonce"] not in self._nonces or self.bad_nonces:
            self.bad_nonces = max(0, self.bad_nonces - 1)
            raise Refusal("badNonce", "this nonce was used before")
        self._nonces.remove(head["nonce"])
        assert head["alg"] == "ES256"
        assert head["url"] == f"{self.url}{path}"
        if "kid" in head:
            jwk = next((each["key"] for url, each in self.accounts.items() if url == head["kid"]), None)
            if jwk is None:
                raise Refusal("accountDoesNotExist", "there is no such account")
        else:
            jwk = head["jwk"]
        x, y = (int.from_bytes(_decoded(jwk[name]), "big") for name in "xy")
        signature = _decoded(body["signature"])
        der = encode_dss_signature(
            int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        )
        signed = f"{body['protected']}.{body['payload']}".encode()
        public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        public.verify(der, signed, ec.ECDSA(hashes.SHA256()))
        payload = json.loads(_decoded(body["payload"])) if body["payload"] else None
        return Sent(payload, jwk, head.get("kid", ""))

    def _account(self, sent: Sent) -> web.Response:
        if self.external:
            self._check_binding(sent)
        thumbprint = _thumbprint(sent.key)
        url = f"{self.url}/account/{thumbprint}"
        is_new = url not in self.accounts
        self.accounts.setdefault(url, {"key": sent.key, "contact": sent.payload.get("contact", [])})
        return web.json_response(
            {"status": "valid"}, status=201 if is_new else 200, headers={"Location": url}
        )

    def _check_binding(self, sent: Sent) -> None:
        binding = sent.payload.get("externalAccountBinding")
        if binding is None:
            raise Refusal("externalAccountRequired", "an account of the website is needed", 403)
        head = json.loads(_decoded(binding["protected"]))
        assert head == {"alg": "HS256", "kid": "me", "url": f"{self.url}/account"}
        assert json.loads(_decoded(binding["payload"])) == sent.key
        signed = f"{binding['protected']}.{binding['payload']}".encode()
        assert _decoded(binding["signature"]) == hmac.digest(self.external, signed, "sha256")

    def _new_order(self, sent: Sent) -> web.Response:
        if self.limit:
            raise Refusal("rateLimited", "too many certificates for this registered domain", 429)
        if "replaces" in sent.payload:
            self.replaced.append(sent.payload["replaces"])
        id, (name,) = secrets.token_hex(4), [each["value"] for each in sent.payload["identifiers"]]
        self.orders[id] = {
            "name": name,
            "status": "pending",
            "token": secrets.token_urlsafe(16),
            "account": sent.account,
            "proof": "pending",
            "error": "",
            "slow": self.slow,
        }
        return web.json_response(self._shown(id), status=201, headers={"Location": f"{self.url}/order/{id}"})

    def _order(self, sent: Sent, id: str) -> web.Response:
        order = self._found(id)
        if order["status"] == "processing":
            order["slow"] -= 1
            if order["slow"] <= 0:
                order["status"] = "valid"
        return web.json_response(self._shown(id), headers={"Retry-After": str(self.retry)})

    def _proof(self, sent: Sent, id: str) -> web.Response:
        order = self._found(id)
        if order["name"].startswith("*."):
            return web.json_response(
                {
                    "identifier": {"type": "dns", "value": order["name"][2:]},
                    "status": order["proof"],
                    "wildcard": True,
                    "challenges": [
                        {
                            "type": "dns-01",
                            "url": f"{self.url}/dns-challenge/{id}",
                            "token": order["token"],
                            "status": order["proof"],
                            **({"error": {"detail": order["error"]}} if order["error"] else {}),
                        }
                    ],
                }
            )
        state = {"token": order["token"], "status": order["proof"]}
        failed = {"error": {"detail": order["error"]}} if order["error"] else {}
        return web.json_response(
            {
                "identifier": {"type": "dns", "value": order["name"]},
                "status": order["proof"],
                "challenges": [
                    {"type": "dns-01", "url": f"{self.url}/other/{id}", "token": "x", "status": "pending"},
                    {"type": "http-01", "url": f"{self.url}/challenge/{id}", **state, **failed},
                    {"type": "tls-alpn-01", "url": f"{self.url}/tls/{id}", **state},
                ],
            }
        )

    def _challenge(self, sent: Sent, id: str) -> web.Response:
        order = self._found(id)
        found = self.look(order["name"], f"/.well-known/acme-challenge/{order['token']}")
        return self._judge(sent, order, found, self._wanted(order))

    def _tls(self, sent: Sent, id: str) -> web.Response:
        order = self._found(id)
        digest = hashlib.sha256(self._wanted(order)).digest()
        return self._judge(sent, order, self.look_by_tls(order["name"]), digest)

    def _wanted(self, order: dict[str, Any]) -> bytes:
        return f"{order['token']}.{_thumbprint(self.accounts[order['account']]['key'])}".encode()

    def _judge(self, sent: Sent, order: dict[str, Any], found: bytes | None, wanted: bytes) -> web.Response:
        assert sent.payload == {}
        order["error"] = self.refusal or ("" if found == wanted else f"the answer is {found!r}")
        order["proof"] = "invalid" if order["error"] else "valid"
        order["status"] = "invalid" if order["error"] else "ready"
        return web.json_response({"type": "any", "status": "processing", "url": "any"})

    def _dns_challenge(self, sent: Sent, id: str) -> web.Response:
        order = self._found(id)
        assert sent.payload == {}
        answer = f"{order['token']}.{_thumbprint(self.accounts[order['account']]['key'])}"
        wanted = base64.urlsafe_b64encode(hashlib.sha256(answer.encode()).digest()).rstrip(b"=").decode()
        found = self.look_at_texts(f"_acme-challenge.{order['name'][2:]}")
        order["error"] = self.refusal or ("" if wanted in found else f"the texts are {found!r}")
        order["proof"] = "invalid" if order["error"] else "valid"
        order["status"] = "invalid" if order["error"] else "ready"
        return web.json_response({"type": "dns-01", "status": "processing", "url": str(id)})

    def _finalize(self, sent: Sent, id: str) -> web.Response:
        order = self._found(id)
        if order["status"] != "ready":
            raise Refusal("orderNotReady", f"the order is {order['status']}", 403)
        request = x509.load_der_x509_csr(_decoded(sent.payload["csr"]))
        assert request.is_signature_valid
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [order["name"]]
        order["chain"] = self.issue(order["name"], request.public_key())
        order["status"] = "processing" if order["slow"] else "valid"
        return web.json_response(self._shown(id), headers={"Retry-After": "3"})

    def _certificate(self, sent: Sent, id: str) -> web.Response:
        return web.Response(text=self._found(id)["chain"], content_type="application/pem-certificate-chain")

    def _found(self, id: str) -> dict[str, Any]:
        if id not in self.orders:
            raise Refusal("malformed", "there is no such order", 404)
        return self.orders[id]

    def _shown(self, id: str) -> dict[str, Any]:
        order = self.orders[id]
        shown = {
            "status": order["status"],
            "identifiers": [{"type": "dns", "value": order["name"]}],
            "authorizations": [f"{self.url}/proof/{id}"],
            "finalize": f"{self.url}/finalize/{id}",
        }
        return shown | ({"certificate": f"{self.url}/certificate/{id}"} if "chain" in order else {})

    def issue(self, name: str, key: Any) -> str:
        """Returns a certificate for a name, with that of the authority."""
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Fake authority")])
        now = datetime.datetime.fromtimestamp(self.now() / 1000, datetime.UTC)
        hour = datetime.timedelta(hours=1)

        def signed(subject: x509.Name, public: Any, what: x509.ExtensionType) -> x509.Certificate:
            return (
                x509.CertificateBuilder()
                .subject_name(subject)
                .issuer_name(own)
                .public_key(public)
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - hour)
                .not_valid_after(now - hour + datetime.timedelta(days=self.days))
                .add_extension(what, critical=False)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
                )
                .sign(self.key, hashes.SHA256())
            )

        leaf = signed(x509.Name([]), key, x509.SubjectAlternativeName([x509.DNSName(name)]))
        above = signed(own, self.key.public_key(), x509.BasicConstraints(ca=True, path_length=0))
        return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in (leaf, above))


class Refusal(Exception):
    def __init__(self, type: str, detail: str, status: int = 400) -> None:
        super().__init__(detail)
        self.type, self.detail, self.status = type, detail, status


class Sent:
    def __init__(self, payload: Any, key: Any, account: str) -> None:
        self.payload, self.key, self.account = payload, key, account


@contextlib.asynccontextmanager
async def fake_authority(now: Callable[[], int]) -> AsyncIterator[FakeAuthority]:
    authority = FakeAuthority(now)
    runner = web.ServerRunner(web.Server(authority.serve))  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    authority.url = f"http://127.0.0.1:{port}"
    try:
        yield authority
    finally:
        await runner.cleanup()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _thumbprint(key: dict[str, str]) -> str:
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
