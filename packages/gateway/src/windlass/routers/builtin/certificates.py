"""The certificates and challenges of a router: which certificate a host name gets, and where it is stored.

In memory is only what the choice needs: names, hash and validity. The certificate and its key stay in a
store, which the gateway keeps sealed on its disk, until a client asks for one of the names.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from windlass.base.log import log
from windlass.routers.builtin.tls_contexts import make_context
from windlass.routers.router import CHECK_PREFIX, Certificate, Challenge, RouteError

_log = log("certificates")


class CertificateFacts(Struct, frozen=True):
    names: tuple[str, ...]
    digest: str
    """SHA-256 hash of the certificate (DER), in hexadecimal digits."""
    begins: float
    ends: float


class StoredCertificate(Struct, frozen=True, tag="certificate"):
    id: str
    facts: CertificateFacts
    certificate: Certificate


class StoredChallenge(Struct, frozen=True, tag="challenge"):
    id: str
    challenge: Challenge


Stored = StoredCertificate | StoredChallenge
_DECODER: Final = msgspec.msgpack.Decoder[Stored](Stored)


class CertificateStore(Protocol):
    """Keeps the content of certificates by name."""

    def write(self, name: str, content: bytes) -> None:
        """Raises OSError."""

    def read(self, name: str) -> bytes:
        """Raises LookupError if the content is missing or was changed."""

    def remove(self, name: str) -> None: ...

    def contents(self) -> Iterator[bytes]: ...


class MemoryStore:
    """A store for a router without a disk of its own."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def write(self, name: str, content: bytes) -> None:
        self._contents[name] = content

    def read(self, name: str) -> bytes:
        return self._contents[name]

    def remove(self, name: str) -> None:
        self._contents.pop(name, None)

    def contents(self) -> Iterator[bytes]:
        return iter([*self._contents.values()])


class CertificateTable:
    def __init__(self, store: CertificateStore) -> None:
        self._store = store
        self._unwritten = MemoryStore()
        """Contents that could not be written, because the disk is full, for example."""
        self._facts: dict[str, CertificateFacts] = {}
        self._by_name: dict[str, tuple[str, ...]] = {}
        """Ids of the certificates for each name."""
        self._challenges: dict[str, Challenge] = {}
        self.http_answers: dict[tuple[bytes, bytes], bytes] = {}
        """Answers to HTTP challenges, by host and path."""
        self._http_ids: dict[tuple[bytes, bytes], str] = {}
        self._answers: Counter[str] = Counter()
        """How often each challenge was answered."""

    @property
    def is_empty(self) -> bool:
        return not self._facts

    def load(self) -> None:
        """Reads the stored certificates and challenges."""
        for content in self._store.contents():
            try:
                stored = _DECODER.decode(content)
            except msgspec.DecodeError as error:
                _log.warning("a stored certificate cannot be read", extra={"reason": str(error)})
                continue
            match stored:
                case StoredCertificate():
                    self._add_certificate(stored.id, stored.facts)
                case StoredChallenge():
                    self._challenges[stored.id] = stored.challenge
        self._index_challenges()

    # Certificates

    def put(self, id: str, certificate: Certificate) -> None:
        """Stores a certificate. Raises RouteError if it is not usable."""
        facts = check_certificate(certificate)
        self._write(_certificate_name(id), StoredCertificate(id, facts, certificate))
        self._add_certificate(id, facts)

    def drop(self, id: str) -> None:
        self._remove_certificate(id)
        self._remove(_certificate_name(id))

    def digests(self) -> Mapping[str, str]:
        return {id: facts.digest for id, facts in self._facts.items()}

    def facts(self, id: str) -> CertificateFacts:
        return self._facts[id]

    def read(self, id: str) -> Certificate:
        """Returns a certificate with its key. Raises LookupError if it cannot be read."""
        name = _certificate_name(id)
        try:
            content = self._unwritten.read(name)
        except KeyError:
            content = self._store.read(name)
        try:
            stored = _DECODER.decode(content)
        except msgspec.DecodeError as error:
            raise LookupError(f"the stored certificate {id} cannot be decoded") from error
        assert isinstance(stored, StoredCertificate)
        return stored.certificate

    def find(self, name: str) -> str | None:
        """Returns the id of the certificate for a host name. Valid certificates come before expired ones,
        then exact names before wildcards, then newer certificates before older ones."""
        now = time.time()
        best: tuple[bool, bool, float] | None = None
        found = None
        for pattern in (name, _wildcard(name)):
            for id in self._by_name.get(pattern, ()):
                facts = self._facts[id]
                rank = facts.begins <= now < facts.ends, pattern == name, facts.begins
                if best is None or rank > best:
                    best, found = rank, id
        return found

    def is_live(self, name: str) -> bool:
        """Returns whether a valid certificate covers a host name."""
        id = self.find(name)
        return id is not None and self._facts[id].begins <= time.time() < self._facts[id].ends

    def _add_certificate(self, id: str, certificate_facts: CertificateFacts) -> None:
        self._remove_certificate(id)
        self._facts[id] = certificate_facts
        for name in dict.fromkeys(certificate_facts.names):
            self._by_name[name] = (*self._by_name.get(name, ()), id)

    def _remove_certificate(self, id: str) -> None:
        facts = self._facts.pop(id, None)
        for name in dict.fromkeys(facts.names if facts else ()):
            left = tuple(other for other in self._by_name[name] if other != id)
            if left:
                self._by_name[name] = left
            else:
                del self._by_name[name]

    # Challenges

    def put_challenge(self, id: str, challenge: Challenge) -> None:
        if self._challenges.get(id) == challenge:
            return
        if challenge.certificate is not None:
            check_certificate(challenge.certificate)
        self._write(_challenge_name(id), StoredChallenge(id, challenge))
        self._challenges[id] = challenge
        self._answers.pop(id, None)
        self._index_challenges()

    def drop_challenge(self, id: str) -> None:
        self._challenges.pop(id, None)
        self._answers.pop(id, None)
        self._remove(_challenge_name(id))
        self._index_challenges()

    def answers(self) -> Mapping[str, int]:
        """Returns how often each challenge was answered."""
        return {id: self._answers[id] for id in self._challenges}

    def answer_http(self, host: bytes, path: bytes) -> bytes | None:
        """Returns the answer to an HTTP challenge; None if there is none."""
        answer = self.http_answers.get((host, path))
        if answer is not None:
            self._answers[self._http_ids[host, path]] += 1
        return answer

    def challenge_certificate(self, name: str) -> Certificate | None:
        """Returns the certificate that answers the newest tls-alpn-01 challenge for a host name."""
        found = [
            id
            for id, challenge in self._challenges.items()
            if challenge.certificate is not None and challenge.host == name
        ]
        if not found:
            return None
        id = next((id for id in reversed(found) if not id.startswith(CHECK_PREFIX)), found[-1])
        self._answers[id] += 1
        return self._challenges[id].certificate

    def _index_challenges(self) -> None:
        by_http = {
            (challenge.host.encode(), challenge.path.encode()): id
            for id, challenge in self._challenges.items()
            if challenge.path
        }
        self._http_ids = by_http
        self.http_answers = {at: self._challenges[id].answer for at, id in by_http.items()}

    # The store

    def _write(self, name: str, stored: Stored) -> None:
        content = msgspec.msgpack.encode(stored)
        try:
            self._store.write(name, content)
        except OSError as error:
            _log.error(
                "a certificate cannot be stored, and is kept in memory: free some space",
                extra={"reason": error.strerror},
            )
            self._unwritten.write(name, content)
        else:
            self._unwritten.remove(name)

    def _remove(self, name: str) -> None:
        self._unwritten.remove(name)
        self._store.remove(name)


def covers(names: Sequence[str], host: str) -> bool:
    """Returns whether a certificate with these names is valid for a host."""
    return host in names or _wildcard(host) in names


def check_certificate(certificate: Certificate) -> CertificateFacts:
    """Returns the facts of a certificate. Raises RouteError if it is not usable."""
    # Heavy, and needed only with certificates.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    try:
        make_context(certificate)
        leaf = x509.load_pem_x509_certificates(certificate.chain)[0]
    except (OSError, ValueError) as error:
        names, reason = ", ".join(certificate.names), str(error)
        raise RouteError(
            f"replace the certificate for {names}, or its key: TLS does not take them ({reason})"
        ) from error
    return CertificateFacts(
        tuple(name.lower() for name in certificate.names),
        leaf.fingerprint(SHA256()).hex(),
        leaf.not_valid_before_utc.timestamp(),
        leaf.not_valid_after_utc.timestamp(),
    )


def _wildcard(name: str) -> str:
    return "*." + name.partition(".")[2]


def _certificate_name(id: str) -> str:
    return f"certificate {id}"


def _challenge_name(id: str) -> str:
    return f"challenge {id}"
