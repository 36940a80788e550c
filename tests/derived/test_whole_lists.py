"""Lists that are answered whole: they are cut into pages if pages are asked for."""

from __future__ import annotations

from tests.derived.operations import for_operations, path_of
from tests.derived.stage import Stage
from tests.derived.test_lists import asked, pagination
from windlass.core.declare.registry import Operation


@for_operations(lambda operation: operation.pages_if_asked)
async def test_every_unpaginated_list_is_paginated_on_request(stage: Stage, operation: Operation):
    subject = await stage.plot.subject(operation)
    path = f"{path_of(operation, subject.ids)}?{subject.query}"
    first = await stage.world.get(path, token=subject.tenant.admin)
    if first.status != 200:  # the registry of an image does not answer here
        assert first.status == 409
        return
    whole = first["results"]
    assert "pagination" not in first.json
    for base, size in (("", 1), ("/compat", 1), ("", len(whole) + 1)):
        expected = (await asked(stage, subject, "", base=base))["results"]
        pages = -(-len(expected) // size)
        answers = [
            await asked(stage, subject, f"page={n}&page_size={size}", base=base) for n in range(1, pages + 2)
        ]
        assert [one for answer in answers for one in answer["results"]] == expected
        assert answers[0]["pagination"] == pagination(1, size, len(expected))
    refused = await stage.world.get(f"{path}&page=0", token=subject.tenant.admin)
    assert (refused.status, refused.message.partition(":")[0]) == (400, "page")
