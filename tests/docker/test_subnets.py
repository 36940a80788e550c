"""Networks have small subnets of a range, of which no organization can take all."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import defaultdict
from contextlib import AsyncExitStack, nullcontext
from ipaddress import IPv4Network

import pytest

from tests.docker.watched import wanted
from tests.engines.dockers import BOX
from tests.marks import nightly
from windlass.docker.builds.build_network import BuildNetworks
from windlass.docker.client import EngineRefused, subnets
from windlass.docker.client.answers import refusal
from windlass.docker.client.subnets import SubnetsUsedUp, free_subnets, make_network, read_range
from windlass.docker.resources import DockerResources
from windlass.engines.engine import EngineError


@pytest.fixture
def pool():
    """A range for eight networks of environments."""
    return IPv4Network((0x0AC80000 + random.randrange(512) * 1024, 22))


@pytest.mark.slow
async def test_one_organization_has_an_eighth_of_the_range(raw, pool):
    place = DockerResources(raw, f"test-{uuid.uuid4()}", pool)
    async with place.network(wanted(org="attacker")) as network:
        assert await subnet_of(raw, network) in pool.subnets(new_prefix=25)
        with pytest.raises(
            EngineError, match=r"^Stop or delete the services.* docker_networks: .* at most 1 env"
        ):
            async with place.network(wanted(org="attacker")):
                pass
        async with place.network(wanted(org="victim")):
            pass
    await place.discard_networks()


@pytest.mark.slow
async def test_the_network_of_a_stopped_environment_is_replaced_when_subnets_run_out(raw, pool):
    place = DockerResources(raw, f"test-{uuid.uuid4()}", pool)
    async with place.network(wanted(org="one")) as first:
        pass
    async with place.network(wanted(org="one")) as second:
        assert second != first
    await place.discard_networks()


@pytest.mark.nightly
@pytest.mark.slow
async def test_without_an_address_range_one_organization_can_create_any_number_of_networks(raw):
    place = DockerResources(raw, f"test-{uuid.uuid4()}")
    async with (
        place.network(wanted(org="attacker")) as first,
        place.network(wanted(org="attacker")) as second,
    ):
        assert first != second
    await place.discard_networks()


@pytest.mark.slow
async def test_two_servers_that_choose_at_once_have_different_subnets(raw, pool):
    installation = f"test-{uuid.uuid4()}"
    places = [DockerResources(raw, installation, pool) for _ in range(4)]
    async with AsyncExitStack() as held:
        networks = await asyncio.gather(
            *(held.enter_async_context(place.network(wanted(org=str(n)))) for n, place in enumerate(places))
        )
        chosen = [await subnet_of(raw, network) for network in networks]
    assert len(set(chosen)) == len(places)
    assert all(subnet.subnet_of(pool) for subnet in chosen)
    await places[0].discard_networks()


@pytest.mark.slow
async def test_a_range_that_is_used_up_names_the_setting(raw, pool):
    name = f"wdl-test-{uuid.uuid4()}"
    await make_network(raw, {"Name": name}, pool, pool.prefixlen, builds=True)
    try:
        with pytest.raises(SubnetsUsedUp, match=r"^Ask the operator for a larger range in docker_networks"):
            await make_network(raw, {"Name": f"{name}-2"}, pool, 25)
    finally:
        await raw.raw("DELETE", f"/networks/{name}")


@pytest.mark.slow
@pytest.mark.parametrize("reserve", [True, *nightly(False)])
async def test_subnets_reserved_for_builds_are_not_used_by_environments(raw, pool, monkeypatch, reserve):
    """Without the reserve, environments take all."""
    if not reserve:
        monkeypatch.setattr(subnets, "build_reserve", lambda pool: IPv4Network("10.0.0.0/28"))
    place, networks = (
        DockerResources(raw, f"test-{uuid.uuid4()}", pool),
        BuildNetworks(raw, f"test-{uuid.uuid4()}", pool),
    )
    async with AsyncExitStack() as held:
        for _ in range(7 if reserve else 8):
            await held.enter_async_context(place.network(wanted(org=str(uuid.uuid4()))))
        with pytest.raises(EngineError, match="no subnet"):
            await held.enter_async_context(place.network(wanted()))
        with nullcontext() if reserve else pytest.raises(SubnetsUsedUp):
            async with networks.made():
                pass
    await place.discard_networks()


@pytest.mark.slow
@pytest.mark.parametrize("locks", [True, *nightly(False)])
async def test_environments_that_are_made_at_once_do_not_pass_the_bound_together(
    raw, pool, monkeypatch, locks
):
    place = DockerResources(raw, f"test-{uuid.uuid4()}", pool)
    if not locks:
        monkeypatch.setattr(place, "_making", defaultdict(nullcontext))

    async with AsyncExitStack() as held:
        making = [held.enter_async_context(place.network(wanted(org="attacker"))) for _ in range(4)]
        made = await asyncio.gather(*making, return_exceptions=True)
    assert (sum(isinstance(each, EngineError) for each in made) == 3) is locks
    await place.discard_networks()


@pytest.mark.slow
async def test_a_network_that_is_full_says_what_to_do(raw, pool):
    name = f"wdl-test-{uuid.uuid4()}"
    await make_network(raw, {"Name": name}, pool, 30)  # for the gateway and one instance
    body = {"Image": BOX, "Cmd": ["sleep", "60"], "HostConfig": {"NetworkMode": name}}
    made = [(await raw.json("POST", "/containers/create", body=body))["Id"] for _ in range(2)]
    try:
        await raw.raw("POST", f"/containers/{made[0]}/start")
        with pytest.raises(EngineRefused) as refused:
            await raw.raw("POST", f"/containers/{made[1]}/start")
    finally:
        for container in made:
            await raw.raw("DELETE", f"/containers/{container}", params={"force": True})
        await raw.raw("DELETE", f"/networks/{name}")
    assert refusal(refused.value.message).startswith("Run fewer instances, or move services")


def test_free_subnets_exclude_those_that_overlap_used_ones():
    pool = IPv4Network("10.199.0.0/24")
    taken = [IPv4Network("10.199.0.0/28"), IPv4Network("10.199.0.80/29")]
    assert list(map(str, free_subnets(pool, 26, taken))) == ["10.199.0.128/26", "10.199.0.192/26"]
    assert list(map(str, free_subnets(pool, 26, taken, 3))) == ["10.199.0.192/26", "10.199.0.128/26"]


@pytest.mark.parametrize("text", ["10.199.0.0/25", "10.199.0.1/16", "10.299.0.0/16"])
def test_an_invalid_address_range_for_docker_networks_is_refused(text):
    with pytest.raises(ValueError, match=r"10\."):
        read_range(text)


async def subnet_of(raw, network):
    described = await raw.json("GET", f"/networks/{network}")
    return IPv4Network(described["IPAM"]["Config"][0]["Subnet"])
