"""The foundation of the other tests here: valid and wrong bodies of any declaration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from tests.derived.bodies import MISSING, placed, spelled, valid, wrongs
from tests.derived.operations import OPERATIONS
from tests.tables import rows
from windlass.api.body import parse_body
from windlass.base.errors import Invalid
from windlass.core.declare.fields import Id, Key, Maybe, Name, Port, Url, absent, refers
from windlass.core.declare.resource import Spec


class Stone(Spec):
    weight: Port
    colors: Annotated[list[Literal["GREY", "RED"]], Meta(min_length=1, max_length=3)]


class Garden(Spec):
    """No family: whatever a declaration may look like."""

    name: Name
    kind: Literal["ROSE", "ROCK"]
    key: Key
    home: Url
    cluster_id: Maybe[Annotated[Id, refers("cluster")]] = absent
    stones: Maybe[list[Stone]] = absent
    gate: Stone | None = None
    code: Annotated[str, Meta(pattern=r"^[A-Z]{3}#[0-9]\Z", examples=["ABC#1"])]
    height: Annotated[float, Meta(gt=0, le=9.5)] = 1.5
    notes: dict[str, Any] = {}


class Riddle(Spec):
    code: Annotated[str, Meta(pattern=r"^[A-Z]{3}#[0-9]\Z")]


CLUSTER = "0e1d8a3e-4f0e-4f3c-9c6e-2a51b1d2f0aa"


def body() -> dict[str, Any]:
    return valid(Garden, {"cluster": CLUSTER}.__getitem__)


def test_a_generated_valid_body_is_accepted_and_refers_to_existing_resources():
    garden = msgspec.convert(body(), Garden)
    assert garden.cluster_id == CLUSTER
    assert garden.code == "ABC#1"


def test_each_generated_request_body_has_a_different_name():
    assert body()["name"] != body()["name"]


def test_a_field_whose_valid_value_cannot_be_derived_requires_an_example():
    with pytest.raises(LookupError, match=r"code: give its annotation an example"):
        valid(Riddle, str)


@rows("wrong", wrongs(Garden), ids=str)
def test_a_generated_wrong_value_is_refused_with_its_path(wrong):
    whole = placed(Garden, body(), wrong.path, wrong.value)
    with pytest.raises(Invalid) as refused:
        parse_body(msgspec.json.encode(whole), None, Garden)
    assert refused.value.message.startswith(f"{spelled(wrong.path)}: ")


def test_replacing_one_value_of_a_body_leaves_the_others():
    whole = body()
    other = placed(Garden, whole, ("stones", 1, "weight"), 7)
    assert other["stones"][1] == {"weight": 7, "colors": ["GREY"]}
    assert {name: value for name, value in other.items() if name != "stones"} == whole
    assert "kind" not in placed(Garden, whole, ("kind",), MISSING)


def test_every_operation_has_a_body_that_fits_its_declaration():
    for operation in OPERATIONS:
        if operation.body is not None:
            msgspec.convert(valid(operation.body, lambda family: CLUSTER), operation.body)
