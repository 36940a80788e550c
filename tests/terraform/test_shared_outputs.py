"""The outputs of a state that become variables of other services. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.terraform.state_files import MAX_OUTPUT_BYTES, read_state, shared_outputs


def shared(outputs: dict[str, Any]) -> list[str]:
    document = {"version": 4, "outputs": {name: {"value": value} for name, value in outputs.items()}}
    return [output.name for output in shared_outputs(read_state(msgspec.json.encode(document)))]


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ({"b": "1", "a": ["x"]}, ["a", "b"]),
        ({"a_b": "1", "a-b": "2", "A_B": "3"}, ["A_B"]),
        ({"a": "x\0", "b": None, "c": "1"}, ["c"]),
        ({"a": "x" * (MAX_OUTPUT_BYTES + 1), "b": "1"}, ["b"]),
        (dict.fromkeys("abc", "x" * MAX_OUTPUT_BYTES), ["a", "b"]),
        ({"not a name": "1"}, []),
        ({f"a{number:04}": "" for number in range(1500)}, [f"a{number:04}" for number in range(1000)]),
    ],
)
def test_an_output_is_shared_if_a_process_can_take_it_and_its_variable_is_free(
    outputs: dict[str, Any], names: list[str]
):
    assert shared(outputs) == names
