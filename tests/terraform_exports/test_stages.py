"""Exported deployment stages have the same order in a new environment, whatever the order was."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples
from tests.terraform_exports.configuration import Reader, references
from windlass.control.services.exported_stages import (
    ExportedStages,
    PresentStage,
    StageMember,
    export_stages,
)
from windlass.core.deploy.stage_order import DEFAULT_STAGES, moved
from windlass.core.words.hcl import Expression, block

STAGE = "qovery_deployment_stage"


@st.composite
def environments(draw: st.DrawFn) -> tuple[list[PresentStage], list[StageMember]]:
    stages = [PresentStage(f"d{takes}", stage.name, "", takes) for takes, stage in DEFAULT_STAGES.items()]
    stages += [
        PresentStage(f"s{place}", f"stage {place}", "", -1) for place in range(draw(st.integers(0, 3)))
    ]
    stages = draw(st.permutations(stages))
    kept = stages[: draw(st.integers(1, len(stages)))]
    services = [
        StageMember(f"v{place}", draw(st.sampled_from(kept)).id, draw(st.integers(0, 2)), f"x.v{place}")
        for place in range(draw(st.integers(0, 6)))
    ]
    return kept, services


def applied(exported: ExportedStages, services: list[StageMember]) -> list[list[str]]:
    """The services of a new environment by stage, once its resources were made in the order of references."""
    order = [stage.name for stage in DEFAULT_STAGES.values()]
    homes = {service.id: exported.stages.get(service.id) for service in services}
    placed: dict[str, str] = {}
    made: set[tuple[str, ...]] = set()
    waiting: dict[tuple[str, ...], Any] = {(STAGE, one.label): one.fields for one in exported.resources}
    waiting |= {("x", id): {"stage": home} if home else {} for id, home in homes.items()}
    precedence = {service.id: service.precedence for service in services}
    while waiting:
        ready = [
            address
            for address, fields in waiting.items()
            if all(path[:2] in made for path in paths(fields) if path[0] != "e")
        ]
        assert ready, "the resources refer to each other"
        for address in ready:
            fields, (kind, name) = waiting.pop(address), address
            made.add(address)
            if kind == "x":
                home = homes[name]
                natural = list(DEFAULT_STAGES.values())[precedence[name]].name
                placed[name] = named(home, placed) if home else natural
                continue
            order.append(name)
            for field, after in (("is_after", True), ("is_before", False)):
                if field in fields:
                    order = moved(order, name, named(fields[field], placed), is_after=after)
    return [members for stage in order if (members := [id for id in homes if placed[id] == stage])]


def named(expression: Expression, placed: dict[str, str]) -> str:
    kind, name, _ = expression.text.split(".")
    return placed[name] if kind == "x" else name


def paths(fields: dict[str, Any]) -> list[tuple[str, ...]]:
    (read,) = Reader(block("locals", [], fields)).blocks()
    return [*references(read.body)]


@examples(300)
@given(environments())
def test_services_are_in_the_same_stages_in_the_same_order(
    environment: tuple[list[PresentStage], list[StageMember]],
):
    stages, services = environment
    exported = export_stages(stages, services, STAGE, Expression("e.e.id"))
    before = [[one.id for one in services if one.stage == stage.id] for stage in stages]
    assert applied(exported, services) == [members for members in before if members]
    assert sorted(exported.order) == sorted(service.id for service in services)


def test_a_default_stage_of_another_name_or_place_gets_a_name_of_its_own():
    (jobs, databases) = ("default-jobs", "default-databases")
    stages = [PresentStage("1", jobs, "", 1), PresentStage("2", databases, "", 0)]
    services = [StageMember("j", "1", 1, "x.j"), StageMember("d", "2", 0, "x.d")]
    exported = export_stages(stages, services, STAGE, Expression("e.e.id"))
    assert [one.fields["name"] for one in exported.resources] == ["default-databases (exported)"]
    assert exported.resources[0].fields["is_after"] == Expression("x.j.deployment_stage_id")
