"""The page about the walk of a deployment names the functions that it goes through, in their order."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.world import World

PAGE = Path(__file__).parent.parent / "docs" / "walk-of-a-deployment.md"
ROW = re.compile(r"^\| \d+ \| `([\w.]+)` \| `([\w.]+)` \|", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    """Module and function of each row of the page."""
    return [(f"windlass.{room}", function) for function, room in ROW.findall(PAGE.read_text())]


@contextmanager
def entered() -> Iterator[list[tuple[str, str]]]:
    """The functions of `control` that are entered, each when it is entered for the first time."""
    found: dict[tuple[str, str], None] = {}
    names: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("windlass.control"):
            found.setdefault((module, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)
        names += found


async def test_a_deployment_goes_through_the_functions_of_the_page_in_their_order(world: World):
    app = await world.application()
    with entered() as names:
        assert (await world.post(f"/application/{app}/deploy")).status == 202
        await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert len(rows()) > 20
    assert [name for name in names if name in rows()] == rows()


async def test_functions_that_a_deployment_does_not_come_to_are_not_found(world: World):
    app = await world.application()
    with entered() as names:
        await world.get(f"/application/{app}")
    assert not set(names) & set(rows())
