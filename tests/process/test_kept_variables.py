"""The variables that instances keep for their restarts."""

from __future__ import annotations

import gc
import sys

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.engines.stations import wanted
from windlass.engines.workload import Artifact, Workload
from windlass.process.records import InstanceKey
from windlass.process.supervisor import Supervisors

PLAIN = wanted(Artifact(kind="native", ref=""))
NAMES = st.sampled_from([f"V{number}" for number in range(40)])
SETS_OF_VARIABLES = st.tuples(
    st.sampled_from(["one", "two"]),
    st.dictionaries(NAMES, st.sampled_from(["a", "b"])),
    st.frozensets(NAMES, max_size=3),
)


def key(number: int) -> InstanceKey:
    return InstanceKey(PLAIN.service, number, 0)


@given(st.lists(SETS_OF_VARIABLES, max_size=8))
def test_each_instance_is_restarted_with_exactly_its_own_variables(
    sets: list[tuple[str, dict[str, str], frozenset[str]]],
) -> None:
    supervisors, started = Supervisors(), {}
    for number, (environment, variables, hidden) in enumerate(sets):
        workload = replace(PLAIN, environment=environment, variables=variables, hidden=hidden)
        supervisors.of(key(number)).workload = started[number] = workload
        if number % 3 == 1:
            supervisors.let_go(key(number - 1))
            del started[number - 1]
    assert {number: supervisors.of(key(number)).workload for number in started} == started


def neighbour(number: int, neighbours: int) -> Workload:
    variables = {f"HOST_OF_{each}": f"service-{each}" for each in range(neighbours)}
    variables |= {"NAME": f"service-{number}", "PASSWORD": "the secret of one"}
    return replace(PLAIN, variables=variables, hidden=frozenset(["PASSWORD"]))


def test_variables_of_neighbours_are_kept_once_for_all_instances_of_an_environment() -> None:
    supervisors, neighbours = Supervisors(), 200
    for number in range(neighbours):
        supervisors.of(key(number)).workload = neighbour(number, neighbours)
    kept = [supervisors.of(key(number)) for number in range(neighbours)]
    assert len({id(each._common) for each in kept}) == 1
    assert sum(sys.getsizeof(each._own) for each in kept) < 400 * neighbours


def test_a_secret_is_not_kept_longer_than_its_instance() -> None:
    supervisors = Supervisors()
    for number in range(2):
        supervisors.of(key(number)).workload = neighbour(number, 3)
    supervisors.let_go(key(0))
    gc.collect()
    other = supervisors.of(key(1))._common
    assert other is not None
    assert "PASSWORD" not in other.values
