"""An answer is made of what was sent and of what the server adds, in the shape of its family and no other."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.documented import body, operations, success
from windlass.core.declare.document import redact, view_of
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Family, Spec


@operations(lambda one: one.family and one.body is one.family.spec and one.answer is not None)
def test_building_an_answer_field_by_field_equals_a_full_conversion(operation: Operation) -> None:
    assert operation.family
    family, sent, extras = operation.family, body(operation)["example"], success(operation)["example"]
    spec = msgspec.convert(sent, family.spec)
    made = view_of(family, spec, {**extras, "nobody_knows_this": 1})
    assert msgspec.json.encode(made) == msgspec.json.encode(_converted(family, spec, extras))
    assert not family.hidden & msgspec.to_builtins(made).keys()


@operations(lambda one: one.family and one.body is one.family.spec and one.answer is not None)
def test_sent_fields_are_returned_unless_the_server_sets_them(operation: Operation) -> None:
    assert operation.family
    family, sent, extras = operation.family, body(operation)["example"], success(operation)["example"]
    added = {
        name: value for name, value in extras.items() if name not in sent or isinstance(value, dict | list)
    }
    spec = msgspec.convert(sent, family.spec)
    assert msgspec.json.encode(view_of(family, spec, added)) == msgspec.json.encode(
        _converted(family, spec, added)
    )


def _converted(family: Family, spec: Spec, extras: dict[str, Any]) -> msgspec.Struct:
    sent = {name: value for name, value in msgspec.to_builtins(spec).items() if name not in family.hidden}
    sent |= {name: redact(sent[name]) for name in family.redacted}
    flags = {flag: bool(getattr(spec, name)) for name, flag in family.flags.items()}
    return msgspec.convert({**sent, **flags, **extras}, family.view)
