"""A provider of tokens, a verifier of them, and what it says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from joserfc.jwk import KeySet

from tests.mint import ALGORITHMS, AUDIENCE, ISSUER, NOW
from windlass.base.issuer import Signer
from windlass.base.issuer_keys import IssuerUnreachable, TokenRefused
from windlass.base.oidc import TokenIssuer, Verifier

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


def trusted(**changes: Any) -> TokenIssuer:
    return TokenIssuer(**{"issuer": ISSUER, "audiences": (AUDIENCE,), "algorithms": ALGORITHMS, **changes})


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


def published(signer: Signer) -> KeySet:
    return KeySet.import_key_set(signer.jwks())  # type: ignore[arg-type]
