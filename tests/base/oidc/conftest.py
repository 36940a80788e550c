"""A verifier that trusts one provider."""

from __future__ import annotations

import pytest

from tests.base.oidc.provider import Clock, Provider, trusted
from tests.mint import Mint
from windlass.base.issuer import Signer
from windlass.base.oidc import Verifier


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


@pytest.fixture
def signer(clock: Clock) -> Signer:
    return Signer("https://windlass.example", Signer.new_key(), clock)
