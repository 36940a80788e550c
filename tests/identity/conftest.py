"""A Windlass that trusts an issuer, and the issuer."""

import pytest

from tests.identity.issuer import Issuer
from tests.world import HandClock, make_world


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
