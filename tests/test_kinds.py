"""Families of services and their kinds belong together: what is forgotten stops the start."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.world import make_world
from windlass.control.kinds import check_kinds, find_kinds, kinds_of
from windlass.control.kinds.service_kind import AnyKind, ServiceKind
from windlass.control.request.behaviour import check_behaviours
from windlass.core.declare.resource import Family, Shown, Spec, Trait
from windlass.core.declare.traits import deployable
from windlass.core.deploy.stage_order import Precedence
from windlass.families import find_declarations as declared_families
from windlass.families import registry, registry_of
from windlass.families.environment import environment
from windlass.families.project import project


class Rope(Spec):
    name: str


def family(name: str = "rope", *traits: Trait) -> Family:
    return Family(
        name, Rope, parent=environment, title=name.title(), group="Ropes", param="id", traits=traits
    )


def kind(of: Family, precedence: Precedence = Precedence.PROGRAM) -> AnyKind:
    made = type("RopeKind", (ServiceKind,), {"family": of, "precedence": precedence})()
    assert isinstance(made, ServiceKind)
    return made


async def test_a_deployable_family_without_a_kind_fails_the_start() -> None:
    families = registry_of(*declared_families(), family("rope", deployable()))
    with pytest.raises(LookupError, match=r"rope can be deployed.*control/kinds/rope\.py"):
        async with make_world(families=families):
            raise AssertionError("it started")


def test_a_kind_of_a_family_that_is_not_deployable_fails_the_start() -> None:
    with pytest.raises(LookupError, match=r"a kind of project, which is no family that can be deployed"):
        check_kinds(registry(), kinds_of(*find_kinds(), kind(project)))


def test_two_kinds_of_one_family_stop_the_start() -> None:
    rope = family()
    with pytest.raises(LookupError, match="two kinds of one family"):
        kinds_of(kind(rope), kind(rope))


def test_a_trait_without_a_behaviour_fails_the_start() -> None:
    floats = Trait(name="floats", needs_behaviour=True)
    with pytest.raises(LookupError, match=r"rope is floats.*@behaves\(trait='floats'\)"):
        check_behaviours(registry_of(*declared_families(), family("rope", floats)))


@pytest.mark.parametrize(("word", "is_refused"), [("ROPE", False), ("SHIP_ROPE", True)])
def test_a_service_type_that_differs_from_the_one_in_links_stops_the_start(
    word: str, is_refused: bool
) -> None:
    class RopeShown(Shown):
        service_type: str = word

    rope = Family("rope", Rope, parent=environment, shown=RopeShown, traits=(deployable(),))
    families = registry_of(*declared_families(), rope)
    refusal = pytest.raises(LookupError, match=r'service_type: str = "ROPE"') if is_refused else nullcontext()
    with refusal:
        check_kinds(families, kinds_of(*find_kinds(), kind(rope)))


def test_all_existing_kinds_and_families_match() -> None:
    kinds = kinds_of(*find_kinds())
    check_kinds(registry(), kinds)
    check_behaviours(registry())
    with pytest.raises(LookupError):
        check_kinds(registry(), {name: kinds[name] for name in [*kinds][1:]})


def test_the_page_on_kinds_lists_exactly_the_members_of_service_kind() -> None:
    page = Path(__file__).parents[1] / "docs" / "adding-a-service-kind.md"
    rows = re.findall(
        r"^\| (`.+?) \|", page.read_text().partition("## The methods of a kind")[2], re.MULTILINE
    )
    names = re.findall(r"`(\w+)`", " ".join(rows))
    assert len(names) > 30
    assert sorted(names) == sorted(name for name in vars(ServiceKind) if not name.startswith("_"))


def test_kinds_are_in_the_order_in_which_their_services_are_deployed() -> None:
    ropes = {precedence: kind(family(precedence.name.lower()), precedence) for precedence in Precedence}
    assert [*kinds_of(*reversed(ropes.values())).values()] == [ropes[number] for number in sorted(ropes)]
