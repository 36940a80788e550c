"""An answer that would be too long is refused before its first byte: it is never cut."""

from __future__ import annotations

from tests.world import World
from windlass.api import answers
from windlass.control.request import reading


async def test_a_complete_list_over_the_limit_is_refused_with_a_hint_to_use_pages(world: World, monkeypatch):
    for _ in range(3):
        await world.project()
    path = f"/compat/organization/{world.org}/project"
    assert len((await world.get(path))["results"]) == 3
    monkeypatch.setattr(reading, "MAX_UNPAGED_LENGTH", 2)
    refused = await world.get(path)
    assert (refused.status, refused.message) == (
        400,
        "page_size: ask for pages of this list, which has 3 entries",
    )
    assert len((await world.get(f"{path}?page=1&page_size=2"))["results"]) == 2


async def test_an_answer_with_too_many_bytes_is_refused(world: World, monkeypatch):
    await world.project()
    path = f"/organization/{world.org}/project"
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 100)
    refused = await world.get(path)
    assert refused.status == 400
    assert refused.message.startswith("Ask for less at a time, by page and page_size")
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 100_000)
    assert (await world.get(path)).status == 200
