"""A Windlass that trusts an issuer, and the issuer."""

import pytest

from tests.identity.issuer import Issuer
from tests.world import HandClock, make_world
from windlass.control.people import password_hashes


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch):
    """Hundreds of sign-ins would spend most of their time with the hash of the password."""
    kib, parameters = password_hashes._KIB, password_hashes._PARAMETERS
    cheap = parameters.replace(f"m={kib}", "m=64")
    assert cheap != parameters
    for name, value in {
        "_KIB": 64,
        "_PARAMETERS": cheap,
        "_UNMATCHED_HASH": password_hashes._UNMATCHED_HASH.replace(parameters, cheap),
    }.items():
        monkeypatch.setattr(password_hashes, name, value)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def issuer(clock):
    return Issuer(clock)


@pytest.fixture
def trusting(clock, issuer):
    """Options with which a world trusts the issuer."""
    return {"clock": clock, "oidc_issuer": issuer.address, "fetcher": issuer.fetch}


@pytest.fixture
async def world(database_url, trusting):
    async with make_world(database_url, **trusting) as made:
        yield made
