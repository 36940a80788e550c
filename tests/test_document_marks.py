"""The OpenAPI document says what clients that draw forms and answers need to know."""

from __future__ import annotations

import sys

from tests.documented import DOCUMENT, schema
from windlass.families import registry


def test_a_group_of_a_family_has_the_description_of_that_family() -> None:
    """An action of another family, such as `detect` of an organization, may be the first of the group."""
    described = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    openings: dict[str, set[str]] = {}
    for family in registry().families.values():
        docstring = sys.modules[family.spec.__module__].__doc__ or ""
        openings.setdefault(family.group, set()).add(docstring.partition("\n\n")[0].strip())
    wrong = [group for group in openings.keys() & described if described[group] not in openings[group]]
    assert wrong == []


def test_values_shown_only_once_are_marked_in_the_document() -> None:
    """Clients that show answers, such as the console, ask for it to be kept."""
    shown_once = {
        (f"{family.title}Created", entry.name)
        for family in registry().families.values()
        for entry in family.additions
        if "shown_once" in entry.extra
    }
    shown_once.add(("Rotated", "target_secret"))
    assert len(shown_once) > 1
    assert all(schema(name)["properties"][field]["x-shown-once"] for name, field in shown_once)
