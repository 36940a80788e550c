"""Any history of names and paths leaves each with its holder."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.hostile import streets
from tests.hostile.names import port
from tests.hostile.streets import Organization, Street, make_street
from tests.marks import examples
from windlass.control.deploying import routes
from windlass.control.records import names
from windlass.routers.builtin.peers import Peer
from windlass.routers.builtin.table import RoutingTable
from windlass.routers.router import Route

SERVICES = st.sampled_from(["web", "Web.", "api-web", "wéb", "api", "a" * 60, "a" * 70, "日本", "service"])


ENVIRONMENTS = ("prod", "web-prod", "Prod ö")


PORTS = st.lists(
    st.tuples(st.sampled_from(["api", "API.", "web", "a" * 64]), st.sampled_from([None, "/login", "/"])),
    max_size=2,
    unique_by=lambda named: named[0],
)


PATHS = ("/", "/login", "/login/x", "/x")


class Create(NamedTuple):
    who: int
    environment: int
    name: str
    ports: Sequence[tuple[str, str | None]]


class Edit(NamedTuple):
    which: int
    name: str
    ports: Sequence[tuple[str, str | None]]


class Do(NamedTuple):
    which: int
    action: str


class Delete(NamedTuple):
    which: int


class Restart(NamedTuple):
    seed: int


WHO, WHICH = st.integers(0, 1), st.integers(0, 5)


STEPS = st.one_of(
    st.builds(Create, WHO, st.integers(0, 2), SERVICES, PORTS),
    st.builds(Edit, WHICH, SERVICES, PORTS),
    st.builds(Do, WHICH, st.sampled_from(["deploy", "deploy", "deploy", "stop"])),
    st.builds(Delete, WHICH),
    st.builds(Restart, st.integers(0, 9)),
)


TWO = st.tuples(st.builds(Create, st.just(0), st.just(0), SERVICES, PORTS), st.just(Do(0, "deploy")))


HISTORIES = st.builds(lambda two, more: [*two, *more], TWO, st.lists(STEPS, min_size=4, max_size=9))


def documents(ports: Sequence[tuple[str, str | None]]) -> list[dict[str, Any]]:
    """The default port, and others beside it."""
    others = [port(8001 + place, name=name, public_path=path) for place, (name, path) in enumerate(ports)]
    return [port(name="main", is_default=True), *others]


class History:
    """Plays steps, and looks after each at who holds and who answers what."""

    def __init__(self, street: Street) -> None:
        self.street = street
        self.services: list[tuple[Organization, str]] = []
        self.environments: dict[tuple[int, int], str] = {}
        self.known: set[str] = set()
        self.holders: dict[str, str] = {}

    async def play(self, steps: Sequence[Any]) -> None:
        await self.street.two_organizations()
        for step in steps:
            by = await self._play(step)
            await self.street.settle()
            await self._look(by)

    async def _play(self, step: Any) -> str:
        """Answers the service that it was about."""
        if isinstance(step, Create):
            return await self._create(step)
        if isinstance(step, Restart):
            await self.street.restart(seed=step.seed)
            return ""
        if not self.services:
            return ""
        owner, app = self.services[step.which % len(self.services)]
        world = self.street.world
        if isinstance(step, Edit):
            body = {"name": step.name, "ports": documents(step.ports)}
            await world.call("PATCH", f"/application/{app}", body, token=owner.token)  # or it has a twin
        elif isinstance(step, Delete):
            await world.delete(f"/application/{app}", token=owner.token)
            self.services.remove((owner, app))
        else:
            await owner.deploy(app, step.action)
        return str(app)

    async def _create(self, step: Create) -> str:
        owner = self.street.organizations[step.who]
        place = (step.who, step.environment)
        if place not in self.environments:
            self.environments[place] = await owner.environment(ENVIRONMENTS[step.environment])
        body = {"name": step.name, "git_repository": streets.REPOSITORY, "ports": documents(step.ports)}
        path = f"/environment/{self.environments[place]}/application"
        answer = await self.street.world.post(path, body, token=owner.token)
        if answer.status == 409:  # a sibling has the name
            return ""
        assert answer.status == 201, answer
        self.services.append((owner, answer["id"]))
        return str(answer["id"])

    async def _look(self, by: str) -> None:
        before, self.holders = self.holders, await self.street.holders()
        self.known |= self.holders.keys()
        for name, holder in before.items():
            assert self.holders.get(name) == holder or holder == by, f"{name} was taken from {holder}"
        for name in self.known:
            for path in PATHS:
                answers = self.street.led(name, path)
                assert answers in (None, self.holders.get(name)), f"{name}{path} is answered by {answers}"
        for owner, app in self.services:
            for link in await owner.links(app):
                label = link.removeprefix("http://").partition(".")[0]
                answers = self.street.led(label, "/login")
                assert answers in (None, app), f"{link} is answered by {answers}"
                assert self.holders[label] == app, link


async def played(steps: Sequence[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with make_street(Path(folder)) as street:
            await History(street).play(steps)


@given(HISTORIES)
@examples(15, nightly=60, suppress_health_check=[HealthCheck.too_slow])
async def test_after_any_history_a_host_and_path_are_served_only_by_their_owner(steps: list[Any]):
    await played(steps)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@given(st.builds(lambda two, more: [*two, *more], TWO, st.lists(STEPS, min_size=10, max_size=40)))
@examples(1, nightly=150, suppress_health_check=[HealthCheck.too_slow])
async def test_after_a_long_history_a_host_name_is_served_only_by_its_owner(steps: list[Any]):
    await played(steps)


COLLIDING = [
    Create(0, 0, "api-web", []),
    Do(0, "deploy"),
    Create(1, 0, "web", [("api", "/login")]),
    Do(1, "deploy"),
]


RESTARTS = [Restart(seed) for seed in range(8)]


async def test_known_collision_histories_keep_hosts_with_their_owners():
    await played([*COLLIDING, *RESTARTS])


@pytest.mark.parametrize("table", ["merging", "present"])
async def test_without_reservations_the_same_histories_reach_another_service(
    monkeypatch: pytest.MonkeyPatch, table: str
):
    monkeypatch.setattr(names._HeldNames, "reserve", streets.compose)
    monkeypatch.setattr(routes, "row_of", streets.hold_anything)
    if table == "merging":
        monkeypatch.setattr(RoutingTable, "_find", streets.merge_services)
    with pytest.raises(AssertionError, match="is answered by"):
        await played(COLLIDING if table == "merging" else [*COLLIDING, *RESTARTS])


class Claim(NamedTuple):
    service: str
    path: str


SOME_PATHS = st.sampled_from(["/", "/x", "/x/y"])


CLAIMS = st.lists(st.builds(Claim, st.sampled_from("abc"), SOME_PATHS), min_size=1, max_size=6)


def table_of(claims: Sequence[Claim], order: Sequence[str]) -> RoutingTable:
    """Services put their routes in this order."""
    table = RoutingTable(lambda at: Peer(at))
    for service in order:
        given: dict[str, Any] = {"service": service, "title": service, "held": ord(service)}
        mine = [claim.path for claim in claims if claim.service == service]
        made = [Route(port="p", kind="http", hosts=("h.x",), path=path, **given) for path in mine]
        table.put(service, made)
    return table


def answering(table: RoutingTable) -> set[str]:
    """The services that answer anything below the host."""
    paths = table.host(b"h.x")
    found = [paths.match(path) for path in (b"/", b"/x", b"/x/y", b"/z")] if paths else []
    return {backend.route.service for backend in found if backend}


@given(CLAIMS, st.permutations("abc"))
def test_the_routing_table_gives_a_disputed_host_completely_to_its_latest_owner(
    claims: list[Claim], order: list[str]
):
    assert answering(table_of(claims, order)) <= {max(claim.service for claim in claims)}


def test_a_routing_table_that_merges_hosts_fails_the_check():
    claims = [Claim("a", "/x"), Claim("b", "/")]
    with patch.object(RoutingTable, "_find", streets.merge_services):
        assert answering(table_of(claims, "ab")) == {"a", "b"}
